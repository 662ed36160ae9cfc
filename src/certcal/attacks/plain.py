"""The sandwich of a network without noise: clean ≤ attacked ≤ certified, within bounds that came from elsewhere."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.adversaries import ADVERSARIES
from certcal.attacks.balls import BALLS
from certcal.attacks.climb_settings import Settings
from certcal.attacks.records import Sandwich, Terms
from certcal.attacks.refutation import Finding, worst_errors
from certcal.attacks.sandwich import Tried, as_adversaries, gather, seen_row
from certcal.attacks.smoothed import Scene
from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation import as_given
from certcal.metrics import Bins
from certcal.models import as_inputs, as_labels, as_outputs, device_of, held_still
from certcal.scalars import guarded
from certcal.settings import Adversary
from certcal.types import ArrayLike, BoolArray, FloatArray
from certcal.worstcase import WorstCaseProblem, allowed_failures, choose_few_bins

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
    several, wanted = as_given(bounds, None, None), as_adversaries(adversaries)
    own = several[0]
    if own.norm not in BALLS:
        raise InputError.expected("bounds", "be in ℓ∞, ℓ2 or ℓ1, in which attacks can move inputs", f"norm {own.norm}")
    allowed, bins = allowed_failures(own, delta=delta), choose_few_bins(n_bins, edges)
    terms = Terms(**own.terms, delta=delta, n_bins=len(bins), draws=0, attack_draws=0, steps=steps, seed=seed)
    with held_still(model):
        scene = _scene(model, x, own, steps, seed, batch_size)

        def tried(one: ConfidenceIntervals, adversary: Adversary) -> Tried:
            # Bounds of inputs whose class is not certified are tried as well: `population="all"` relies on them.
            rest = ~one.certified & ((one.lower > 0) | (one.upper < 1)) & (one.predicted >= 0)
            outside = 0
            if rest.any():
                part, problem, moved = _attacked(scene, one, rest, adversary, bins)
                outside = int((_beyond(part.seen_confidence(moved), problem) > 0).sum())
            part, problem, moved = _attacked(scene, one, one.certified, adversary, bins)
            clean, seen = part.seen_confidence(part.inputs), part.seen_confidence(moved)
            changed = (part.predictions(moved) != part.predicted).numpy()
            beyond = _beyond(seen, problem)
            wide = replace(problem, lower=problem.lower - ROUNDING, upper=problem.upper + ROUNDING)
            finding = Finding(
                int(((beyond > 0) | changed).sum()) + outside,
                float(np.sort(beyond)[: len(beyond) - allowed].sum() / len(beyond)),
                *worst_errors(wide, allowed=allowed),
            )
            return *seen_row(one, problem, adversary, clean, seen, finding, allowed), None

        return gather(tried, several, wanted, terms, allowed, begun, keep)


def _scene(
    model: nn.Module, x: ArrayLike, own: ConfidenceIntervals, steps: int, seed: int, batch_size: int | None
) -> Scene:
    """The network and all inputs, after a look that it is the one that the bounds are about."""
    device, inputs = device_of(model), as_inputs(x, model, boxed=True)

    def predict(points: Tensor) -> Tensor:
        return as_outputs(model(points.clone()), len(points)).float().log_softmax(dim=1)

    settings = Settings(norm=own.norm, steps=steps, box=True, seed=seed, batch_size=batch_size)
    labels, predicted = as_labels(own.label, len(inputs)), as_labels(own.predicted, len(inputs))
    scene = Scene(predict, inputs, labels, predicted, 0.0, 1, device, settings)
    others = (scene.predictions(inputs) != predicted).numpy()
    # At a tie another rounding may choose another class; further off, it is another network or other inputs.
    far = others & (np.abs(scene.seen_confidence(inputs) - own.confidence) > 1e-3)
    if far.any():
        got = f"another class at {int(far.sum())} inputs, such as {int(own.index[int(np.argmax(far))])}"
        raise InputError.expected("model", "predict what the bounds say", got)
    return scene


def _attacked(
    scene: Scene, bounds: ConfidenceIntervals, some: BoolArray, adversary: Adversary, bins: Bins
) -> tuple[Scene, WorstCaseProblem, Tensor]:
    """Some of the inputs with the ball of the radius, the bounds of these, and where an attack moves them."""
    kept, radius = torch.from_numpy(np.flatnonzero(some)), bounds.radius
    part = replace(
        scene,
        inputs=scene.inputs[kept],
        labels=scene.labels[kept],
        predicted=scene.predicted[kept],
        epsilon=radius,
        settings=replace(scene.settings, step_size=2 * radius / scene.settings.steps if radius else None),
    )
    part = replace(part, judge=part.seen_confidence)
    problem = WorstCaseProblem(bounds.lower[some], bounds.upper[some], bounds.correct[some], bins)
    return part, problem, ADVERSARIES[adversary](part, problem)


def _beyond(seen: FloatArray, problem: WorstCaseProblem) -> FloatArray:
    """How far confidences lie beyond their bounds."""
    return np.maximum(np.maximum(seen - problem.upper, problem.lower - seen) - ROUNDING, 0.0)
