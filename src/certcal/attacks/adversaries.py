"""Adversaries against the calibration of a smoothed model, within an ℓ2 ball: how each moves inputs, at what cost."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.batched import check_numbers, cross_entropy
from certcal.attacks.climb_settings import Settings
from certcal.attacks.pgd import loss_and_gradient, walk
from certcal.attacks.records import CalibrationAttack
from certcal.attacks.smoothed import Estimator, Scene, signed_log_odds, smoothed
from certcal.certificates import MeanLimits
from certcal.errors import InputError
from certcal.means import hoeffding
from certcal.metrics import Bins, expected_calibration_error
from certcal.models import Noise, Purpose, as_inputs, as_labels, count_classes, device_of, held_still
from certcal.scalars import check_choice, check_integer
from certcal.settings import Adversary, Norm, Precision, checks
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase import AdmmSettings, Assignments, WorstCaseProblem, solve_exact

_FEW_DRAWS_ALPHA = 0.001
# One run with the larger assignment rate of App. I.1, and the schedule ρ ← 1.1 ρ of App. I.3.
_ADMM = AdmmSettings(starts=("clean",), confidence_rates=(0.01,), assignment_rates=(0.1,), rho_factors=(1.1,))
BACKWARD = 3  # a pass with its gradient, in units of a pass without
# How far inside its bin an input aims that is sent to a bin's edge: other draws will scatter it to both sides.
CLEARANCES = (0.01, 0.03)
HALVINGS = 12
CHOICES = 4 + len(CLEARANCES)  # sets of inputs that are tried
CHOICE_DRAWS = 250  # by which one of them is chosen


def attack_calibration(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    sigma: float,
    epsilon: float,
    adversary: str = Adversary.REACH,
    predicted: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    draws: int = 32,
    steps: int = 20,
    step_size: float | None = None,
    seed: int = 0,
    box: bool = True,
    batch_size: int | None = None,
    precision: str = "float32",
) -> CalibrationAttack:
    """Inputs moved by at most epsilon in ℓ2 so that the smoothed model is badly calibrated on them as a set.

    Gradients go through `draws` noisy copies of each input, with noise that all steps and inputs share.

    Paper: Sec. 4, Alg. 2, App. F, I.3; Salman et al. (2019), SmoothAdv. "cce" and "reach" are ours.

    Args:
        model: the base model; gives logits for inputs in [0, 1].
        x: inputs, shape (n, …).
        y: true labels, shape (n,).
        sigma: of the smoothing noise.
        epsilon: how far inputs may move; the radius R of a certificate to compare with.
        adversary: "reach", "cce", "acce", "brier" or "smoothadv"; see `Adversary`.
        predicted: the class A of each input whose confidence counts; by default the largest on the attack's draws.
        lower, upper: bounds of the confidences within epsilon, for "acce" and "cce"; by default the Standard
            certificate from the attack's few draws, as in the paper.
        n_bins, edges: bins of the calibration error.
        draws: of noise, m.
        steps: T.
        step_size: length of a step; 2 epsilon / steps by default, as in the paper.
        seed: of the noise.
        box: keep inputs within [0, 1], though certificates also hold outside.
        batch_size: noisy copies per forward pass.
        precision: "float32", or "bfloat16" / "float16" for autocast.

    Raises: InputError if an argument is wrong.
    """
    want = Adversary(check_choice("adversary", adversary, tuple(Adversary)))
    sigma = checks.positive("sigma", sigma)
    radius = checks.not_negative("epsilon", epsilon)
    for name, value in (("draws", draws), ("steps", steps)):
        check_integer(name, value, minimum=1)
    check_choice("precision", precision, tuple(Precision))
    if (lower is None) != (upper is None):
        raise InputError.expected("lower and upper", "be given together", "one of them")
    default = 2 * radius / steps if radius > 0 else None
    length = default if step_size is None else step_size
    settings = Settings(norm=Norm.L2, steps=steps, step_size=length, box=box, seed=seed, batch_size=batch_size)
    with held_still(model):
        inputs = as_inputs(x, model, boxed=box)
        known = count_classes(model, inputs)
        labels = as_labels(y, len(inputs), classes=known)
        predict = smoothed(model, inputs.shape[1:], sigma=sigma, draws=draws, seed=seed, precision=precision)
        scene = Scene(predict, inputs, labels, labels, radius, draws, device_of(model), settings)
        if predicted is None:
            classes = scene.predictions(inputs)
        else:
            classes = as_labels(predicted, len(inputs), name="predicted", classes=known)
        numbers = torch.arange(len(inputs))
        other = Estimator(model, Noise(seed, Purpose.CHOICE, sigma), CHOICE_DRAWS, precision, batch_size)
        scene = replace(scene, predicted=classes, judge=lambda points: other(points, classes, numbers).confidence)
        seen = scene.seen_confidence(inputs)
        check_numbers(torch.from_numpy(seen), numbers, "The model's probability", "under noise")
        if lower is None or upper is None:
            limits = MeanLimits(*hoeffding(seen * draws, draws, alpha=_FEW_DRAWS_ALPHA))
            lower, upper = limits.at(radius / sigma)
        problem = WorstCaseProblem.checked(lower, upper, scene.correct, n_bins=n_bins, edges=edges)
        moved = ADVERSARIES[want](scene, problem)
        after = scene.seen_confidence(moved)
    return CalibrationAttack(moved, radius, want, classes, scene.correct, seen, after)


def smoothadv_adversary(scene: Scene, problem: WorstCaseProblem) -> Tensor:
    """Ascent on the cross-entropy of the smoothed probabilities. Salman et al. (2019)."""
    return scene.climb(cross_entropy, scene.labels)


def brier_adversary(scene: Scene, problem: WorstCaseProblem) -> Tensor:
    """Ascent on (c − z)²: down where the prediction is right, up where it is wrong."""
    return scene.climb(signed_log_odds, scene.target(np.where(problem.correct, -1, 1)))


def cce_adversary(scene: Scene, problem: WorstCaseProblem) -> Tensor:
    """Ascent on Σ d_n z_n, where d_n = −s_m for the bin m that the exact worst case puts input n into."""
    worst = solve_exact(problem)
    assert worst.signs is not None
    assert worst.bins is not None
    return scene.climb(signed_log_odds, scene.target(-worst.signs[worst.bins]))


def acce_adversary(scene: Scene, problem: WorstCaseProblem, admm: AdmmSettings = _ADMM) -> Tensor:
    """Inputs whose confidences, as a set, are badly calibrated: the inner loop of Algorithm 2, by ADMM.

    Of all iterates the one with the largest calibration error on the attack's draws is returned, the inputs themselves
    among them; the paper takes the last one.

    Paper: Sec. 4, Eq. (8), Alg. 2 without its last line, App. F.
    """
    assignments = Assignments.even(problem, scene.seen_confidence(scene.inputs), admm)
    best_point, best = scene.inputs, -1.0

    def judge(point: Tensor) -> FloatArray:
        nonlocal best_point, best
        confidence = scene.seen_confidence(point)
        error = expected_calibration_error(confidence, problem.correct, edges=problem.bins.edges)
        if error > best:
            best_point, best = point, error
        return confidence

    def look(point: Tensor, step: int) -> tuple[Tensor, Tensor]:
        return uphill(scene, point), assignments.pushes(torch.as_tensor(judge(point)))

    steps, length = scene.settings.steps, scene.settings.step_size or 2 * scene.epsilon / scene.settings.steps
    judge(walk(scene.ball, scene.inputs, steps=steps, length=length, look=look))
    return best_point


def uphill(scene: Scene, point: Tensor) -> Tensor:
    """The gradients of all inputs' confidences at their points, up to positive factors, shape (n, …)."""
    target = torch.stack([scene.predicted, torch.ones_like(scene.predicted)], dim=1)
    gradients = [
        loss_and_gradient(scene.predict, signed_log_odds, point[own].to(scene.device), target[own].to(scene.device))[1]
        for own in scene.batches()
    ]
    return torch.cat(gradients).to(point)


