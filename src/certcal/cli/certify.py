"""`certcal certify`: from a model and data to evidence and a report."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import print_json, show_results, tell, tell_answer
from certcal.errors import InputError, several
from certcal.progress import in_words
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
    RunSettings,
    Sections,
    build_sections,
    load_settings,
    merged,
    read_toml,
)


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
    from certcal import runs

    folder, where, tools = runs.RunFolder.named(run), o.engine_of(given), o.trackers_of(given)
    o.follow_paper(given["evaluate"], paper)
    o.name_files(given)
    kept = folder.config if folder.config.is_file() else None
    plain = folder.bounds.is_file() or given["bounds"].get("certifier", "smoothing") != "smoothing"
    settings: RunSettings | BoundsRunSettings
    if plain or (kept is not None and "bounds" in read_toml(kept)):
        if where != "local":
            raise InputError.expected("engine", "be left out: bounds without noise are computed here", "'ray'")
        settings = _without_noise(config or kept, given)
    else:
        if given.pop("bounds"):
            wanted = "come with --certifier lirpa or lipschitz, like other options of theirs"
            raise InputError.expected("norm", wanted, "none")
        kept = None if config or reset else kept
        settings = load_settings(config or kept, given)
        if kept and (words := o.remembered(settings, given)):
            tell(f"remembered from {folder.path} (--reset forgets it): {words}")
    runs.check_factories([settings.model], folder.path, named=given["model"].get("name"), trust=trust)
    if isinstance(settings, RunSettings) and settings.model.weights is None:
        tell(_without_weights(settings.model.name))
    if dry_run:
        if isinstance(settings, RunSettings):
            found, inputs, seconds = runs.check_run(settings, tell=tell)
            what = f"{several(inputs)} × {settings.certify.n:,} draws"
        else:
            found, inputs, seconds = runs.foresee_verify(settings, tell=tell)
            what = f"{inputs:,} inputs without noise"
        if json:
            print_json(asdict(found) | {"estimated_seconds": seconds})
        else:
            print(f"{what}: about {in_words(seconds)}.")
        return
    bounds, asked = None, settings.evaluate
    if isinstance(settings, RunSettings):

        def first() -> None:
            tell_answer(runs.evaluate_run(folder, asked, figures=False))

        runs.certify_run(folder, settings, engine=where, progress=True, checks=not no_checks, tell=tell, first=first)
        tell(f"evidence: {folder.evidence}; its report is made next")
    else:
        bounds = runs.verify_run(folder, settings, progress=True, checks=not no_checks, tell=tell)
        asked = folder.settings().evaluate
    results = runs.evaluate_run(folder, asked, bounds=bounds, figures=not no_figures)
    show_results(results, as_json=json, log=tools)


def _without_weights(name: str) -> str:
    """Which weights a model has that was given none."""
    if ":" in name or "." in name:  # a factory, a library's or a file
        return f"no --weights: {name} is certified with the weights that it comes with"
    return f"no --weights: {name} has random weights; give --weights FILE for those that were trained"


def _without_noise(source: Path | None, given: Sections) -> BoundsRunSettings:
    """The settings of a network without noise; what is for draws, or for another certifier, is refused."""
    for name, value in given.pop("certify").items():
        raise InputError.expected(name, "be left out: it is for the draws of a smoothed model", value)
    values = merged(read_toml(source), given)
    settings = build_sections(BoundsRunSettings, values, str(source or "options"))
    for name, owner in (("relaxation", "lirpa"), ("constant", "lipschitz"), ("last_layer", "lipschitz")):
        if name in given["bounds"] and settings.bounds.certifier != owner:
            raise InputError.expected(name, f"come with --certifier {owner}", settings.bounds.certifier)
    if alpha := given["evaluate"].get("alpha"):
        raise InputError.expected("alpha", "be left out: what is proven without noise has no error probability", alpha)
    return settings
