"""`certcal evaluate`: other radii, levels or bounds from the evidence of a run; or a run of bounds from elsewhere."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import show_results, tell
from certcal.errors import InputError
from certcal.settings import TERMS, BoundsSettings, EvaluateSettings, LogSettings, Sections, change_evaluation

_BOUNDS = o.option_under(BoundsSettings.panel)(
    "--bounds",
    "Table of somebody's certificates, .parquet or .csv, or a certification log, .tsv, to make a run of.",
    "FILE",
)
_OF_NOISE = tuple(name for name in TERMS if name != "alpha")


@takes(
    evaluate=EvaluateSettings,
    bounds=Part(BoundsSettings, only=("norm", "domain", "sigma", "rounded_down")),
    logging=LogSettings,
)
def evaluate(
    run: o.RunName,
    *,
    config: o.Config = None,
    bounds: Annotated[Path | None, _BOUNDS] = None,
    given: Sections,
    paper: o.Paper = None,
    reset: o.Reset = False,
    out: Annotated[
        Path | None, o.option("--out", "Write into this folder, and leave the run as it is.", "FOLDER")
    ] = None,
    no_figures: o.NoFigures = False,
    json: o.Json = False,
) -> None:
    """Certify a run at other radii, levels or bounds, from its evidence, without running the model.

    What is not given stays as it was asked last. The results are written into the run folder, or with --out into
    another. With --bounds the run is made from certificates of somebody else: a verifier, a Lipschitz network, votes.

    [dim]Example:[/dim] certcal evaluate mine --radii 0,0.1,0.2,0.5 --alpha 0.0001 --population all

    [dim]From elsewhere:[/dim] certcal evaluate verified --bounds table.parquet --norm linf --radius 0.1 --alpha 0

    [dim]From a log:[/dim] certcal evaluate logged --bounds log.tsv --sigma 0.5 --alpha 0.001 --radii 0,0.25,0.5
    """
    from certcal.runs import RunFolder, copy_run, evaluate_run, import_bounds

    tools = o.trackers_of(given)
    folder = RunFolder.named(run) if bounds else RunFolder.existing(run)
    o.follow_paper(given["evaluate"], paper)
    o.name_files(given)
    if bounds is not None or folder.bounds.is_file():
        for name in _OF_NOISE:
            if name in given["evaluate"]:
                wanted = "be left out: it is for the draws of a smoothed model"
                raise InputError.expected(name, wanted, given["evaluate"][name])
    read = None
    if bounds is not None:
        stated = BoundsSettings(certifier="table", **given["bounds"])
        read = import_bounds(folder, bounds, stated, given["evaluate"], config, tell=tell)
    elif given["bounds"]:
        name, value = next(iter(given["bounds"].items()))
        mend = " (σ is that of the run's draws: certify another run with another)" * (name == "sigma")
        raise InputError.expected(name, "come with --bounds, of which it says something", f"{value}{mend}")
    known = folder.settings()
    if reset:
        known = replace(known, evaluate=EvaluateSettings())
    asked = change_evaluation(known, config, given["evaluate"])
    if bounds is None and (words := o.remembered(SimpleNamespace(evaluate=known.evaluate), given)):
        tell(f"remembered from {folder.path} (--reset forgets it): {words}")
    if out is not None:
        folder = copy_run(folder, out)
    show_results(evaluate_run(folder, asked, bounds=read, figures=not no_figures), as_json=json, log=tools)
