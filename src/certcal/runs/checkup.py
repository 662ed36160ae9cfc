"""A look at model and data before the long run: seconds on a few inputs, to find what would make a guarantee worthless.

What is surely wrong stops the run, with the likely cause and the option that mends it. What is only suspicious is told,
kept with the results and shown on the page. Also told is where other draws or inputs come than were asked for.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from certcal.data import ImageData
from certcal.errors import several
from certcal.models import autocast, grid_step, held_still, on_device, to_grid
from certcal.runs.folder import RunFolder, Tell
from certcal.runs.load import has_splits, training_facts
from certcal.runs.look import LEAST, Look, Scanned
from certcal.runs.mistakes import (
    check_batches,
    check_classes,
    check_labels,
    check_normalisation,
    check_outputs,
    check_units,
)
from certcal.settings import BoundsRunSettings, CertifySettings, Outputs, Precision, RunSettings, Values
from certcal.smoothing import Evidence, planned_looks


@dataclass(frozen=True)
class Checkup:
    """What was seen of a model and its data before the run."""

    inputs: int  # looked at
    accuracy: float  # without noise
    scan: tuple[Scanned, ...]
    counts: dict[str, int]  # inputs of each class, all of the run
    warnings: tuple[str, ...]
    seconds: float
    draws_per_second: float  # roughly: forward passes of noisy copies
    at_chance: bool = False  # whether the model seems to guess, which makes every number doubtful


def check_up(
    model: nn.Module, data: ImageData, settings: RunSettings | BoundsRunSettings, device: str = "cpu"
) -> Checkup:
    """What a few inputs tell of a model and its data; of one that is to be smoothed, under noise too.

    Paper: —; ordinary mistakes, each found by trying what would mend it.
    Raises: InputError if something is surely wrong; it names the likely cause and the option that mends it.
    """
    start, place = time.perf_counter(), torch.device(device)
    drawn = settings.certify if isinstance(settings, RunSettings) else None
    outputs, precision = (Outputs.LOGITS, Precision.FLOAT32) if drawn is None else (drawn.outputs, drawn.precision)
    if drawn is not None and data.values is Values.ANY:
        to_grid(data.inputs, grid_step(drawn.sigma))  # all of them, as the draws will
    with held_still(model), torch.no_grad(), autocast(precision, place):
        look = Look(on_device(model, place, tuple(data.pixels[0].shape)), data, outputs, place)
        check_outputs(look, smoothed=drawn is not None)
        check_batches(look)
        check_classes(look)
        check_units(look, settings.model.mean, settings.model.std)
        warned = check_normalisation(look, given=settings.model.mean is not None) + check_labels(look)
        scan = () if drawn is None else look.scan(drawn.sigma)
    counts = data.counts()
    warned += _about_accuracy(look, counts) + ([] if drawn is None else _about_noise(look, scan, drawn.sigma))
    return Checkup(
        inputs=len(look.inputs),
        accuracy=look.accuracy,
        scan=scan,
        counts={name: count for name, count in counts.items() if count},
        warnings=(*_about_data(data, counts), *warned),
        seconds=time.perf_counter() - start,
        draws_per_second=look.speed,
        at_chance=_guesses(look, counts),
    )


def _about_data(data: ImageData, counts: dict[str, int]) -> list[str]:
    present, told = [name for name, n in counts.items() if n], []
    if len(present) == 1:
        inputs = f"All {len(data):,} inputs are" if len(data) > 1 else "The only input is"
        told.append(f"{inputs} of one class, {present[0]!r}: nothing is shown about the others.")
    elif len(present) < len(counts) and len(data) >= 5 * len(counts):
        told.append(f"Only {len(present)} of {len(counts)} classes are among the {len(data):,} inputs.")
    highest = float(data.take(limit=min(LEAST, len(data))).inputs.max())
    if highest <= 2 / 255:
        told.append(f"Inputs reach {highest:.2g} at most: were bytes divided by 255 twice?")
    return told


def _about_accuracy(look: Look, counts: dict[str, int]) -> list[str]:
    """What to say of an accuracy that is no better than guessing."""
    told = []
    if look.says_one:
        only = look.data.classes[one] if (one := int(look.answers[0].argmax())) < len(look.data.classes) else str(one)
        told.append(
            f"The model says {only!r} of all {len(look.labels)} inputs, which are of several classes: is it trained, "
            "and are these its weights (--weights) and its normalisation?"
        )
    elif _guesses(look, counts):
        told.append(
            f"Accuracy without noise is {look.accuracy:.0%} on {len(look.labels)} inputs, not clearly better than "
            "guessing: is the model trained, are these its weights (--weights), its classes and its normalisation?"
        )
    if look.classes != len(look.data.classes):
        told.append(f"The model has {look.classes} outputs, the data {len(look.data.classes)} classes.")
    return told


def _guesses(look: Look, counts: dict[str, int]) -> bool:
    """Whether the model seems to guess; of one class alone nobody can say."""
    return sum(n > 0 for n in counts.values()) > 1 and (look.guesses or look.says_one)


def _about_noise(look: Look, scan: tuple[Scanned, ...], sigma: float) -> list[str]:
    """What to say of a model that the noise blinds."""
    own, clean = next(one for one in scan if one.sigma == sigma), look.accuracy
    if clean - own.accuracy < 0.3:
        return []
    low, high = (float(end) for end in look.inputs.aminmax())
    if sigma > high - low > 0:
        mend = f"was {sigma:g}/255 meant?" if sigma > 1 else "are they divided by more than the largest can be?"
        return [
            f"Accuracy falls from {clean:.0%} without noise to {own.accuracy:.0%} under σ = {sigma:g}, which is in the "
            f"units of the inputs and {sigma / (high - low):.2g} times their range ({low:.2g} to {high:.2g}): {mend}"
        ]
    better = [one for one in scan if one.sigma < own.sigma and one.accuracy > own.accuracy + 0.1]
    hint = f", a smaller σ (at {better[0].sigma:g}: {better[0].accuracy:.0%})" if better else ""
    return [
        f"Accuracy falls from {clean:.0%} without noise to {own.accuracy:.0%} under σ = {own.sigma:g}: a model that "
        f"never saw noise? It needs training under noise (certcal train --objective noise){hint} or a denoiser."
    ]


def about_training(settings: RunSettings, data: ImageData, *, sigma: float | None = None) -> list[str]:
    """What to say where the folder of the weights tells that they were trained on these inputs, or under other noise.

    `sigma` is the noise that is certified, where it is not still to be chosen.
    """
    facts, told = training_facts(settings.model), []
    named, split = has_splits(settings.data), settings.data.split
    split = "test" if named and split is None else split  # the one that was read
    earlier = None if named and split == "train" else split  # earlier versions wrote none where none was given
    if facts.get("source") in ([data.source, split], [data.source, earlier]):
        shown = data.name if named else data.source
        told.append(f"{shown} is what the model was trained on: certify inputs that it has not seen.")
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
