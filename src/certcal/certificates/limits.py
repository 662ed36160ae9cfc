"""What the stored draws say of the smoothed confidence at the input itself, one function per method.

Each holds per input as one event with probability at least 1 - alpha, whatever the radius it is later moved to and
however often one looks, so one error probability covers all radii and looks together.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from certcal.blocks import slices
from certcal.certificates.cells import CellLimits, Index, MeanLimits
from certcal.certificates.looks import Limits, by_look
from certcal.means import anytime_limits, dkw_half_width, empirical_bernstein, hoeffding
from certcal.proportions import clopper_pearson
from certcal.smoothing import Counts, Evidence, EvidenceHeader
from certcal.types import FloatArray

# Limits at the thresholds of a grid: of counts, draws, the level of all of them together, and how many there are.
Band = Callable[[Counts, Counts, float, int], tuple[FloatArray, FloatArray]]

# Part of alpha that the limits of the mean get when they join those of the distribution. Anything from a tenth to a
# half gives much the same widths.
_MEAN_SHARE = 0.25
_ROWS = 1024  # inputs whose places are looked up at a time
_REMEMBERED = 2**17  # pairs of counts and draws, at most, whose limits are remembered: 4 MB


def hoeffding_limits(evidence: Evidence, alpha: float) -> MeanLimits:
    """Hoeffding limits of the mean scores: the paper's Standard certificate."""
    return _mean_limits(evidence, alpha, hoeffding, evidence.score_sum)


def bernstein_limits(evidence: Evidence, alpha: float) -> MeanLimits:
    """Empirical Bernstein limits of the mean scores."""
    return _mean_limits(evidence, alpha, empirical_bernstein, evidence.score_sum, evidence.score_square_sum)


def dkw_limits(evidence: Evidence, alpha: float) -> CellLimits:
    """DKW limits of the distribution of the scores: the paper's CDF certificate."""
    return _cell_limits(evidence, alpha, _dkw)


def clopper_pearson_limits(evidence: Evidence, alpha: float) -> CellLimits:
    """Clopper–Pearson limits of the distribution, alpha / (2 T) for each side of each of the T interior thresholds."""
    return _cell_limits(evidence, alpha, _clopper_pearson)


def combined_limits(evidence: Evidence, alpha: float) -> CellLimits:
    """Clopper–Pearson limits of the distribution that also respect the empirical Bernstein limits of its mean."""
    cells = clopper_pearson_limits(evidence, alpha * (1 - _MEAN_SHARE))
    return cells.held_to(bernstein_limits(evidence, alpha * _MEAN_SHARE))


def _mean_limits(evidence: Evidence, alpha: float, planned: Callable[..., Any], *sums: FloatArray) -> MeanLimits:
    n, off = evidence.draws, evidence.score_rounding

    def given(function: Callable[..., Any], *sums: FloatArray) -> Limits:
        return lambda at, level: function(*(own[at] for own in sums), n[at], alpha=level, rounding=off[at])

    any_time = given(anytime_limits, evidence.score_sum)
    lower, upper = by_look(evidence.header, n, alpha, planned=given(planned, *sums), any_time=any_time)
    return MeanLimits(*_under_normals(evidence, lower, upper))


def _dkw(reached: Counts, draws: Counts, level: float, _: int) -> tuple[FloatArray, FloatArray]:
    # The addend covers the rounding of the share and of its sum and difference with the half-width.
    half_width = dkw_half_width(draws, alpha=level) + 2.0**-51
    share = reached / draws
    return np.maximum(share - half_width, 0.0), np.minimum(share + half_width, 1.0)


def _clopper_pearson(reached: Counts, draws: Counts, level: float, thresholds: int) -> tuple[FloatArray, FloatArray]:
    return clopper_pearson(reached, draws, alpha=level / thresholds)