def reach_adversary(scene: Scene, problem: WorstCaseProblem) -> Tensor:
    """Inputs whose confidences, as a set, are as badly calibrated as any between those an attack can reach.

    Each confidence is driven as far down and as far up as gradient ascent takes it. Between the two inputs found lies a
    segment within the ball, on which the confidence takes every value in between. So the exact worst case over these
    intervals, docs/exact.md, is attained: by an end of the segment or by halving it. As other draws move confidences
    across the edges of bins, simpler choices may fare better: all down, all up, each away from its correctness, or
    none; the scene's `judge`, which gives confidences from other draws, decides.

    Paper: —; ours, from the exact worst case of Def. 3.4.
    """
    assert scene.judge is not None
    bins = problem.bins.whole
    down, up = (scene.climb(signed_log_odds, scene.target(np.full(len(scene.inputs), sign))) for sign in (-1, 1))
    low, high = scene.seen_confidence(down), scene.seen_confidence(up)
    worst = solve_exact(WorstCaseProblem(np.minimum(low, high), np.maximum(low, high), scene.correct, bins))
    assert worst.bins is not None
    correct = torch.from_numpy(scene.correct).to(down.device)
    away = torch.where(scene.ball.per_entry(correct), down, up)
    choices = [scene.inputs, down, up, away]
    for clearance in CLEARANCES:
        aim = aims(worst.confidence, worst.bins, low, high, bins, clearance)
        choices.append(_between(scene, down, up, low, high, aim))
    errors = [expected_calibration_error(scene.judge(points), scene.correct, edges=bins.edges) for points in choices]
    return choices[int(np.argmax(errors))]


