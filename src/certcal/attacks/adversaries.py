"""The adversaries of a smoothed model: how each moves the inputs, and what that costs."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from certcal.attacks.batched import cross_entropy
from certcal.attacks.pgd import loss_and_gradient, walk
from certcal.attacks.smoothed import Scene, signed_log_odds
from certcal.metrics import Bins, expected_calibration_error
from certcal.settings import Adversary
from certcal.types import FloatArray, IntArray
from certcal.worstcase import AdmmSettings, Assignments, WorstCaseProblem, solve_exact

# One run with the larger assignment rate of App. I.1, and the schedule ρ ← 1.1 ρ of App. I.3.
_ADMM = AdmmSettings(starts=("clean",), confidence_rates=(0.01,), assignment_rates=(0.1,), rho_factors=(1.1,))
BACKWARD = 3  # a pass with its gradient, in units of a pass without
# How far inside its bin an input aims that is sent to a bin's edge: other draws will scatter it to both sides.
CLEARANCES = (0.01, 0.03)
HALVINGS = 12
CHOICES = 4 + len(CLEARANCES)  # sets of inputs that are tried
CHOICE_DRAWS = 250  # by which one of them is chosen


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
    bins = problem.bins
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