def _cell_limits(evidence: Evidence, alpha: float, band: Band) -> CellLimits:
    """Limits at the interior thresholds as limits on the cells between them.

    On [s_j, s_{j+1}) the tail P(score ≥ s) lies between its values at s_{j+1}, which may be 0 at the last threshold,
    and at s_j, which is 1 at the first.

    Paper: App. A.1, CDF certificate. The printed upper sum starts at j = 1 and so leaves out the first
    interval [s_0, s_1); it is counted here.
    """
    place, reached, draws = _distinct_pairs(evidence)
    inside = int(evidence.histogram.shape[1]) - 1  # thresholds that lie inside the grid
    asked = band, evidence.header, alpha, inside
    if len(reached) <= _REMEMBERED:
        lower, upper = _remembered(*asked, reached.tobytes(), draws.tobytes())
    else:
        lower, upper = _pair_limits(*asked, reached, draws)
    lower, upper = _under_normals(evidence, lower, upper)
    return CellLimits(
        widths=np.diff(evidence.thresholds),
        lower=np.concatenate([[0.0], lower]),
        lower_at=place[:, 1:],
        upper=np.concatenate([[1.0], upper]),
        upper_at=place[:, :-1],
    )


def _pair_limits(
    band: Band, header: EvidenceHeader, alpha: float, thresholds: int, reached: Counts, draws: Counts
) -> FloatArray:
    """Lower and upper limits of P(score ≥ s) for pairs of counts and draws, shape (2, pairs)."""
    return by_look(
        header,
        draws,
        alpha,
        planned=lambda at, level: band(reached[at], draws[at], level, thresholds),
        any_time=lambda at, level: anytime_limits(reached[at], draws[at], alpha=level / thresholds),
    )


@lru_cache(maxsize=16)
def _remembered(
    band: Band, header: EvidenceHeader, alpha: float, thresholds: int, reached: bytes, draws: bytes
) -> FloatArray:
    """The same of the same counts is not computed twice: whoever compares maps certifies the same inputs many times."""
    counts = (np.frombuffer(part, dtype=np.int64) for part in (reached, draws))
    return _pair_limits(band, header, alpha, thresholds, *counts)


def _under_normals(evidence: Evidence, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Limits of what Gaussian noise gives, from those of what the noise that was drawn gives; docs/noise.md."""
    slip = evidence.header.slip
    return np.maximum(lower - slip, 0.0), np.minimum(upper + slip, 1.0)


def _distinct_pairs(evidence: Evidence) -> tuple[Index, Counts, Counts]:
    """At which place each input and threshold finds its (draws that reached it, draws), and the distinct pairs.

    A limit depends on nothing else, and evaluating one takes a microsecond: 10 000 inputs have 2.5 million of them, of
    which at most one more than the draws are distinct. Pairs have the places from 1 on. Both ends of the grid have
    place 0, whose limits are known: no score lies beyond. Places are most of what an evaluation holds in memory.
    """
    inputs, cells = evidence.histogram.shape
    small = max(inputs * cells, int(evidence.draws.max(initial=0))) < 2**29
    place = np.zeros((inputs, cells + 1), dtype=np.int32 if small else np.int64)
    # Suffix sums: a score lies in cell j or higher exactly if it is at least s_j.
    for own in slices(inputs, _ROWS):
        place[own, -2:0:-1] = evidence.histogram[own, :0:-1].cumsum(axis=1)
    counts, trials = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    known = 1
    for draws in np.unique(evidence.draws).tolist():
        rows = np.flatnonzero(evidence.draws == draws)
        parts = np.array_split(rows, -(-len(rows) // _ROWS))
        if draws > 4 * len(rows) * cells:
            distinct = np.unique(place[rows, 1:-1])
            place[rows, 1:-1] = np.searchsorted(distinct, place[rows, 1:-1]) + known
        else:  # without sorting
            seen = np.zeros(draws + 1, dtype=np.bool_)
            for part in parts:
                seen[place[part, 1:-1]] = True
            distinct, rank = np.flatnonzero(seen), np.cumsum(seen) - 1 + known
            for part in parts:
                place[part, 1:-1] = rank[place[part, 1:-1]]
        known += len(distinct)
        counts.append(distinct.astype(np.int64))
        trials.append(np.full(len(distinct), draws))
    return place, np.concatenate(counts), np.concatenate(trials)
