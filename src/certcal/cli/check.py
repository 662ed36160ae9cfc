"""`certcal check`: a gate for CI. The exit code says whether a run meets what is required of it."""

from pathlib import Path
from typing import Annotated

import typer

from certcal.cli import options as o
from certcal.cli.screen import complain, print_json, tell
from certcal.files import printable

Required = Annotated[
    list[str], o.option("--require", 'What must hold, as "guaranteed_ece@0.25 <= 0.30"; may be repeated.', "TEXT")
]
Written = Annotated[Path | None, o.option("--junit", "Write JUnit XML for CI.", "FILE")]
Summary = Annotated[Path | None, o.option("--markdown", "Add a table in Markdown to this file.", "FILE")]


def check(
    run: o.RunName, require: Required, junit: Written = None, markdown: Summary = None, json: o.Json = False
) -> None:
    """Exit with 0 if a run meets every requirement and with 1 if not, saying which.

    Metrics are those of metrics.json; "guaranteed" is another word for "joint". Radii need not be those of the last
    evaluation: they are evaluated from the evidence, with its other settings.

    [dim]Example:[/dim] certcal check mine --require "guaranteed_ece@0.25 <= 0.30" --require "certified_accuracy@0.25
    >= 60 %"
    """
    from certcal.report import judgements_markdown, to_junit
    from certcal.runs import RunFolder, caution_for, judge_run

    folder = RunFolder.existing(run)
    found = judge_run(folder, require)
    failed, caution = [one for one in found if not one.passed], caution_for(folder, found)
    if junit is not None:
        junit.write_text(to_junit(found, printable(folder.path.name), caution), encoding="utf-8")
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write(judgements_markdown(found, printable(folder.path.name), caution) + "\n")
    if json:
        print_json([one.as_dict() for one in found])
    elif not failed:
        print("\n".join(map(str, found)))
    if caution:
        tell(f"warning: {caution}")
    if failed:
        complain("; ".join(map(str, failed)))
        raise typer.Exit(1)
