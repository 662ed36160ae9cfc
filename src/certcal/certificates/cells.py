"""Limits of the smoothed confidence at the input itself, ready to be moved to any radius.

The mean of a score in [0, 1] is ∫ P(score ≥ s) ds. The Standard certificate moves the mean itself; the CDF certificate
moves the integrand, cell by cell of the threshold grid, which is never looser: the shift is convex downwards and
concave upwards. Paper: App. A.1; App. C.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certcal.blocks import slices
from certcal.certificates.shift import greatest_probability, least_probability
from certcal.types import BoolArray, FloatArray

Index = NDArray[np.integer]

# Rows of a (rows, cells) gather whose temporaries stay in the processor's cache.
_ROWS = 256
# 256 products and their sum carry at most 257 roundings of 2^-53 of the (positive) total.
_SUM_ERROR = 2.0**-44
# Each halving gains a bit of the level: a bound is left at most 2^-40 from where it could be.
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class MeanLimits:
    """Limits of each input's mean score, shape (n,)."""

    lower: FloatArray
    upper: FloatArray

    def at(self, shift: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the smoothed confidence within R = shift · σ, shape (n,) each.

        Paper: App. A.1, Eq. (standard bounds).   Errs: outward.
        """
        return least_probability(self.lower, shift), greatest_probability(self.upper, shift)


@dataclass(frozen=True, eq=False)
class CellLimits:
    """Limits of each input's average of P(score ≥ s) over each cell [s_j, s_{j+1}) of the grid.

    Few limits are distinct, so each is kept once, is moved to a radius once, and is found by its position.
    """

    widths: FloatArray  # (cells,) s_{j+1} − s_j, exact: thresholds are float32 numbers in [0, 1]
    lower: FloatArray  # (d,) distinct lower limits
    lower_at: Index  # (n, cells) which of them
    upper: FloatArray
    upper_at: Index

    def at(self, shift: float, levels: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the smoothed confidence within R = shift · σ, shape (n,) each.

        With `levels` they are bounds of the mean of h, the step function that has the value levels[j] on cell j: E h is
        h_0 + Σ_j (h_j − h_{j−1}) P(score ≥ s_j), without loss between thresholds. Needs limits that are those of the
        tails at thresholds; docs/recalibration.md.

        Paper: App. A.1, CDF certificate.   Errs: outward.
        """
        first, last, low_weights, high_weights = 0.0, 1.0, self.widths, self.widths
        if levels is not None:
            first, last, steps = levels[0], levels[-1], np.diff(levels)
            low_weights, high_weights = np.append(steps, 0.0), np.append(first, steps)
        lower = self._integrate(least_probability(self.lower, shift), self.lower_at, low_weights) + first
        upper = self._integrate(greatest_probability(self.upper, shift), self.upper_at, high_weights)
        return np.maximum(lower * (1 - _SUM_ERROR), first), np.minimum(upper * (1 + _SUM_ERROR), last)

    def other_at(self, shift: float, levels: FloatArray) -> FloatArray:
        """What E h of another class's score stays below within R = shift · σ, shape (n,).

        Both scores of a draw add up to 1 at most, so a score ≥ s_j of another class leaves this one below s_{257 − j} >
        1 − s_j: its tail is at most 1 − P(score ≥ s_{257 − j}). The thresholds are further apart than sums are off.
        """
        weights = np.append(0.0, np.diff(levels)[::-1])  # of the lower limits of cells, which are those at their ends
        missing = self._integrate(least_probability(self.lower, shift), self.lower_at, weights)
        other = np.nextafter(levels[-1] - missing * (1 - _SUM_ERROR), np.inf)
        return np.asarray(np.minimum(other, levels[-1]))  # which no value of h exceeds

    def tails(self, shift: float, rows: BoolArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Limits of P(score ≥ s_j) at inner thresholds within R = shift · σ, (rows, cells − 1), part by part."""
        lower, upper = least_probability(self.lower, shift), greatest_probability(self.upper, shift)
        for some in np.array_split(np.flatnonzero(rows), max(1, -(-int(rows.sum()) // _ROWS))):
            yield lower[self.lower_at[some, :-1]], upper[self.upper_at[some, 1:]]

    def held_to(self, mean: MeanLimits) -> "CellLimits":
        """Narrower limits, for use where the limits of the mean hold as well.

        Of all cell averages a_j in [lower_j, upper_j] with Σ w_j a_j at least the mean's lower limit, those with the
        least Σ w_j g(a_j) are the a_j = clip(c, lower_j, upper_j) that just reach it, for any convex rising g, hence
        for the shift to any radius; by Jensen's inequality no score distribution does worse. Upwards, where the shift
        is concave, the same holds of the largest sum and the mean's upper limit. A smaller c stays a lower bound and
        a larger one an upper bound, so c need not be exact.
        """
        low, high = (
            self._level(mean.lower * (1 - _SUM_ERROR), up=False),
            self._level(mean.upper * (1 + _SUM_ERROR), up=True),
        )
        return CellLimits(self.widths, *self._clip(low), *self._clip(high))

    def _integrate(self, values: FloatArray, position: Index, weights: FloatArray) -> FloatArray:
        sums = np.empty(len(position))
        for rows in slices(len(sums), _ROWS):
            sums[rows] = values[position[rows]] @ weights
        return sums

    def _level(self, mean: FloatArray, *, up: bool) -> FloatArray:
        """The c of each input at which Σ w_j clip(c, lower_j, upper_j) meets `mean`, rounded up or down, shape (n,)."""
        level = np.empty(len(mean))
        for rows in slices(len(mean), _ROWS):
            lower, upper = self.lower[self.lower_at[rows]], self.upper[self.upper_at[rows]]
            least, most = np.zeros(len(lower)), np.ones(len(lower))
            for _ in range(_HALVINGS):
                middle = (least + most) / 2
                over = np.clip(middle[:, None], lower, upper) @ self.widths > mean[rows]
                least, most = np.where(over, least, middle), np.where(over, middle, most)
            level[rows] = most if up else least
        return level

    def _clip(self, level: FloatArray) -> tuple[FloatArray, Index]:
        """The distinct values of clip(level, lower_j, upper_j) and their positions."""
        values = np.concatenate([self.lower, self.upper, level])
        position = np.empty_like(self.lower_at)
        for rows in slices(len(level), _ROWS):
            lower_at, upper_at, own = self.lower_at[rows], self.upper_at[rows], level[rows, None]
            own_at = np.arange(len(level))[rows, None] + (len(self.lower) + len(self.upper))
            inner = np.where(self.upper[upper_at] < own, upper_at + len(self.lower), own_at)
            position[rows] = np.where(self.lower[lower_at] > own, lower_at, inner)
        return values, position
