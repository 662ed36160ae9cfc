"""What is said of a run's data and checks, and where other draws or inputs come than were asked for."""

from collections.abc import Iterator

from certcal.data import ImageData
from certcal.errors import several
from certcal.runs.checkup import Checkup
from certcal.runs.folder import RunFolder, Tell
from certcal.runs.load import training_facts
from certcal.settings import CertifySettings, Precision, RunSettings
from certcal.smoothing import Evidence, planned_looks


def about_training(settings: RunSettings, data: ImageData, *, sigma: float | None = None) -> list[str]:
    """What to say where the folder of the weights tells that they were trained on these inputs, or under other noise.

    `sigma` is the noise that is certified, where it is not still to be chosen.
    """
    facts, told = training_facts(settings.model), []
    if facts.get("source") == [data.source, settings.data.split]:
        told.append(f"{data.source} is what the model was trained on: certify inputs that it has not seen.")
    trained = facts.get("sigma")
    if trained and sigma is not None and not 0.8 <= sigma / trained <= 1.25:
        told.append(f"The model was trained under σ = {trained:g}, and is certified under σ = {sigma:g}.")
    return told


def before_drawing(run: RunFolder, asked: CertifySettings, device: str, inputs: int) -> Iterator[str]:
    """Where other draws or inputs come than were asked for, looks that are not planned, and options that slow down."""
    data, there = run.sources().get("data", {}), run.sources().get("evidence", {}).get("draws", 0)
    if asked.n % asked.chunk:
        rounded = -(-asked.n // asked.chunk) * asked.chunk
        yield f"draws: {asked.n:,} become {rounded:,}, as they are made in chunks of {asked.chunk}"
    stages = tuple(-(-stage // asked.chunk) * asked.chunk for stage in asked.stages or ())
    if stages and (planned := planned_looks(run.shards)) not in (None, stages):
        looks = ", ".join(f"{draws:,}" for draws in planned or ()) or "none"
        yield (
            f"stages: the looks of this folder were planned when it was begun ({looks}); other numbers are not "
            "planned, and have wider limits. --stages in a new folder, with another --seed, plans them"
        )
    if (each := there // max(1, data.get("inputs", 1))) > asked.n:
        yield f"draws: there are {each:,} of each input already; all are kept and used, though --n asks for {asked.n:,}"
    slower = [f"--precision {asked.precision}"] * (asked.precision != Precision.FLOAT32)
    slower += ["--compile"] * bool(asked.compile)
    if device == "cpu" and slower:
        yield f"speed: {' and '.join(slower)} may be slower on a CPU than without"
    if (known := data.get("inputs", 0)) > inputs:
        yield (
            f"inputs: the run has {known:,}, and is now about {inputs:,} of them; what was drawn of the others stays "
            f"in {run.shards}, and counts again with a larger --limit; attacks on all of them are left out"
        )


def after_drawing(evidence: Evidence, asked: CertifySettings) -> Iterator[str]:
    """Which inputs have numbers of draws that were not planned, and what stages saved."""
    stages = evidence.header.stages
    if late := int((~evidence.header.planned(evidence.draws)).sum()):
        plan = ", ".join(f"{stage:,}" for stage in stages) or "none"
        yield (
            f"draws: planned were {plan}, and {late:,} of {len(evidence):,} inputs have others, with wider limits, "
            "which hold at every number; narrower ones need other draws: a new folder, another --seed, and --n or "
            "--stages planned there"
        )
    if asked.stages:
        stopped, saved = int((evidence.draws < max(stages, default=0)).sum()), several(evidence.draws_saved(), "draw")
        told = f"stages: {stopped:,} of {several(len(evidence))} stopped early, {saved} saved"
        yield (
            told
            if stopped
            else f"{told}: an input stops where it is decided at all radii, and fewer --radii are sooner"
        )


def tell_checkup(data: ImageData, checkup: Checkup | None, tell: Tell) -> None:
    """Say what there is of data, and what was seen of it and the model."""
    present = {name: count for name, count in data.counts().items() if count}
    each = f", {min(present.values())} to {max(present.values())} of each"
    if len(present) <= 10:
        each = f" ({', '.join(f'{name} {count}' for name, count in present.items())})"
    tell(f"data: {data.name}, {several(len(data))} of {len(present)} of {len(data.classes)} classes{each}")
    if checkup is None:
        return
    verb = "is" if checkup.inputs == 1 else "are"
    tell(f"checks: {checkup.accuracy:.0%} of {several(checkup.inputs)} {verb} right without noise")
    if checkup.scan:  # not of a network that is certified without noise
        tell("checks: under noise, and the radius up to which half stay right (estimates):")
    for one in checkup.scan:
        radius = f"≥ {one.radius:.2g}, as far as so few draws show" if one.at_least else f"≈ {one.radius:.2g}"
        tell(f"checks:   σ = {one.sigma:<7g} {one.accuracy:4.0%} right, R {radius}")
    for warning in checkup.warnings:
        tell(f"warning: {warning}")
