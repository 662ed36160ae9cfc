"""When what is seen under attack contradicts certificates, and when it may be chance.

A certificate bounds the smoothed model's own confidence, which nobody sees: an attacked input is judged by an estimate
from fresh draws. Inputs are judged one by one, and as a set, which sees more. docs/attacks.md has the proofs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from certcal.attacks.excess import directions, least_excess, most_brier_of_the_set
from certcal.attacks.fresh_draws import SmoothedEstimate
from certcal.metrics import Bins
from certcal.types import BoolArray, FloatArray
from certcal.worstcase import certified_brier_score, certified_calibration_error

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
    judged: SmoothedEstimate,
    lower: FloatArray,
    upper: FloatArray,
    correct: BoolArray,
    *,
    seen: FloatArray,
    levels: Levels,
    allowed: int,
    bins: Bins,
) -> Finding:
    """Certificates of a set of inputs beside what is seen of these under attack.

    `seen` are the confidences that the attack saw, on draws of its own: they say in which directions to look. If all
    but `allowed` certificates hold, then with a probability of at most `levels.each` for each input and `levels.of_sum`
    for each of the sums, any of these occurs: more contradictions than are allowed, an excess above 0, an estimated
    error above its limit.
    """
    ways = directions(seen, lower, upper, correct, bins)
    options: dict[str, Any] = {"level": levels.of_sum, "allowed": allowed}
    limits = most_the_estimates_may_show(
        judged, lower, upper, correct, level=levels.each, allowed=allowed, edges=bins.edges
    )
    of_set = most_brier_of_the_set(lower, upper, correct, draws=judged.draws, **options)
    return Finding(
        contradictions=int(contradictions(judged, lower, upper, level=levels.each).sum()),
        excess=max(least_excess(judged, lower, upper, way, **options) for way in ways),
        limit_ece=limits[0],
        limit_brier=min(limits[1], of_set),
    )


def contradictions(seen: SmoothedEstimate, lower: FloatArray, upper: FloatArray, *, level: float) -> BoolArray:
    """Which inputs cannot have a sound certificate, shape (n,), each wrong with probability at most `level`.

    Their confidence lies outside its bounds, or another class has the larger share of votes, whatever chance does.
    """
    low, high = seen.limits(alpha=level / 2)
    own = np.take_along_axis(seen.votes, seen.classes[:, None], axis=1)[:, 0].astype(np.float64)
    others = seen.votes.astype(np.float64)
    np.put_along_axis(others, seen.classes[:, None], -1.0, axis=1)
    rival = others.max(axis=1)
    # P(X ≤ own) for X ~ Binomial(own + rival, 1/2): votes of two classes of which the first is the likelier one. The
    # rival is the strongest of k − 1 classes, so the level is shared among them.
    chance = special.betainc(np.maximum(rival, 1.0), own + 1.0, 0.5)
    flipped = (rival > own) & (chance * (1 + 1e-9) <= level / 2 / (seen.votes.shape[1] - 1))
    return np.asarray((low > upper) | (high < lower) | flipped)


def most_the_estimates_may_show(
    seen: SmoothedEstimate,
    lower: FloatArray,
    upper: FloatArray,
    correct: BoolArray,
    *,
    level: float,
    allowed: int,
    edges: FloatArray,
) -> tuple[float, float]:
    """The largest calibration error and Brier score that estimates of certified confidences may have.

    With [a, b] the limits of an estimate ẑ, a confidence in [l, u] ∩ [a, b] means ẑ ∈ [l − (b − ẑ), u + (ẑ − a)]. The
    worst case over these wider intervals is exact. Each of the `allowed` failures moves N · ECE by at most 2 and the
    sum of squares by at most 1. The limits are those of `contradictions`: an estimate is above only where there are
    more of these than allowed.
    """
    low, high = seen.limits(alpha=level / 2)
    ends = lower - (high - seen.confidence), upper + (seen.confidence - low)
    wide = (np.clip(ends[0] - 1e-12, 0.0, 1.0), np.clip(ends[1] + 1e-12, 0.0, 1.0), correct)
    ece = certified_calibration_error(*wide, edges=edges).value + 2 * allowed / len(correct)
    brier = certified_brier_score(*wide).value + allowed / len(correct)
    return min(ece, 1.0), min(brier, 1.0)
