"""What is said of a run's data and checks, and where other draws or inputs come than were asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from certcal.errors import several
from certcal.runs.checkup import Checkup
from certcal.runs.folder import RunFolder
from certcal.runs.load import training_facts
from certcal.settings import CertifySettings, Precision, RunSettings
from certcal.smoothing import Evidence

if TYPE_CHECKING:
    from certcal.data import ImageData


def class_counts(data: "ImageData") -> str:
    """How many inputs there are of each class, in words."""
    present = {name: count for name, count in data.counts().items() if count}
    told = f"{several(len(data))} of {len(present)} of {len(data.classes)} classes"
    if len(present) <= 10:
        return f"{told} ({', '.join(f'{name} {count}' for name, count in present.items())})"
    return f"{told}, {min(present.values())} to {max(present.values())} of each"


def about_training(settings: RunSettings, data: "ImageData", *, sigma: float | None = None) -> list[str]:
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


def tell_draws(run: RunFolder, asked: CertifySettings, tell: Callable[[str], None]) -> None:
    """Say so where other numbers of draws come than were asked for, or looks that are not planned."""
    from certcal.smoothing import planned_looks

    if asked.n % asked.chunk:
        rounded = -(-asked.n // asked.chunk) * asked.chunk
        tell(f"draws: {asked.n:,} become {rounded:,}, as they are made in chunks of {asked.chunk}")
    stages = tuple(-(-stage // asked.chunk) * asked.chunk for stage in asked.stages or ())
    if stages and (planned := planned_looks(run.shards)) not in (None, stages):
        looks = ", ".join(f"{draws:,}" for draws in planned or ()) or "none"
        tell(
            f"stages: the looks of this folder were planned when it was begun ({looks}); other numbers are not "
            "planned, and have wider limits. --stages in a new folder, with another --seed, plans them"
        )
    there = run.sources().get("evidence", {}).get("draws", 0) // max(1, run.sources().get("data", {}).get("inputs", 1))
    if there > asked.n:
        tell(
            f"draws: there are {there:,} of each input already; all are kept and used, though --n asks for {asked.n:,}"
        )


def tell_slower(asked: CertifySettings, device: str, tell: Callable[[str], None]) -> None:
    """Say so where options that are for a GPU may slow a CPU down."""
    slower = [f"--precision {asked.precision}"] if asked.precision != Precision.FLOAT32 else []
    slower += ["--compile"] if asked.compile else []
    if device == "cpu" and slower:
        tell(f"speed: {' and '.join(slower)} may be slower on a CPU than without")


def tell_saved(evidence: Evidence, asked: CertifySettings, tell: Callable[[str], None]) -> None:
    """Say what stages saved."""
    if not asked.stages:
        return
    saved = evidence.draws_saved()
    stopped = int((evidence.draws < max(evidence.header.stages, default=0)).sum())
    told = f"stages: {stopped:,} of {several(len(evidence))} stopped early, {several(saved, 'draw')} saved"
    tell(told if stopped else f"{told}: an input stops where it is decided at all radii, and fewer --radii are sooner")


def tell_unplanned(evidence: Evidence, tell: Callable[[str], None]) -> None:
    """Say so where inputs have numbers of draws that were not planned."""
    if late := int((~evidence.header.planned(evidence.draws)).sum()):
        plan = ", ".join(f"{stage:,}" for stage in evidence.header.stages) or "none"
        tell(
            f"draws: planned were {plan}, and {late:,} of {len(evidence):,} inputs have others, with wider limits, "
            "which hold at every number; narrower ones need other draws: a new folder, another --seed, and --n or "
            "--stages planned there"
        )


def tell_inputs(run: RunFolder, asked: int, tell: Callable[[str], None]) -> None:
    """Say so where a run is asked for fewer inputs than it has."""
    there = run.sources().get("data", {}).get("inputs", 0)
    if there > asked:
        tell(
            f"inputs: the run has {there:,}, and is now about {asked:,} of them; what was drawn of the others stays in "
            f"{run.shards}, and counts again with a larger --limit; attacks on all of them are left out"
        )


def tell_checkup(checkup: Checkup | None, tell: Callable[[str], None]) -> None:
    """Say what was seen of model and data."""
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