def aims(
    worst: FloatArray, chosen: IntArray, low: FloatArray, high: FloatArray, bins: Bins, clearance: float
) -> FloatArray:
    """The worst case's confidences, moved off the edges of their bins as far as the intervals allow, shape (n,)."""
    left, right = bins.edges[chosen], bins.edges[chosen + 1]
    inset = np.minimum(clearance, (right - left) / 2)
    return np.clip(np.clip(worst, left + inset, right - inset), low, high)


def _between(scene: Scene, down: Tensor, up: Tensor, low: FloatArray, high: FloatArray, aim: FloatArray) -> Tensor:
    """The points between two ends at which the confidences are those aimed at."""
    ball = scene.ball

    def at(share: FloatArray) -> Tensor:
        return ball.project(torch.lerp(down, up, ball.per_entry(torch.from_numpy(share).to(down))))

    left, right = np.zeros(len(aim)), np.ones(len(aim))
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        below = scene.seen_confidence(at(middle)) < aim
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    at_low, at_high = (ball.per_entry(torch.from_numpy(end).to(down.device)) for end in (aim <= low, aim >= high))
    return torch.where(at_low, down, torch.where(at_high, up, at((left + right) / 2)))


ADVERSARIES: dict[Adversary, Callable[[Scene, WorstCaseProblem], Tensor]] = {
    Adversary.SMOOTHADV: smoothadv_adversary,
    Adversary.BRIER: brier_adversary,
    Adversary.ACCE: acce_adversary,
    Adversary.CCE: cce_adversary,
    Adversary.REACH: reach_adversary,
}


def attack_passes(adversary: str, *, draws: int, steps: int) -> int:
    """The most forward passes that an attack on the smoothed model takes per input, with a look before and after."""
    climb = BACKWARD * steps + 1
    most = draws * climb
    if adversary == Adversary.ACCE:  # asks for the confidences at every step
        most = draws * (climb + steps + 1)
    elif adversary == Adversary.REACH:  # climbs twice, aims between the ends, and chooses among the sets it finds
        most = draws * (2 * climb + 2 + len(CLEARANCES) * HALVINGS) + CHOICES * CHOICE_DRAWS
    return most + 2 * draws
