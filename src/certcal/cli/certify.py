"""`certcal certify`: from a model and data to evidence and a report."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import print_json, show_results, tell, tell_answer
from certcal.errors import InputError, several
from certcal.settings import (
    BoundsRunSettings,
    BoundsSettings,
    CertifySettings,
    Cluster,
    DataSettings,
    EvaluateSettings,
    LogSettings,
    ModelSettings,
    PlaceSettings,
    Sections,
    build_sections,
    load_settings,
    merged,
    read_toml,
)

if TYPE_CHECKING:
    from certcal.runs import Checkup, RunFolder


@takes(
    model=ModelSettings,
    data=DataSettings,
    certify=CertifySettings,
    place=PlaceSettings,
    cluster=Cluster,
    evaluate=EvaluateSettings,
    bounds=Part(
        BoundsSettings, only=("certifier", "norm", "relaxation", "constant", "last_layer"), panel="Without noise"
    ),
    logging=LogSettings,
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
    dry_run: Annotated[bool, o.output("--dry-run", "Only check model and data, and say what it will take.")] = False,
    no_figures: o.NoFigures = False,
    json: o.Json = False,
) -> None:
    """Draw the evidence of a smoothed model once, certify it and write the report; or certify a network without noise.

    The same command goes on with an interrupted run; with a larger --n it adds draws. You may add draws whenever you
    like, also because of what a report showed: certificates stay true. They are narrower if looks are planned, with
    --stages.

    [dim]Example:[/dim] certcal certify mine --model resnet110 --weights net.pt --data cifar10 --sigma 0.25

    [dim]Without noise:[/dim] certcal certify plain --certifier lirpa --radii 1/255,2/255 --model lenet --data mnist

    [dim]Again, with what the folder remembers:[/dim] certcal certify mine
    """
    from certcal.runs import RunFolder, certify_run, check_factories, check_run, evaluate_run

    folder, where, tools = RunFolder.named(run), o.engine_of(given), o.trackers_of(given)
    o.follow_paper(given["evaluate"], paper)
    o.name_tables(given["evaluate"])
    o.name_classes(given["data"])
    certifier = given["bounds"].get("certifier", "smoothing")
    plain = folder.bounds.is_file() or certifier != "smoothing"
    if plain or (folder.config.is_file() and "bounds" in read_toml(folder.config)):
        ways = {"checks": not no_checks, "dry_run": dry_run, "figures": not no_figures, "json": json}
        _verify(folder, config, given, trust=trust, log=tools, **ways)
        return
    if given.pop("bounds"):
        raise InputError.expected(
            "norm", "come with --certifier lirpa or lipschitz, like other options of theirs", "none"
        )
    kept = folder.config if folder.config.is_file() and not (config or reset) else None
    settings = load_settings(config or kept, given)
    if kept and (words := o.remembered(settings, given)):
        tell(f"remembered from {folder.path} (--reset forgets it): {words}")
    check_factories([settings.model], folder.path, named=given["model"].get("name"), trust=trust)
    if settings.model.weights is None:
        tell(_without_weights(settings.model.name))
    if dry_run:
        found, inputs, seconds = check_run(settings, tell=tell)
        _show_dry_run(found, seconds, f"{several(inputs)} × {settings.certify.n:,} draws", json=json)
        return

    def first() -> None:
        tell_answer(evaluate_run(folder, settings.evaluate, figures=False))

    certify_run(folder, settings, engine=where, progress=True, checks=not no_checks, tell=tell, first=first)
    tell(f"evidence: {folder.evidence}; its report is made next")
    show_results(evaluate_run(folder, settings.evaluate, figures=not no_figures), as_json=json, log=tools)


def _without_weights(name: str) -> str:
    """Which weights a model has that was given none."""
    if ":" in name or "." in name:  # a factory, a library's or a file
        return f"no --weights: {name} is certified with the weights that it comes with"
    return f"no --weights: {name} has random weights; give --weights FILE for those that were trained"


def _verify(
    folder: "RunFolder",
    config: Path | None,
    given: Sections,
    *,
    trust: bool,
    checks: bool,
    dry_run: bool,
    figures: bool,
    json: bool,
    log: Sequence[str],
) -> None:
    """Certify a network without noise."""
    from certcal.runs import check_factories, evaluate_run, foresee_verify, verify_run

    for section in ("certify", "place", "cluster"):
        for name, value in given.pop(section, {}).items():
            raise InputError.expected(name, "be left out: it is for the draws of a smoothed model", value)
    source = config or (folder.config if folder.config.is_file() else None)
    values = merged({} if source is None else read_toml(source), given)
    settings = build_sections(BoundsRunSettings, values, str(source or "options"))
    _check_theirs(settings.bounds.certifier, given)
    check_factories([settings.model], folder.path, named=given["model"].get("name"), trust=trust)
    if dry_run:
        found, inputs, seconds = foresee_verify(settings, tell=tell)
        _show_dry_run(found, seconds, f"{inputs:,} inputs without noise", json=json)
        return
    bounds = verify_run(folder, settings, progress=True, checks=checks, tell=tell)
    show_results(
        evaluate_run(folder, folder.settings().evaluate, bounds=bounds, figures=figures), as_json=json, log=log
    )


def _check_theirs(certifier: str, given: Sections) -> None:
    """Refuse what this certifier would not use."""
    for name, owner in (("relaxation", "lirpa"), ("constant", "lipschitz"), ("last_layer", "lipschitz")):
        if name in given["bounds"] and certifier != owner:
            raise InputError.expected(name, f"come with --certifier {owner}", f"{certifier}")
    if alpha := given["evaluate"].get("alpha"):
        raise InputError.expected("alpha", "be left out: what is proven without noise has no error probability", alpha)


def _show_dry_run(found: "Checkup", seconds: float, what: str, *, json: bool) -> None:
    """What checks found, which was told already, and how long it takes."""
    from certcal.progress import in_words

    if json:
        print_json(asdict(found) | {"estimated_seconds": seconds})
    else:
        print(f"{what}: about {in_words(seconds)}.")
