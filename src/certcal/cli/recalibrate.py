"""`certcal recalibrate`: a map of the confidences that makes the certified errors small, tested on held-out inputs."""

from typing import TYPE_CHECKING

from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import takes
from certcal.cli.screen import new_table, print_json, show_path, tell, tell_unfinished, wide_console
from certcal.scalars import exactly
from certcal.settings import RecalibrateSettings, Sections

if TYPE_CHECKING:
    from certcal.runs import Recalibration


@takes(fit=RecalibrateSettings)
def recalibrate(run: o.RunName, *, given: Sections, no_figures: o.NoFigures = False, json: o.Json = False) -> None:
    """Fit a map of the confidences to a run's certificates and report what it does to inputs it was not fitted on.

    Predictions stay as they are. Writes map.json, scores over random splits and the report of the held-out inputs into
    the run's folder recalibration.

    [dim]Example:[/dim] certcal recalibrate mine --automatic
    """
    from certcal.runs import RunFolder, recalibrate_run

    folder, asked = RunFolder.existing(run), RecalibrateSettings(**given["fit"])
    result = recalibrate_run(folder, asked, figures=not no_figures, progress=True, tell=tell)
    tell_unfinished(result.unfinished, folder.path)
    if json:
        print_json(result.as_dict())
    else:
        _show(result)


def _show(result: "Recalibration") -> None:
    from certcal.recalibration import Choice
    from certcal.report import (
        answer,
        chosen_because,
        lead,
        listed,
        map_name,
        score_rows,
        splits_shown,
        warnings,
        without_map,
    )

    console = wide_console()
    splits, held = len(result.held_out.fit), len(result.held_out.test[result.held_out.kept])
    over = f"mean ± deviation over {splits_shown(result.held_out)}" if splits > 1 else "one split"
    kept = map_name(result.map)
    if over_all := without_map(result.held_out, result.radii):
        console.print(Text(over_all, style="bold"))
        kept = "the maps of other splits" if result.map.kind == "identity" else kept
    title = f"{kept} for {listed(result.radii)}, {over}, {held:,} inputs held out"
    console.print(Text(title, style="bold"))
    for radius in result.radii:
        table = new_table(f"at R = {exactly(radius)}" if len(result.radii) > 1 else "")
        for heading in ("before", "after", "±"):
            table.add_column(heading, justify="right", style="dim" if heading == "±" else "", no_wrap=True)
        for row in score_rows(result.held_out, radius, first=radius == result.radii[0]):
            table.add_row(*row)
        console.print(table)
    if result.map.kind == "identity":
        console.print(f"\n{lead(result.held_out, result.radii)}", style="yellow")
    if isinstance(result.compared, Choice):
        console.print(f"\n{chosen_because(result.compared, result.held_out)}")
    shown = next(place for place, row in enumerate(result.report) if row.radius == result.radius)
    headline = answer(result.report, shown)
    for told in warnings(result.held_out, result.radius):
        if told not in headline:
            console.print(f"\n{told}", style="yellow")
    whose = "Confidences as they are" if result.map.kind == "identity" else "The map that is kept"
    console.print(f"\n{whose}, on the {held:,} inputs held out of its split:")
    console.print(Text(headline, style="bold"))
    show_path(console, "\nMap:    ", result.folder / "map.json")
    show_path(console, "Report: ", result.folder / "report.html", " (inputs held out of the map's split)")
