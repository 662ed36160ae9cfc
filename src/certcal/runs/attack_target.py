"""What is attacked, the model and the inputs that a run's certificates are of, and how many forward passes it takes."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from certcal.attacks import BACKWARD, attack_passes, inputs_of
from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.data import ImageData
from certcal.errors import InputError
from certcal.inputs import check_device
from certcal.models import Tempered, best_device
from certcal.progress import Progress
from certcal.runs.evaluate import load_run_bounds, load_run_evidence
from certcal.runs.folder import IN_PYTHON, RunFolder, Tell
from certcal.runs.load import check_fingerprint, load_data, load_model
from certcal.runs.plain import NOT_NAMED
from certcal.runs.trust import check_factories
from certcal.scalars import exactly
from certcal.settings import AttackSettings, BoundsRunSettings, RunSettings
from certcal.smoothing import Evidence, evidence_digest

COPIES = 256  # of inputs, in a pass that is timed


@dataclass(frozen=True, eq=False)
class Target:
    """What is attacked: the model and inputs that the run's certificates are of."""

    model: nn.Module
    data: ImageData
    inputs: Tensor  # as many as are attacked, in the order of the certificates
    of: int  # inputs of all certificates
    device: torch.device
    made_with: dict[str, Any]  # by which a later run knows that nothing has changed


def load_target(run: RunFolder, asked: AttackSettings, *, trust: bool) -> tuple[Target, Evidence]:
    """The model and the inputs of a run, if they are those that its evidence was drawn from, with their evidence."""
    with run.steady():
        settings = run.settings()
        if not isinstance(settings, RunSettings):
            got = f"bounds from elsewhere in {run.path}"
            raise InputError.expected("run", "hold the evidence of a smoothed model", got)
        evidence = load_run_evidence(run, settings.evaluate.at_temperature)
    if settings.model.name == IN_PYTHON:
        wanted = "name its model and data, as runs of `certcal certify` do (in Python, use `certcal.attacks`)"
        raise InputError.expected("run", wanted, f"{run.path}, which was written from Python")
    if evidence.header.outputs != "logits":
        raise InputError.expected("run", "be of a model that gives logits", evidence.header.outputs)
    place, data, model = _load(run, settings, asked.device or settings.certify.device, trust=trust)
    found = check_fingerprint(model, evidence.header.model, "be those that the evidence was drawn from", settings.model)
    every, made_with = len(evidence), {"evidence": evidence_digest(evidence), "model": found}
    evidence = evidence.select(_some(every, asked.limit))
    if evidence.temperature != 1:
        model = Tempered(model, evidence.temperature)
    inputs = inputs_of(model, data, evidence)
    return Target(model.to(place).eval(), data, inputs, every, place, made_with), evidence


def load_plain_target(
    run: RunFolder, asked: AttackSettings, *, trust: bool
) -> tuple[Target, list[ConfidenceIntervals]]:
    """The network and the inputs of a run without noise, if they are those that its bounds are of, with these."""
    settings, bounds, radii = run.settings(), load_run_bounds(run), asked.radii
    if NOT_NAMED in (settings.model.name, settings.data.name):
        wanted = "name its model and data: give --bounds again with --config FILE, which has [model] and [data]"
        raise InputError.expected("run", wanted, f"neither in {run.path}")
    place, data, model = _load(run, settings, asked.device, trust=trust)
    known = run.sources().get("model", {}).get("fingerprint")
    found = check_fingerprint(model, known, "be those that the bounds are of", settings.model)
    every, chosen = len(bounds[0]), _some(len(bounds[0]), asked.limit)
    own = [one.select(chosen) for one in bounds if one.radius > 0 and (radii is None or one.radius in radii)]
    if not any(one.certified.any() for one in own):
        got = ", ".join(exactly(radius) for radius in radii or [one.radius for one in bounds])
        raise InputError.expected("radii", "hold one > 0 of the run's at which an input is certified", got)
    position = {int(index): row for row, index in enumerate(data.index)}
    missing = [index for index in own[0].index.tolist() if index not in position]
    if missing:
        raise InputError.expected("data", "hold the inputs of the bounds", f"none at {missing[0]}")
    inputs, labels = data.tensors()
    rows = [position[index] for index in own[0].index.tolist()]
    if labels[rows].tolist() != own[0].label.tolist():
        raise InputError.expected("data", "have the labels of the bounds", "others")
    made_with = {"evidence": run.evidence_digest(), "model": found}
    return Target(model.to(place).eval(), data, inputs[rows], every, place, made_with), own


