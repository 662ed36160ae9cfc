"""The sandwich of a network without noise: clean ≤ attacked ≤ certified, within bounds that came from elsewhere."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.adversaries import ADVERSARIES
from certcal.attacks.balls import BALLS
from certcal.attacks.climb_settings import Settings
from certcal.attacks.records import Sandwich, Terms
from certcal.attacks.refutation import Finding, worst_errors
from certcal.attacks.sandwich import Tried, empty_row, gather, seen_row
from certcal.attacks.smoothed import Scene
from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation import as_given
from certcal.metrics import choose_bins
from certcal.models import as_inputs, as_labels, as_outputs, device_of, held_still
from certcal.scalars import check_choice, guarded, one_or_more
from certcal.settings import Adversary, each_once
from certcal.types import ArrayLike, BoolArray, FloatArray
from certcal.worstcase import WorstCaseProblem, allowed_failures

ROUNDING = 1e-6  # how far confidences in single precision may lie beyond bounds that hold without it


@guarded
def attack_bounds(
    model: nn.Module,
    x: ArrayLike,
    bounds: ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    adversaries: Iterable[str] | str = (Adversary.BRIER, Adversary.REACH),
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    steps: int = 20,
    delta: float = 0.001,
    seed: int = 0,
    batch_size: int | None = None,
    begun: Sandwich | None = None,
    keep: Callable[[Sandwich], None] | None = None,
) -> Sandwich:
    """How badly calibrated a network is without attack, under attacks, and at most, within each radius of its bounds.

    The network runs without noise, so what is seen is certain: one confidence beyond its bounds, or one certified class
    that changes, refutes bounds with alpha = 0. Moved inputs stay in [0, 1].

    Paper: —; the attacks are those of Sec. 4, without noise.

    Args:
        model: gives logits for inputs in [0, 1].
        x: the inputs that the bounds are about, shape (n, …).
        bounds: their certificates in ℓ∞, ℓ2 or ℓ1, at one or several radii.
        adversaries, n_bins, edges, steps, delta, seed, batch_size, begun, keep: as for `attack_certificates`.

    Raises: InputError if an argument is wrong, or the bounds are of another network.
    """
    several = as_given(bounds, None, None)
    wanted = [check_choice("adversaries", name, tuple(Adversary)) for name in one_or_more("adversaries", adversaries)]
    each_once("adversaries", wanted)
    own = several[0]
    if own.norm not in BALLS:
        raise InputError.expected("bounds", "be in ℓ∞, ℓ2 or ℓ1, in which attacks can move inputs", f"norm {own.norm}")
    allowed = allowed_failures(own, delta=delta)
    count = len(choose_bins(n_bins, edges))
    terms = Terms(**own.terms, delta=delta, n_bins=count, draws=0, attack_draws=0, steps=steps, seed=seed)
    bins: dict[str, Any] = {"n_bins": n_bins, "edges": edges}
    with held_still(model):
        scene = _scene(model, x, own, steps, seed, batch_size)

        def tried(one: ConfidenceIntervals, name: str) -> Tried:
            rest = ~one.certified & ((one.lower > 0) | (one.upper < 1)) & (one.predicted >= 0)
            outside = _outside(_within(scene, one, rest), one.select(rest), Adversary(name), bins)
            return _row(_within(scene, one, one.certified), one, Adversary(name), allowed, bins, outside)

        return gather(tried, [(one, name) for one in several for name in wanted], len(own), terms, begun, keep)


def _scene(
    model: nn.Module, x: ArrayLike, own: ConfidenceIntervals, steps: int, seed: int, batch_size: int | None
) -> Scene:
    """The network and all inputs, after a look that it is the one that the bounds are about."""
    device, inputs = device_of(model), as_inputs(x, model, boxed=True)

    def predict(points: Tensor) -> Tensor:
        return as_outputs(model(points.clone()), len(points)).float().log_softmax(dim=1)

    settings = Settings(norm=own.norm, steps=steps, box=True, seed=seed, batch_size=batch_size)
    labels, predicted = as_labels(own.label, len(inputs)), as_labels(own.predicted, len(inputs))
    scene = Scene(predict, inputs, labels, predicted, 0.0, 0.0, 1, device, settings)
    others = (scene.predictions() != predicted).numpy()
    # At a tie another rounding may choose another class; further off, it is another network or other inputs.
    far = others & (np.abs(scene.seen_confidence(inputs) - own.confidence) > 1e-3)
    if far.any():
        got = f"another class at {int(far.sum())} inputs, such as {int(own.index[int(np.argmax(far))])}"
        raise InputError.expected("model", "predict what the bounds say", got)
    return scene


def _within(scene: Scene, bounds: ConfidenceIntervals, some: BoolArray) -> Scene:
    """Some of the inputs, such as those certified at the radius, with the ball of that radius."""
    kept = torch.from_numpy(np.flatnonzero(some))
    part = replace(
        scene,
        inputs=scene.inputs[kept],
        labels=scene.labels[kept],
        predicted=scene.predicted[kept],
        epsilon=bounds.radius,
        settings=replace(scene.settings, step_size=2 * bounds.radius / scene.settings.steps if bounds.radius else None),
    )
    return replace(part, judge=part.seen_confidence)


def _outside(scene: Scene, own: ConfidenceIntervals, adversary: Adversary, bins: dict[str, Any]) -> int:
    """How many inputs whose class is not certified are seen beyond their bounds, which `population="all"` relies on."""
    if not len(own):
        return 0
    as_certified = WorstCaseProblem.of(replace(own, certified=np.ones(len(own), np.bool_)), **bins)
    return int((_beyond(scene.seen_confidence(ADVERSARIES[adversary](scene, as_certified)), own) > 0).sum())


def _beyond(seen: FloatArray, own: ConfidenceIntervals) -> FloatArray:
    """How far confidences lie beyond their bounds."""
    return np.maximum(np.maximum(seen - own.upper, own.lower - seen) - ROUNDING, 0.0)


def _row(
    scene: Scene,
    bounds: ConfidenceIntervals,
    adversary: Adversary,
    allowed: int,
    bins: dict[str, Any],
    outside: int,
) -> Tried:
    own = bounds.select(bounds.certified)
    if not len(own):
        return empty_row(bounds.radius, adversary, allowed), None, None, None
    clean = scene.seen_confidence(scene.inputs)
    moved = ADVERSARIES[adversary](scene, WorstCaseProblem.of(own, **bins))
    attacked = scene.seen_confidence(moved)
    changed = (replace(scene, inputs=moved).predictions() != scene.predicted).numpy()
    beyond = _beyond(attacked, own)
    limits = worst_errors(own.lower - ROUNDING, own.upper + ROUNDING, own.correct, allowed=allowed, **bins)
    finding = Finding(
        contradictions=int(((beyond > 0) | changed).sum()) + outside,
        excess=float(np.sort(beyond)[: len(own) - allowed].sum() / len(own)),
        limit_ece=limits[0],
        limit_brier=limits[1],
    )
    return *seen_row(bounds, adversary, clean, attacked, finding, allowed, bins), None
