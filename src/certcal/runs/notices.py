"""What is said before a run draws: of data, checks, and where other draws or inputs come than were asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from certcal.errors import InputError, several
from certcal.runs.checkup import Checkup
from certcal.runs.folder import RunFolder
from certcal.settings import CertifySettings, RunSettings

if TYPE_CHECKING:
    from certcal.data import ImageData


def class_counts(data: "ImageData") -> str:
    """How many inputs there are of each class, in words."""
    counts = [(name, int((data.labels == k).sum())) for k, name in enumerate(data.classes)]
    present = [(name, count) for name, count in counts if count]
    least, most = min(count for _, count in present), max(count for _, count in present)
    told = f"{several(len(data))} of {len(present)} of {len(counts)} classes"
    if len(present) <= 10:
        return f"{told} ({', '.join(f'{name} {count}' for name, count in present)})"
    return f"{told}, {least} to {most} of each"


def about_training(settings: RunSettings, data: "ImageData") -> list[str]:
    """What to say where the weights were trained on these inputs, as the folder of the weights tells."""
    if settings.model.weights is None:
        return []
    try:
        trained = RunFolder(Path(settings.model.weights).expanduser().parent).sources().get("train", {})
    except InputError:
        return []
    if trained.get("source") != [data.source, settings.data.split]:
        return []
    return [f"{data.source} is what the model was trained on: certify inputs that it has not seen."]


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
        tell(f"checks: right under noise, and the radius up to which half stay right (estimates): {_scanned(checkup)}")
    for warning in checkup.warnings:
        tell(f"warning: {warning}")


def _scanned(checkup: Checkup) -> str:
    scan = "; ".join(
        f"σ = {one.sigma:g}: {one.accuracy:.0%}, R {'≥' if one.at_least else '≈'} {one.radius:.2g}"
        for one in checkup.scan
    )
    few = " (≥: as far as the few draws show)" * any(one.at_least for one in checkup.scan)
    return f"{scan}{few}"
