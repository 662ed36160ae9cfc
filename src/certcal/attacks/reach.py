"""An adversary that knows how far each confidence goes: the exact worst case over the confidences it can attain."""

import numpy as np
import torch
from torch import Tensor

from certcal.attacks.balls import Ball, Norm
from certcal.attacks.smoothed import Scene, signed_log_odds
from certcal.metrics.binning import Bins
from certcal.types import BoolArray, FloatArray, IntArray
from certcal.worstcase import WorstCaseProblem, solve_exact

# Inputs sent to a bin aim this far inside it, or for its middle: other draws would put one at the edge into the next.
CLEARANCE = 0.01
HALVINGS = 12


def reach_adversary(scene: Scene, bins: Bins) -> Tensor:
    """Inputs whose confidences, as a set, are as badly calibrated as any between those an attack can reach.

    Each confidence is driven as far down and as far up as gradient ascent takes it. Between the two inputs found lies a
    segment within the ball, on which the confidence takes every value in between. So the exact worst case over these
    intervals, docs/exact.md, is attained: by an end of the segment or by halving it.

    Paper: —; ours, from the exact worst case of Def. 3.4.
    """
    low_end, high_end = (
        scene.climb(signed_log_odds, scene.target(np.full(len(scene.inputs), sign))) for sign in (-1, 1)
    )
    low, high = scene.seen_confidence(low_end), scene.seen_confidence(high_end)
    low, high = np.minimum(low, high), np.maximum(low, high)
    worst = solve_exact(WorstCaseProblem(low, high, scene.correct, bins))
    assert worst.bins is not None
    aim = aims(worst.confidence, worst.bins, low, high, bins)
    return _between(scene, low_end, high_end, aim, at_low=aim <= low, at_high=aim >= high)


def aims(worst: FloatArray, chosen: IntArray, low: FloatArray, high: FloatArray, bins: Bins) -> FloatArray:
    """The worst case's confidences, moved off the edges of their bins as far as the intervals allow, shape (n,)."""
    left, right = bins.edges[chosen], bins.edges[chosen + 1]
    inset = np.minimum(CLEARANCE, (right - left) / 2)
    return np.clip(np.clip(worst, left + inset, right - inset), low, high)


def _between(
    scene: Scene, low_end: Tensor, high_end: Tensor, aim: FloatArray, *, at_low: BoolArray, at_high: BoolArray
) -> Tensor:
    """The points between two ends at which the confidences are those aimed at."""
    ball = Ball.around(scene.inputs, torch.full((len(aim),), scene.epsilon), Norm.L2, boxed=scene.settings.box)
    left, right = np.zeros(len(aim)), np.ones(len(aim))

    def at(share: FloatArray) -> Tensor:
        weight = torch.as_tensor(share).to(low_end).reshape(-1, *[1] * (low_end.ndim - 1))
        return ball.project(torch.lerp(low_end, high_end, weight))

    for _ in range(HALVINGS if not (at_low | at_high).all() else 0):
        middle = (left + right) / 2
        below = scene.seen_confidence(at(middle)) < aim
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    share = np.where(at_low, 0.0, np.where(at_high, 1.0, (left + right) / 2))
    keep = torch.as_tensor(at_low | at_high).reshape(-1, *[1] * (low_end.ndim - 1)).to(low_end.device)
    ends = torch.where(torch.as_tensor(at_high).reshape(keep.shape).to(keep.device), high_end, low_end)
    return torch.where(keep, ends, at(share))
