"""`certcal compare`: runs side by side at the same radii."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import new_table, print_json, show_path, show_whole, wide_console
from certcal.settings import EvaluateSettings, Sections

Runs = Annotated[list[str], typer.Argument(metavar="RUN RUN …", help="Run folders, or names below runs/.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for page and tables.", metavar="FOLDER")]
Resamples = Annotated[int, typer.Option("--resamples", help="Bootstrap draws of the inputs; 0 leaves ± out.")]


@takes(evaluate=Part(EvaluateSettings, only=("radii",), panel="What to ask"))
def compare(
    runs: Runs, *, given: Sections, out: Out = Path("runs/compare"), resamples: Resamples = 200, json: o.Json = False
) -> None:
    """Put runs side by side: the same radii, their differences with their uncertainty, and which inputs changed.

    All are evaluated as the first was last. Writes compare.html, compare.md, differences.csv and changed.csv.

    [dim]Example:[/dim] certcal compare before after --radii 0,0.25,0.5
    """
    from certcal.report import about_runs, note, side_by_side_cells, side_by_side_records
    from certcal.runs import RunFolder, compare_runs

    asked = EvaluateSettings(**given["evaluate"])
    found = compare_runs([RunFolder.existing(run) for run in runs], out, radii=asked.radii, resamples=resamples)
    if json:
        print_json(side_by_side_records(found.beside))
        return
    heads, lines = side_by_side_cells(found.beside)
    table = new_table()
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place == 1 else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    console = wide_console()
    show_whole(console, table)
    console.print()
    for run in about_runs(found.beside):
        console.print(Text(run))
    console.print(Text(note(found.beside), style="dim"))
    show_path(console, "\nPage: ", found.page)
