"""When what is seen under attack contradicts certificates, and when it may be chance.

A certificate bounds the smoothed model's own confidence, which nobody sees: an attacked input is judged by an estimate
from fresh draws. If the certificates hold, the estimate lies within their bounds widened by its own error.
"""

import numpy as np
from scipy import special

from certcal.attacks.estimate import SmoothedEstimate
from certcal.types import ArrayLike, BoolArray, FloatArray
from certcal.worstcase import certified_brier_score, certified_calibration_error


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
    n_bins: int,
    edges: ArrayLike | None,
) -> tuple[float, float]:
    """The largest calibration error and Brier score that estimates of certified confidences may have.

    With [a, b] the limits of an estimate ẑ, a confidence in [l, u] ∩ [a, b] means ẑ ∈ [l − (b − ẑ), u + (ẑ − a)]. The
    worst case over these wider intervals is exact. Each of the `allowed` failures moves N · ECE by at most 2 and the
    sum of squares by at most 1.
    """
    low, high = seen.limits(alpha=level)
    ends = lower - (high - seen.confidence), upper + (seen.confidence - low)
    wide = (np.clip(ends[0] - 1e-12, 0.0, 1.0), np.clip(ends[1] + 1e-12, 0.0, 1.0), correct)
    ece = certified_calibration_error(*wide, n_bins=n_bins, edges=edges).value + 2 * allowed / len(correct)
    brier = certified_brier_score(*wide).value + allowed / len(correct)
    return min(ece, 1.0), min(brier, 1.0)
