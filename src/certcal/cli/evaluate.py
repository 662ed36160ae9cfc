"""`certcal evaluate`: other radii, levels or bounds from the evidence of a run, in seconds."""

from typing import TYPE_CHECKING

import typer

from certcal.cli import options as o
from certcal.cli.screen import print_metrics, show_report, tell_stale

if TYPE_CHECKING:
    from certcal.runs import EvaluateSettings, RunFolder

HELP = """Certify a run at other radii, levels or bounds, from its evidence, without running the model.

What is not given stays as it was asked last. The results are written into the run folder.

[dim]Example:[/dim] certcal evaluate mine --radii 0,0.1,0.2,0.5 --alpha 0.0001 --population all
"""


def add_to(app: typer.Typer) -> None:
    """Give the verb to the command."""
    app.command("evaluate", help=HELP)(evaluate)


def evaluate(
    run: o.RunName,
    config: o.Config = None,
    radii: o.Radii = None,
    alpha: o.Alpha = None,
    delta: o.Delta = None,
    method: o.MethodOption = None,
    population: o.PopulationOption = None,
    n_bins: o.NBins = None,
    approximate: o.Approximations = None,
    paper: o.Paper = None,
    no_figures: o.NoFigures = False,
    json: o.Json = False,
) -> None:
    """Evaluate a run that has evidence."""
    from certcal.runs import RunFolder
    from certcal.runs.settings import change_evaluation

    folder = RunFolder.existing(run)
    changes = o.evaluation_options(
        radii=radii,
        alpha=alpha,
        delta=delta,
        method=method,
        population=population,
        n_bins=n_bins,
        approximate=approximate,
        paper=paper,
    )
    finish(folder, change_evaluation(folder.settings(), config, changes), figures=not no_figures, json=json)


def finish(folder: "RunFolder", asked: "EvaluateSettings", *, figures: bool, json: bool) -> None:
    """Evaluate, write everything and show it."""
    from certcal.runs.evaluate import evaluate_run
    from certcal.runs.facts import title

    report = evaluate_run(folder, asked, figures=figures)
    tell_stale(folder)
    if json:
        print_metrics(folder)
    else:
        show_report(report, title(folder, report, folder.sources()), folder.path / "report.html")
