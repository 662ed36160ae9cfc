"""What the stored draws say of the smoothed confidence at the input itself, one function per method.

Each holds per input as one event with probability at least 1 - alpha, whatever the radius it is later moved to and
however often one looks, so one error probability covers all radii and looks together.
"""

from collections.abc import Callable

import numpy as np

from certcal.certificates.cells import CellLimits, Index, MeanLimits
from certcal.certificates.looks import Limits, by_look
from certcal.means import anytime_limits, dkw_half_width, empirical_bernstein, hoeffding
from certcal.proportions import clopper_pearson
from certcal.smoothing import Counts, Evidence
from certcal.types import FloatArray

# Part of alpha that the limits of the mean get when they join those of the distribution. Anything from a tenth to a
# half gives much the same widths.
_MEAN_SHARE = 0.25


def hoeffding_limits(evidence: Evidence, alpha: float) -> MeanLimits:
    """Hoeffding limits of the mean scores: the paper's Standard certificate."""
    total, n, off = evidence.score_sum, evidence.draws, evidence.score_rounding
    return _mean_limits(evidence, alpha, lambda at, level: hoeffding(total[at], n[at], alpha=level, rounding=off[at]))


def bernstein_limits(evidence: Evidence, alpha: float) -> MeanLimits:
    """Empirical Bernstein limits of the mean scores."""
    total, square, n = evidence.score_sum, evidence.score_square_sum, evidence.draws
    off = evidence.score_rounding
    return _mean_limits(
        evidence,
        alpha,
        lambda at, level: empirical_bernstein(total[at], square[at], n[at], alpha=level, rounding=off[at]),
    )


def dkw_limits(evidence: Evidence, alpha: float) -> CellLimits:
    """DKW limits of the distribution of the scores: the paper's CDF certificate."""

    def band(reached: Counts, draws: Counts, level: float) -> tuple[FloatArray, FloatArray]:
        # The addend covers the rounding of the share and of its sum and difference with the half-width.
        half_width = dkw_half_width(draws, alpha=level) + 2.0**-51
        share = reached / draws
        return np.maximum(share - half_width, 0.0), np.minimum(share + half_width, 1.0)

    return _cell_limits(evidence, alpha, band)


def clopper_pearson_limits(evidence: Evidence, alpha: float) -> CellLimits:
    """Clopper–Pearson limits of the distribution, alpha / (2 T) for each side of each of the T interior thresholds."""
    return _cell_limits(
        evidence,
        alpha,
        lambda reached, draws, level: clopper_pearson(reached, draws, alpha=level / _thresholds(evidence)),
    )


def combined_limits(evidence: Evidence, alpha: float) -> CellLimits:
    """Clopper–Pearson limits of the distribution that also respect the empirical Bernstein limits of its mean."""
    cells = clopper_pearson_limits(evidence, alpha * (1 - _MEAN_SHARE))
    return cells.held_to(bernstein_limits(evidence, alpha * _MEAN_SHARE))


def _mean_limits(evidence: Evidence, alpha: float, planned: Limits) -> MeanLimits:
    total, n, off = evidence.score_sum, evidence.draws, evidence.score_rounding
    lower, upper = by_look(
        evidence.header,
        n,
        alpha,
        planned=planned,
        any_time=lambda at, level: anytime_limits(total[at], n[at], alpha=level, rounding=off[at]),
    )
    return MeanLimits(*_under_normals(evidence, lower, upper))


def _cell_limits(
    evidence: Evidence, alpha: float, planned: Callable[[Counts, Counts, float], tuple[FloatArray, FloatArray]]
) -> CellLimits:
    pair, reached, draws = _distinct_pairs(evidence)
    lower, upper = by_look(
        evidence.header,
        draws,
        alpha,
        planned=lambda at, level: planned(reached[at], draws[at], level),
        any_time=lambda at, level: anytime_limits(reached[at], draws[at], alpha=level / _thresholds(evidence)),
    )
    return _cells(evidence, pair, *_under_normals(evidence, lower, upper))


def _under_normals(evidence: Evidence, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Limits of what Gaussian noise gives, from those of what the noise that was drawn gives; docs/noise.md."""
    slip = evidence.header.slip
    return np.maximum(lower - slip, 0.0), np.minimum(upper + slip, 1.0)


def _thresholds(evidence: Evidence) -> int:
    """How many thresholds lie inside the grid."""
    return int(evidence.histogram.shape[1]) - 1


def _cells(evidence: Evidence, pair: Index, lower: FloatArray, upper: FloatArray) -> CellLimits:
    """Limits at the interior thresholds as limits on the cells between them.

    On [s_j, s_{j+1}) the tail P(score ≥ s) lies between its values at s_{j+1}, which may be 0 at the last threshold,
    and at s_j, which is 1 at the first.

    Paper: App. A.1, CDF certificate. The printed upper sum starts at j = 1 and so leaves out the first
    interval [s_0, s_1); it is counted here.
    """
    end = np.zeros((len(pair), 1), dtype=np.intp)  # position 0 holds the tail beyond the grid: 0 above, 1 below
    return CellLimits(
        widths=np.diff(evidence.thresholds),
        lower=np.concatenate([[0.0], lower]),
        lower_at=np.hstack([pair + 1, end]),
        upper=np.concatenate([[1.0], upper]),
        upper_at=np.hstack([end, pair + 1]),
    )


def _distinct_pairs(evidence: Evidence) -> tuple[Index, Counts, Counts]:
    """Which (draws that reached the threshold, draws) pair each input and threshold has, and the distinct pairs.

    A limit depends on nothing else, and evaluating one takes a microsecond: 10 000 inputs have 2.5 million of them, of
    which at most one more than the draws are distinct.
    """
    # Suffix sums: a score lies in cell j or higher exactly if it is at least s_j.
    reached = np.cumsum(evidence.histogram[:, :0:-1], axis=1)[:, ::-1]
    pair = np.empty(reached.shape, dtype=np.intp)
    counts, trials = [], []
    known = 0
    for draws in np.unique(evidence.draws):
        rows = evidence.draws == draws
        distinct, rank = _distinct(reached[rows], int(draws))
        pair[rows] = rank + known
        known += len(distinct)
        counts.append(distinct)
        trials.append(np.full(len(distinct), draws))
    return pair, np.concatenate(counts), np.concatenate(trials)


def _distinct(counts: Counts, largest: int) -> tuple[Counts, Index]:
    """The distinct counts and the rank of each entry among them: `np.unique`, without sorting where that pays."""
    if largest > 4 * counts.size:
        distinct, rank = np.unique(counts, return_inverse=True)
        return distinct, rank.reshape(counts.shape)
    seen = np.zeros(largest + 1, dtype=np.bool_)
    seen[counts] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[counts]
