"""`certcal compare`: runs side by side at the same radii."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import new_table, print_json, show_path, show_whole, tell, wide_console
from certcal.settings import EvaluateSettings, Sections

Runs = Annotated[list[str], typer.Argument(metavar="RUN RUN …", help="Run folders, or names below runs/.")]
Out = Annotated[Path, o.option("--out", "Folder for page and tables.", "FOLDER")]
STYLES = {"better": "green", "worse": "red"}
Resamples = Annotated[int, o.option("--resamples", "Bootstrap draws of the inputs, at least 100; 0 leaves ± out.")]


@takes(evaluate=Part(EvaluateSettings, only=("radii",), panel="What to ask"))
def compare(
    runs: Runs, *, given: Sections, out: Out = Path("runs/compare"), resamples: Resamples = 200, json: o.Json = False
) -> None:
    """Put runs side by side: the same radii, their differences with their uncertainty, and which inputs changed.

    All are evaluated as the first was last, and errors are of the inputs that all certify. Writes
    compare.html, compare.md, differences.csv and changed.csv.

    [dim]Example:[/dim] certcal compare before after --radii 0,0.25,0.5
    """
    from certcal.report import default_view, side_by_side_cells, side_by_side_records, side_by_side_words
    from certcal.runs import RunFolder, compare_runs

    asked = EvaluateSettings(**given["evaluate"])
    folders = [RunFolder.existing(run) for run in runs]
    beside = compare_runs(folders, out, radii=asked.radii, resamples=resamples, tell=tell)
    if json:
        print_json(side_by_side_records(beside))
        return
    verdict, about, note = side_by_side_words(beside)
    heads, lines = side_by_side_cells(beside, default_view(beside.reports[0]))
    table = new_table()
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place == 1 else "right", no_wrap=True)
    for line in lines:
        table.add_row(*(Text(cell, style=STYLES.get(cell.rpartition(" ")[2], "")) for cell in line))
    console = wide_console()
    console.print(Text(verdict, style="bold"))
    console.print()
    show_whole(console, table)
    console.print()
    console.print(Text("\n".join(about)))
    console.print(Text(note, style="dim"))
    show_path(console, "\nPage, with all radii: ", out / "compare.html")
