"""What people see in the terminal."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from certcal.errors import CertcalError, several
from certcal.files import printable
from certcal.scalars import exactly

if TYPE_CHECKING:
    from certcal.evaluation import Report
    from certcal.runs import Results


class Screen(Console):
    """A terminal that names in files cannot steer: of what is shown, only the colours are escape sequences."""

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        for piece in super().render(*arguments, **options):
            yield piece if piece.control else Segment(printable(piece.text), piece.style)


def complain(text: str) -> None:
    """An error, in red where there is colour, on standard error."""
    Screen(stderr=True, soft_wrap=True, highlight=False).print(Text(text, style="red"))


def tell(text: str) -> None:
    """A line on what is happening, on standard error."""
    Screen(stderr=True, highlight=False, soft_wrap=True).print(Text(text, style="dim"))


def tell_unfinished(how_far: str | None, run: Path) -> None:
    """Say so where a run is not finished."""
    if how_far:
        tell(f"not finished: {how_far} Go on with: certcal certify {run}")


def tell_stale(results: "Results") -> None:
    """Say so where files had been changed, or attacks are about other evidence or cannot be read."""
    tell_unfinished(results.unfinished, results.run.path)
    if results.altered:
        tell(f"not as certcal wrote them, now written again: {', '.join(results.altered)}")
    if left_out := results.attacks.left_out:
        tell(f"attack: {left_out}; again with: certcal attack {results.run.path}")


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=1, allow_nan=False))


def show_results(results: "Results", *, as_json: bool, log: Sequence[str] = ()) -> None:
    """The table over radii, the guarantee in words and where the page is; or what metrics.json holds.

    Then the results are logged to tools.
    """
    tell_stale(results)
    if as_json:
        print_json(results.metrics)
    else:
        _show(results)
    for tool in log:
        _log(results, tool)


def _log(results: "Results", tool: str) -> None:
    """Log results to a tool. They are in the run's folder whatever becomes of it."""
    from certcal.integrations import log_report

    run = results.run
    known: dict[str, Any] = {"settings": vars(run.settings()), "page": results.page}
    try:
        place = log_report(results.report, tool, name=run.path.name, folder=run.path / "tensorboard", **known)
    except CertcalError as error:
        raise CertcalError(f"{str(error).rstrip('.')}. Again with: certcal evaluate {run.path} --log {tool}") from error
    tell(f"{tool}: {place}")


def _show(results: "Results") -> None:
    """The table over radii, the guarantee in words and where the page is."""
    from certcal.report import (
        answer,
        answer_about,
        clean_words,
        default_view,
        explanation,
        guarantee,
        main_cells,
        why_first,
    )

    console, report = wide_console(), results.report
    shown = default_view(report)
    heads, lines = main_cells(report)
    table = new_table(numbers=heads, title=results.title, vertical="bottom")
    for position, line in enumerate(lines):
        table.add_row(*line, style="bold" if position == shown else None)
    console.print()
    console.print(Text(answer(report, shown), style="bold"))
    console.print(Text(answer_about(report, shown), style="dim"))
    console.print()
    console.print(table)
    if words := clean_words(report):
        console.print(Text(words, style="dim"))
    console.print()
    why = f"Shown: R = {exactly(report.rows[shown].radius)}, {why_first(report)}."
    sentence = Text(guarantee(report, shown))
    console.print(Panel(sentence, border_style="cyan", title="guarantee", title_align="left"))
    console.print(Text(explanation(report, shown), style="dim"))
    console.print(Text(f"{why} Every radius has its sentence in the report.", style="dim"))
    _show_acceptance(console, report, shown)
    show_path(console, "\nReport: ", results.page)


def _show_acceptance(console: Console, report: "Report", position: int) -> None:
    """What is sure of the inputs that are accepted from the threshold, and of each group."""
    from certcal.report import acceptance, group_cells, group_words, wanted_acceptance

    for sentence in (acceptance(report, position), wanted_acceptance(report, position)):
        if sentence:
            console.print(Text(f"\n{sentence}"))
    for table in report.groups[position] if report.groups else ():
        (name, *numbers), lines = group_cells(table)
        title = f"By {table.column} (all guarantees together; R = {exactly(table.radius)})"
        shown = new_table(name, numbers=numbers, title=title, vertical="bottom")
        for line in lines:
            shown.add_row(*line)
        console.print()
        console.print(shown)
        for words in group_words(table):
            console.print(Text(words, style="dim"))


def tell_answer(results: "Results") -> None:
    """The answer so far, of a run that goes on."""
    from certcal.report import answer, default_view

    report = results.report
    each = "" if report.evidence is None else f" × {report.evidence.draws.max():,} draws"
    tell(f"first look, {several(report.inputs)}{each}: {answer(report, default_view(report))}; {results.page}")


def new_table(*words: str, numbers: Sequence[str] = (), title: str | None = None, **look: Any) -> Table:
    """An empty table as all of ours look: columns of words with these headings, then columns of numbers."""
    named = None if title is None else Text(title)
    table = Table(title=named, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for place, heading in enumerate((*words, *numbers)):
        table.add_column(heading, justify="left" if place < len(words) else "right", **look)
    return table


def show_path(console: Console, label: str, path: Path | str, after: str = "") -> None:
    """Where something is, on a line of its own."""
    console.print(Text.assemble(label, (str(path), "bold"), after), soft_wrap=True)


def wide_console() -> Console:
    """Standard output, at least 80 columns wide: a narrower terminal breaks lines, but no number."""
    console = Screen(highlight=False)
    return Screen(highlight=False, width=80) if console.width < 80 else console


def show_whole(console: Console, table: Table) -> None:
    """A table of which no number is cut: wider than the screen if it must be."""
    wide = Screen(highlight=False, width=1000)
    needed = max(console.width, wide.measure(table).maximum)
    Screen(highlight=False, width=needed, soft_wrap=True).print(table)


def in_percent(value: float, side: Literal["up", "down"]) -> str:
    """A certified score in percent, rounded to the side on which it stays true; a dash where there is none."""
    from certcal.evaluation import Rounding
    from certcal.report import percent

    return "—" if value != value else percent(value, Rounding(side))
