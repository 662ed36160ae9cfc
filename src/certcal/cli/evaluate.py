"""`certcal evaluate`: other radii, levels or bounds from the evidence of a run, in seconds."""

from certcal.cli import options as o
from certcal.cli.declare import takes
from certcal.cli.screen import show_results
from certcal.settings import EvaluateSettings, Sections, change_evaluation


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
    from certcal.runs import RunFolder, evaluate_run

    folder = RunFolder.existing(run)
    o.follow_paper(given["evaluate"], paper)
    asked = change_evaluation(folder.settings(), config, given["evaluate"])
    show_results(evaluate_run(folder, asked, figures=not no_figures), as_json=json)
