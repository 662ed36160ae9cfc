"""`certcal report`: write the page and the figures of a run again, as it was last evaluated."""

from typing import Annotated

import typer

from certcal.cli import options as o
from certcal.cli.screen import tell_stale
from certcal.files import printable


def report(
    run: o.RunName,
    no_figures: o.NoFigures = False,
    card: Annotated[
        bool, o.option("--card", "Also write card.md: a model card's section, and results for the Hub.")
    ] = False,
    open: Annotated[bool, o.option("--open", "Show the page in a browser.")] = False,
) -> None:
    """Write report.html and the figures of a run again, as it was last evaluated.

    [dim]Example:[/dim] certcal report mine --open
    """
    from certcal.runs import RunFolder, rewrite_report

    results = rewrite_report(RunFolder.existing(run), figures=not no_figures, card=card)
    tell_stale(results)
    for path in (results.page, *([results.card] if card else [])):
        print(printable(str(path)))
    if open:
        typer.launch(str(results.page))
