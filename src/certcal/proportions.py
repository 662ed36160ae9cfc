"""Confidence limits for binomial proportions (Clopper–Pearson), one-sided and two-sided.

A limit is only returned once the exact binomial tail, evaluated at it, has been seen on the safe side of the level by
more than the error of that evaluation. The inverse that proposes it need not be trusted: its error is usually a few
units of rounding, but reaches 5e-8 for some counts.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from certcal.blocks import shared_blocks
from certcal.inputs import as_fractions
from certcal.scalars import check_level
from certcal.types import ArrayLike, FloatArray

# Relative error allowed for scipy.special.betainc and betaincc, per 2^17 trials. Compared with 40-digit arithmetic at
# 40 000 limits (trials up to 3e6, levels from 1e-15 to 0.99) they stay eight times inside.
_TAIL_ERROR = 2.0**-35
# Tails below this lose their digits, or come out as 0: at such levels nothing is claimed, and the limits are 0 and 1.
TAIL_UNDERFLOW = 1e-280
_BLOCK = 2048  # counts whose limits are found in one go


def guessing(inputs: int, classes: int) -> float:
    """An accuracy on so many inputs up to which a model is not clearly better than guessing among so many classes.

    Two standard deviations above one in so many, or in two, and less than 1.

    >>> guessing(100, 2)
    0.6
    """
    share = 1 / max(2, classes)
    return min(share + 2 * math.sqrt(share * (1 - share) / inputs), 1 - 1e-9)


def clopper_pearson(
    successes: ArrayLike | int, trials: ArrayLike | int, *, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Two-sided confidence limits for binomial proportions, alpha / 2 in each tail.

    Each interval contains the true proportion with probability at least 1 - alpha, whatever it is.
    With no trials, or at an alpha below 1e-279, nothing is known and the limits are 0 and 1.

    Paper: —; Clopper and Pearson (1934), Biometrika 26, 404–413.   Errs: outward, by about 1e-10 of the limit.
    Raises: InputError if successes exceed trials or alpha is outside (0, 1).

    >>> lower, upper = clopper_pearson([0, 5, 10], 10, alpha=0.05)
    >>> lower.round(4).tolist(), upper.round(4).tolist()
    ([0.0, 0.1871, 0.6915], [0.3085, 0.8129, 1.0])
    """
    check_level("alpha", alpha)
    return _both_limits(*as_fractions("successes", successes, trials), alpha / 2)


def clopper_pearson_lower(successes: ArrayLike | int, trials: ArrayLike | int, *, alpha: float) -> FloatArray:
    """Lower confidence limits for binomial proportions, the whole of alpha in one tail.

    Each limit is at most the true proportion with probability at least 1 - alpha; for joint claims divide alpha.

    Paper: App. A.1, the lower bound of p_A; Clopper and Pearson (1934).   Errs: low.
    Raises: InputError if successes exceed trials or alpha is outside (0, 1).

    >>> clopper_pearson_lower([0, 990, 1000], 1000, alpha=0.001).round(4).tolist()
    [0.0, 0.976, 0.9931]
    """
    check_level("alpha", alpha)
    return _limits(*as_fractions("successes", successes, trials), alpha, -1)


def clopper_pearson_upper(successes: ArrayLike | int, trials: ArrayLike | int, *, alpha: float) -> FloatArray:
    """Upper confidence limits for binomial proportions, the whole of alpha in one tail.

    Each limit is at least the true proportion with probability at least 1 - alpha; for joint claims divide alpha.
    Small limits keep their relative precision: the upper limit of the failures is a better handle on a proportion close
    to 1 than its own lower limit.

    Paper: App. A.1, the upper bound of p_B; Clopper and Pearson (1934).   Errs: high.
    Raises: InputError if successes exceed trials or alpha is outside (0, 1).

    >>> clopper_pearson_upper([0, 10, 1000], 1000, alpha=0.001).round(4).tolist()
    [0.0069, 0.024, 1.0]
    """
    check_level("alpha", alpha)
    return _limits(*as_fractions("successes", successes, trials), alpha, 1)


def tail_error(trials: FloatArray | float) -> FloatArray:
    """The relative error to allow for a binomial tail probability of that many trials."""
    return np.asarray(_TAIL_ERROR * np.maximum(1.0, np.asarray(trials) / 2**17))


def _both_limits(k: FloatArray, n: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Lower and upper limits. Those of n − k successes are the complements of those of k, and are found with them."""
    few = np.minimum(k, n - k)
    if n.size and (n == n.flat[0]).all():
        rare, place = np.unique(few, return_inverse=True)
        low, up = (_limits(rare, np.full(len(rare), n.flat[0]), level, side) for side in (-1, 1))
        low, up = low[place].reshape(k.shape), up[place].reshape(k.shape)
    else:
        low, up = _limits(few, n, level, -1), _limits(few, n, level, 1)
    mostly = k > n / 2
    lower = np.where(mostly, np.nextafter(1.0 - up, 0.0), low)
    return lower, np.where(mostly, np.nextafter(1.0 - low, 1.0), up)


def _limits(k: FloatArray, n: FloatArray, level: float, side: int) -> FloatArray:
    """Lower limits at side −1, upper ones at 1.

    Limits below 1/2 are found as they are, those above as the complement of the other side's limit for the failures, so
    that the smaller of limit and 1 - limit keeps its relative precision.
    """
    end = float(side > 0)
    found = np.full(k.shape, end)
    unsure = k < n if side > 0 else k > 0
    small, large = unsure & (k <= n / 2), unsure & (k > n / 2)
    found[small] = _small_limits(k[small], n[small], level, side)
    found[large] = np.nextafter(1.0 - _small_limits((n - k)[large], n[large], level, -side), end)
    return found


def _small_limits(k: FloatArray, n: FloatArray, level: float, side: int) -> FloatArray:
    """Proportions under which at most k successes (at side 1), or at least k ≥ 1, have probability at most `level`."""
    if side > 0:
        inverse, tail, a, b = scipy.special.betainccinv, scipy.special.betaincc, k + 1, n - k
    else:
        inverse, tail, a, b = scipy.special.betaincinv, scipy.special.betainc, k, n - k + 1

    def limits(own: slice) -> FloatArray:
        here, there = a[own], b[own]
        start = inverse(here, there, level)
        return _settle(lambda p, at: tail(here[at], there[at], p), start, n[own], level, direction=side)

    return np.concatenate([np.empty(0), *shared_blocks(len(k), limits, step=_BLOCK)])  # on several cores if many


def _settle(
    tail: Callable[[FloatArray, NDArray[np.intp]], FloatArray],
    start: FloatArray,
    n: FloatArray,
    level: float,
    *,
    direction: int,
) -> FloatArray:
    """The start, moved outward until the tail probability there is proven to be at most `level`."""
    error = tail_error(n)
    end = float(direction > 0)  # the tail there is exactly 0
    if level < TAIL_UNDERFLOW:
        return np.full(len(start), end)
    start = np.where(np.isnan(start), end, start)
    limit = start.copy()
    unproven = np.arange(len(start))
    step = 2.0
    while len(unproven):
        here = start[unproven]
        moved = here + direction * step * (error[unproven] * here * (1 - here) + 1e-300)
        limit[unproven] = moved = np.clip(moved, 0.0, 1.0)
        proven = (tail(moved, unproven) <= level * (1 - error[unproven])) | (moved == end)
        unproven = unproven[~proven]
        step *= 4.0
    return limit