def _load(
    run: RunFolder, settings: RunSettings | BoundsRunSettings, device: str | None, *, trust: bool
) -> tuple[torch.device, ImageData, nn.Module]:
    check_factories([settings.model], run.path, trust=trust)
    place = check_device("device", device or best_device())
    data = load_data(settings.data, settings.model)
    sigma = settings.certify.sigma if isinstance(settings, RunSettings) else None
    return place, data, load_model(settings.model, data, sigma=sigma)


def _some(inputs: int, limit: int | None) -> NDArray[np.intp]:
    """The positions of at most so many of the inputs, evenly spread."""
    return np.linspace(0, inputs - 1, min(inputs, limit or inputs)).round().astype(np.intp)


def certified_at(evidence: Evidence, radii: tuple[float, ...], terms: dict[str, Any], tell: Tell) -> dict[float, int]:
    """Those radii at which there is somebody to attack, rising, with how many; the others are named."""
    rising = tuple(sorted(set(radii)))
    counts = [int(own.certified.sum()) for own in confidence_bounds_at(evidence, radii=rising, **terms)]
    kept = {radius: count for radius, count in zip(rising, counts, strict=True) if radius > 0 and count > 0}
    nobody = [exactly(radius) for radius, count in zip(rising, counts, strict=True) if count == 0 and radius > 0]
    if not kept:
        asked = ", ".join(exactly(radius) for radius in rising)
        wanted = f"hold one > 0 at which an input is certified (of {len(evidence)} attacked)"
        raise InputError.expected("radii", wanted, asked)
    if 0.0 in rising:
        tell("skipping R = 0: there is nothing to attack")
    if nobody:
        tell(f"skipping R = {', '.join(nobody)}: no input is certified there")
    return kept


def sandwich_passes(
    certified: Sequence[int], adversaries: Sequence[str], *, inputs: int, draws: int, attack_draws: int, steps: int
) -> int:
    """The most forward passes of a sandwich; `certified` are the inputs certified at each radius."""
    each = sum(attack_passes(name, draws=attack_draws, steps=steps) + draws for name in adversaries)
    asked = 1 + 2 * len(certified) * len(adversaries)  # one input each, to count the classes
    return inputs * draws + sum(certified) * each + asked


def ace_passes(inputs: int, *, budgets: int, steps: int, galil: bool) -> int:
    """The most forward passes of the four (η, ω)-ACE attacks within each budget."""
    each = 4 * (BACKWARD * steps + 2) + (BACKWARD + 17 if galil else 0)
    asked = 5 + budgets  # one input each, to count the classes
    return inputs * (1 + (5 if galil else 4) + budgets * each) + asked


def seconds_per_pass(model: nn.Module, inputs: Tensor, device: Any) -> float:
    """How long one input takes in a forward pass, timed on a batch of copies."""
    copies = inputs[torch.arange(COPIES) % len(inputs)].to(device)

    def once() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            float(model(copies).sum())  # waits for the device
        return (time.perf_counter() - start) / COPIES

    once()
    return min(once(), once())


@contextmanager
def counted(model: nn.Module, passes: int, *, show: bool | None) -> Iterator[None]:
    """Within this context the passes that the model makes move a bar towards those foreseen."""
    with Progress(1, passes, show=show, doing="attacking", unit="passes") as progress:

        def count(_: nn.Module, given: tuple[Any, ...], __: Any) -> None:
            progress.drew(len(given[0]) * (BACKWARD if torch.is_grad_enabled() else 1))

        hook = model.register_forward_hook(count)
        try:
            yield
        finally:
            hook.remove()
