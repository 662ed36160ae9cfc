"""`certcal certify`: from a model and data to evidence and a report."""

from typing import Annotated

import typer

from certcal.cli import options as o
from certcal.cli.declare import takes
from certcal.cli.screen import clock, print_json, show_results, tell, tell_answer
from certcal.settings import (
    CertifySettings,
    Cluster,
    DataSettings,
    EvaluateSettings,
    ModelSettings,
    PlaceSettings,
    RunSettings,
    Sections,
    load_settings,
)


@takes(
    model=ModelSettings,
    data=DataSettings,
    certify=CertifySettings,
    place=PlaceSettings,
    cluster=Cluster,
    evaluate=EvaluateSettings,
)
def certify(
    run: o.RunName,
    *,
    config: o.Config = None,
    given: Sections,
    paper: o.Paper = None,
    trust: o.Trust = False,
    reset: o.Reset = False,
    no_checks: o.NoChecks = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only check model and data, and say what it will take.", rich_help_panel="Output"
        ),
    ] = False,
    no_figures: o.NoFigures = False,
    json: o.Json = False,
) -> None:
    """Draw the evidence of a smoothed model once, certify it and write the report.

    The same command goes on with an interrupted run; with a larger --n it adds draws. You may add draws whenever you
    like, also because of what a report showed: certificates stay true. They are narrower if looks are planned, with
    --stages.

    [dim]Example:[/dim] certcal certify mine --model resnet110 --weights net.pt --data cifar10 --sigma 0.25

    [dim]Again, with what the folder remembers:[/dim] certcal certify mine
    """
    from certcal.runs import RunFolder, certify_run, check_factories, evaluate_run

    folder, where = RunFolder.named(run), o.engine_of(given)
    o.follow_paper(given["evaluate"], paper)
    kept = folder.config if folder.config.is_file() and not (config or reset) else None
    settings = load_settings(config or kept, given)
    if kept and (words := o.remembered(settings, given)):
        tell(f"remembered from {folder.path} (--reset forgets it): {words}")
    check_factories([settings.model], folder.path, named=given["model"].get("name"), trust=trust)
    if settings.model.weights is None:
        tell("no --weights: certifying the network as its factory returns it")
    if dry_run:
        _show_dry_run(settings, json=json)
        return

    def first() -> None:
        tell_answer(evaluate_run(folder, settings.evaluate, figures=False))

    certify_run(folder, settings, engine=where, progress=True, checks=not no_checks, tell=tell, first=first)
    tell(f"evidence: {folder.evidence}")
    show_results(evaluate_run(folder, settings.evaluate, figures=not no_figures), as_json=json)


def _show_dry_run(settings: RunSettings, *, json: bool) -> None:
    from certcal.runs import check_run

    found, inputs = check_run(settings, tell=tell)
    seconds = inputs * (settings.certify.n + settings.certify.n0) / found.draws_per_second
    if json:
        print_json(found.as_dict() | {"estimated_seconds": seconds})
    else:
        print(f"{inputs:,} inputs × {settings.certify.n:,} draws: about {clock(seconds)}.")
