"""How far attacked confidences lie beyond their certificates as a set: what no single input shows, their sum may.

A sound certificate puts a confidence z in [l, u]. So for directions d ∈ {−1, 0, +1} chosen before an input is judged,
Σ d (z − end) ≤ 0, where `end` is u for d = +1 and l for d = −1. The sum is estimated from all draws of all inputs, and
so with an error of about 1 / √(inputs · draws). docs/attacks.md has the proof.
"""

import math

import numpy as np

from certcal.attacks.fresh_draws import SmoothedEstimate
from certcal.means import empirical_bernstein, sum_error
from certcal.metrics import Bins
from certcal.types import BoolArray, FloatArray, IntArray


def directions(
    seen: FloatArray, lower: FloatArray, upper: FloatArray, correct: BoolArray, bins: Bins
) -> tuple[IntArray, ...]:
    """Ways in which the confidences of a set may have left their certificates, each of shape (n,), of −1, 0 and +1.

    `seen` are confidences on draws that the judging ones are independent of. In turn: away from being right, which is
    what raises the Brier score; the way in which each bin's gap grows, −s of the bin that the confidence is seen in,
    which is what raises the calibration error; and out of the certificate, for those inputs that are seen outside.
    """
    away = np.where(correct, -1, 1)
    own = bins.assign(seen)
    gap = np.bincount(own, weights=correct - seen, minlength=len(bins.edges) - 1)
    outside = (seen > upper).astype(np.int64) - (seen < lower)
    return away, np.where(gap[own] >= 0, -1, 1), outside


def least_excess(
    judged: SmoothedEstimate, lower: FloatArray, upper: FloatArray, direction: IntArray, *, level: float, allowed: int
) -> float:
    """A lower limit for how far the confidences lie beyond their bounds in given directions, as a mean over all n.

    What `allowed` failing certificates can contribute is taken off. If the others hold, this is above 0 with a
    probability of at most `level`. The directions must not depend on the draws that judge.

    Paper: —; Maurer and Pontil (2009), Theorem 11, which does not ask for equal distributions.   Errs: low.
    """
    own = direction != 0
    count = int(own.sum())
    if count == 0:
        return -1.0
    sign, end = direction[own].astype(np.float64), np.where(direction > 0, upper, lower)[own]
    m, total, square = judged.draws, judged.score_sum[own], judged.score_square_sum[own]
    # Values d (score − end) in [−1, 1], as (1 + d (score − end)) / 2 in [0, 1]: their sum, and that of their squares.
    moved, spread = sign * (total - m * end), square - 2 * end * total + m * end * end
    trials = count * m
    halves, squares = (trials + moved.sum()) / 2, (trials + 2 * moved.sum() + spread.sum()) / 4
    rounding = float(4 * trials * sum_error(trials))  # of sums of sums, each of terms no larger than 1
    low, _ = empirical_bernstein(
        min(max(halves, 0.0), trials), min(squares, halves), trials, alpha=2 * level, rounding=rounding
    )
    most = np.sort(np.where(sign > 0, 1 - end, end))[::-1]  # what an input adds whose certificate fails
    return float((count * (2 * float(low) - 1) - most[:allowed].sum()) / len(direction))


def most_brier_of_the_set(
    lower: FloatArray, upper: FloatArray, correct: BoolArray, *, draws: int, level: float, allowed: int
) -> float:
    """What an estimated Brier score exceeds with probability at most `level` if all but `allowed` certificates hold.

    With p = |c − z| ≤ P at the far end of a certificate, an estimate p̂ from m draws has E p̂² = p² + Var / m ≤ P² +
    P (1 − P) / m, and no draw changes p̂² by more than 2 / m, so that N p̂² exceeds its expectation by √(2 N L / m) with
    probability at most exp(−L).

    Paper: —; McDiarmid (1989), Lemma 1.2.   Errs: high.
    """
    far = np.where(correct, 1 - lower, upper)
    mean = far * far + far * (1 - far) / draws
    failing = np.sort(1 - mean)[::-1][:allowed].sum()
    chance = math.sqrt(2 * len(far) * math.log(1 / level) / draws)
    return float(min((mean.sum() + failing + chance) / len(far) * (1 + 1e-12), 1.0))
