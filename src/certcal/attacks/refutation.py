"""When what is seen under attack contradicts certificates, and when it may be chance.

A certificate bounds the smoothed model's own confidence, which nobody sees: an attacked input is judged by an estimate
from fresh draws. Inputs are judged one by one, and as a set: what no single input shows, their sum may.

A sound certificate puts a confidence z in [l, u]. So for directions d ∈ {−1, 0, +1} chosen before an input is judged,
Σ d (z − end) ≤ 0, where `end` is u for d = +1 and l for d = −1. The sum is estimated from all draws of all inputs, and
so with an error of about 1 / √(inputs · draws). docs/attacks.md has the proofs.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from certcal.attacks.smoothed import SmoothedEstimate
from certcal.certificates import rival_votes
from certcal.means import empirical_bernstein, sum_error
from certcal.types import BoolArray, FloatArray, IntArray
from certcal.worstcase import WorstCaseProblem, certified_brier_score, solve_exact

_SUMS = 4  # about a set: three sums of confidences, and the Brier score


@dataclass(frozen=True)
class Levels:
    """The probabilities with which chance may speak against sound certificates: in all at most half of delta."""

    each: float  # of one input in one row
    of_sum: float  # of one sum over the inputs of a row

    @classmethod
    def shared(cls, delta: float, *, rows: int, inputs: int) -> "Levels":
        """Half of delta, shared by the rows; half of a row's share goes to its inputs, half to the sums over them."""
        own = delta / 2 / rows
        return cls(own / 2 / inputs, own / 2 / _SUMS)


@dataclass(frozen=True)
class Finding:
    """What a set of attacked inputs says of its certificates."""

    contradictions: int  # inputs that cannot have a sound certificate
    excess: float  # how far confidences lie beyond their bounds on average, at the least; above 0 only if unsound
    limit_ece: float  # what the estimated errors may be at most
    limit_brier: float


def confront(
    judged: SmoothedEstimate, bounds: WorstCaseProblem, *, seen: FloatArray, levels: Levels, allowed: int
) -> Finding:
    """Certificates of a set of inputs beside what is seen of these under attack.

    `seen` are the confidences that the attack saw, on draws of its own: they say in which directions to look. If all
    but `allowed` certificates hold, then with a probability of at most `levels.each` for each input and `levels.of_sum`
    for each of the sums, any of these occurs: more contradictions than are allowed, an excess above 0, an estimated
    error above its limit.
    """
    ways, level = directions(seen, bounds), levels.of_sum
    limit_ece, limit_brier = most_the_estimates_may_show(judged, bounds, level=levels.each, allowed=allowed)
    of_set = most_brier_of_the_set(bounds, draws=judged.draws, level=level, allowed=allowed)
    return Finding(
        contradictions=int(contradictions(judged, bounds, level=levels.each).sum()),
        excess=max(least_excess(judged, bounds, way, level=level, allowed=allowed) for way in ways),
        limit_ece=limit_ece,
        limit_brier=min(limit_brier, of_set),
    )


def contradictions(seen: SmoothedEstimate, bounds: WorstCaseProblem, *, level: float) -> BoolArray:
    """Which inputs cannot have a sound certificate, shape (n,), each wrong with probability at most `level`.

    Their confidence lies outside its bounds, or another class has the larger share of votes, whatever chance does.
    """
    low, high = seen.limits(alpha=level / 2)
    own = np.take_along_axis(seen.votes, seen.classes[:, None], axis=1)[:, 0].astype(np.float64)
    rival = rival_votes(seen.votes, seen.classes).astype(np.float64)
    # P(X ≤ own) for X ~ Binomial(own + rival, 1/2): votes of two classes of which the first is the likelier one. The
    # rival is the strongest of k − 1 classes, so the level is shared among them.
    chance = scipy.special.betainc(np.maximum(rival, 1.0), own + 1.0, 0.5)
    flipped = (rival > own) & (chance * (1 + 1e-9) <= level / 2 / (seen.votes.shape[1] - 1))
    return np.asarray((low > bounds.upper) | (high < bounds.lower) | flipped)


def most_the_estimates_may_show(
    seen: SmoothedEstimate, bounds: WorstCaseProblem, *, level: float, allowed: int
) -> tuple[float, float]:
    """The largest calibration error and Brier score that estimates of certified confidences may have.

    With [a, b] the limits of an estimate ẑ, a confidence in [l, u] ∩ [a, b] means ẑ ∈ [l − (b − ẑ), u + (ẑ − a)]. The
    limits are those of `contradictions`: an estimate is above only where there are more of these than allowed.
    """
    low, high = seen.limits(alpha=level / 2)
    lower, upper = bounds.lower - (high - seen.confidence) - 1e-12, bounds.upper + (seen.confidence - low) + 1e-12
    return worst_errors(replace(bounds, lower=lower, upper=upper), allowed=allowed)


def worst_errors(bounds: WorstCaseProblem, *, allowed: int) -> tuple[float, float]:
    """The largest calibration error and Brier score of confidences all but `allowed` of which lie within bounds.

    The worst case over the intervals, cut to [0, 1], is exact. Each failure moves N · ECE by at most 2 and the sum of
    squares by at most 1.
    """
    inside = replace(bounds, lower=np.clip(bounds.lower, 0.0, 1.0), upper=np.clip(bounds.upper, 0.0, 1.0))
    ece = solve_exact(inside).value + 2 * allowed / inside.size
    brier = certified_brier_score(inside).value + allowed / inside.size
    return min(ece, 1.0), min(brier, 1.0)


def directions(seen: FloatArray, bounds: WorstCaseProblem) -> tuple[IntArray, ...]:
    """Ways in which the confidences of a set may have left their certificates, each of shape (n,), of −1, 0 and +1.

    `seen` are confidences on draws that the judging ones are independent of. In turn: away from being right, which is
    what raises the Brier score; the way in which each bin's gap grows, −s of the bin that the confidence is seen in,
    which is what raises the calibration error; and out of the certificate, for those inputs that are seen outside.
    """
    away = np.where(bounds.correct, -1, 1)
    own = bounds.bins.assign(seen)
    gap = np.bincount(own, weights=bounds.correct - seen, minlength=len(bounds.bins))
    outside = (seen > bounds.upper).astype(np.int64) - (seen < bounds.lower)
    return away, np.where(gap[own] >= 0, -1, 1), outside


def least_excess(
    judged: SmoothedEstimate, bounds: WorstCaseProblem, direction: IntArray, *, level: float, allowed: int
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
    sign, end = direction[own].astype(np.float64), np.where(direction > 0, bounds.upper, bounds.lower)[own]
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


def most_brier_of_the_set(bounds: WorstCaseProblem, *, draws: int, level: float, allowed: int) -> float:
    """What an estimated Brier score exceeds with probability at most `level` if all but `allowed` certificates hold.

    With p = |c − z| ≤ P at the far end of a certificate, an estimate p̂ from m draws has E p̂² = p² + Var / m ≤ P² +
    P (1 − P) / m, and no draw changes p̂² by more than 2 / m, so that N p̂² exceeds its expectation by √(2 N L / m) with
    probability at most exp(−L).

    Paper: —; McDiarmid (1989), Lemma 1.2.   Errs: high.
    """
    far = np.where(bounds.correct, 1 - bounds.lower, bounds.upper)
    mean = far * far + far * (1 - far) / draws
    failing = np.sort(1 - mean)[::-1][:allowed].sum()
    chance = math.sqrt(2 * len(far) * math.log(1 / level) / draws)
    return float(min((mean.sum() + failing + chance) / len(far) * (1 + 1e-12), 1.0))
