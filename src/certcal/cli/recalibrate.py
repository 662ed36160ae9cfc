"""`certcal recalibrate`: a map of the confidences that makes the certified errors small, tested on held-out inputs."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.screen import print_json, wide_console

if TYPE_CHECKING:
    from certcal.runs import Recalibration

HELP = """Fit a map of the confidences to a run's certificates and report what it does to inputs it was not fitted on.

Predictions stay as they are. Writes map.json, scores over random splits and the report of the held-out inputs into
the run's folder recalibration.

[dim]Example:[/dim] certcal recalibrate mine --radius 0.25 --clean-weight 0.2
"""


def add_to(app: typer.Typer) -> None:
    """Give the verb to the command."""
    app.command("recalibrate", help=HELP)(recalibrate)


def recalibrate(
    run: o.RunName,
    radius: Annotated[float | None, o.fitting("--radius", "Radius to fit at (default: the largest learnable).")] = None,
    method: Annotated[str | None, o.fitting("--method", "isotonic, temperature or beta (default: isotonic).")] = None,
    objective: Annotated[
        str | None,
        o.fitting("--objective", "Certified score to make small: brier, log or calibration (default: brier)."),
    ] = None,
    clean_weight: Annotated[
        float | None, o.fitting("--clean-weight", "Weight of the score without an attack, 0 to 1 (default: 0.5).")
    ] = None,
    holdout: Annotated[float | None, o.fitting("--holdout", "Share of inputs held out (default: 0.5).")] = None,
    folds: Annotated[int | None, o.fitting("--folds", "Hold out each of so many parts in turn instead.")] = None,
    repeats: Annotated[int | None, o.fitting("--repeats", "Random splits to average over (default: 20).")] = None,
    seed: Annotated[int | None, o.fitting("--seed", "Seed of the splits (default: 0).")] = None,
    no_figures: o.NoFigures = False,
    json: o.Json = False,
) -> None:
    """Recalibrate a run that has evidence."""
    from certcal.runs import RecalibrateSettings, RunFolder, recalibrate_run
    from certcal.runs.recalibrate import FOLDER, describe

    folder = RunFolder.existing(run)
    asked = RecalibrateSettings(
        **o.given(
            radius=radius, method=method, objective=objective, clean_weight=clean_weight,
            holdout=holdout, folds=folds, repeats=repeats, seed=seed,
        )
    )  # fmt: skip
    result = recalibrate_run(folder, asked, figures=not no_figures)
    if json:
        print_json(describe(result, asked))
    else:
        _show(result, str(folder.path / FOLDER))


def _show(result: "Recalibration", where: str) -> None:
    before, after = result.summary()
    console = wide_console()
    splits, held = len(result.held_out.fit), len(result.held_out.test[0])
    title = f"{result.map.kind} map for R = {result.radius:g}, mean over {splits} splits, {held:,} inputs held out"
    console.print(Text(title, style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "before", "after"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, label, form in (
        ("certified_ece", "certified ECE, certified inputs", "{:.2%}"),
        ("certified_brier", "certified Brier score, certified inputs", "{:.4f}"),
        ("ece", "ECE without an attack, certified inputs", "{:.2%}"),
        ("brier_all", "Brier score without an attack, all inputs", "{:.4f}"),
        ("auroc", "AUROC: telling right from wrong, all inputs", "{:.3f}"),
        ("levels", "distinct confidences, all inputs", "{:.0f}"),
    ):
        table.add_row(label, *(form.format(getattr(scores, name)) for scores in (before, after)))
    console.print(table)
    if result.held_out.without_map:
        hint = f"{result.held_out.without_map} of {splits} splits had nothing to learn from and count as unchanged."
        console.print(f"\n{hint}", style="yellow")
    if after.auroc < 0.5 + (before.auroc - 0.5) / 2:
        console.print("\nThe map tells right from wrong far less well: look at AUROC.", style="yellow")
    if after.levels < 2:
        console.print("\nThe map is constant and no longer tells right from wrong.", style="yellow")
        console.print("Try a larger --clean-weight or a smaller --radius.", style="yellow")
    console.print(Text.assemble("\nMap:    ", (f"{where}/map.json", "bold")), soft_wrap=True)
    page = Text.assemble("Report: ", (f"{where}/report.html", "bold"), " (held-out inputs of the first split)")
    console.print(page, soft_wrap=True)
