"""An adversary that knows how far each confidence goes: the exact worst case over the confidences it can attain."""

import numpy as np
import torch
from torch import Tensor

from certcal.attacks.smoothed import Scene, signed_log_odds
from certcal.metrics import Bins, expected_calibration_error
from certcal.types import FloatArray, IntArray
from certcal.worstcase import WorstCaseProblem, solve_exact

# How far inside its bin an input aims that is sent to a bin's edge: other draws will scatter it to both sides.
CLEARANCES = (0.01, 0.03)
HALVINGS = 12
CHOICES = 4 + len(CLEARANCES)  # sets of inputs that are tried
CHOICE_DRAWS = 250  # by which one of them is chosen


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
