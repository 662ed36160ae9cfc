"""`certcal evaluate`: other radii, levels or bounds from the evidence of a run, in seconds."""

from typing import TYPE_CHECKING

from certcal.cli import options as o
from certcal.cli.declare import takes
from certcal.cli.screen import print_metrics, show_report, tell_stale
from certcal.settings import EvaluateSettings, Sections

if TYPE_CHECKING:
    from certcal.runs import RunFolder


@takes(evaluate=EvaluateSettings)
def evaluate(
    run: o.RunName,
    *,
    config: o.Config = None,
    given: Sections,
    paper: o.Paper = None,
    no_figures: o.NoFigures = False,
    json: o.Json = False,
) -> None:
    """Certify a run at other radii, levels or bounds, from its evidence, without running the model.

    What is not given stays as it was asked last. The results are written into the run folder.

    [dim]Example:[/dim] certcal evaluate mine --radii 0,0.1,0.2,0.5 --alpha 0.0001 --population all
    """
    from certcal.runs import RunFolder
    from certcal.settings import change_evaluation

    folder = RunFolder.existing(run)
    o.follow_paper(given["evaluate"], paper)
    asked = change_evaluation(folder.settings(), config, given["evaluate"])
    finish(folder, asked, figures=not no_figures, json=json)


def finish(folder: "RunFolder", asked: EvaluateSettings, *, figures: bool, json: bool) -> None:
    """Evaluate, write everything and show it."""
    from certcal.runs.evaluate import evaluate_run
    from certcal.runs.facts import title

    report = evaluate_run(folder, asked, figures=figures)
    tell_stale(folder)
    if json:
        print_metrics(folder)
    else:
        show_report(report, title(folder, report, folder.sources()), folder.path / "report.html")
