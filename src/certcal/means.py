"""Confidence limits for the mean of values in [0, 1] and for a distribution function, from sums and counts.

Every limit is moved outward past the rounding of its own arithmetic and of the float64 sums it is given.
"""

import math

import numpy as np

from certcal.errors import InputError
from certcal.inputs import as_counts, as_numbers, broadcast, check_level
from certcal.types import ArrayLike, FloatArray

# Square roots, logarithms and the few products here carry a handful of roundings of 2^-53 each.
_OUTWARD = 2.0**-46


def hoeffding(
    total: ArrayLike | float, trials: ArrayLike | int, *, alpha: float, rounding: ArrayLike | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Two-sided confidence limits for the mean of values in [0, 1], alpha / 2 in each tail.

    Each interval contains the mean with probability at least 1 - alpha. `total` is the sum of `trials` independent
    values, off by at most `rounding`. With no trials the limits are 0 and 1.

    Paper: App. A.1, Standard certificate; Hoeffding (1963), Theorem 1.   Errs: outward.
    Raises: InputError if a total lies outside [0, trials] or alpha outside (0, 1).

    >>> lower, upper = hoeffding(900, 1000, alpha=0.05)
    >>> float(lower.round(4)), float(upper.round(4))
    (0.8571, 0.9429)
    """
    check_level("alpha", alpha)
    s, n, off = _sums(total, trials, rounding)
    return _around(s, n, dkw_half_width(n, alpha=alpha), off)


def empirical_bernstein(
    total: ArrayLike | float,
    total_square: ArrayLike | float,
    trials: ArrayLike | int,
    *,
    alpha: float,
    rounding: ArrayLike | float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Two-sided confidence limits for the mean of values in [0, 1] that narrow with their variance.

    Each interval contains the mean with probability at least 1 - alpha. `total` and `total_square` are the sums of
    `trials` independent values and of their squares, each off by at most `rounding`. With V the unbiased sample
    variance and L = ln(4 / alpha), the half-width is √(2 V L / n) + 7 L / (3 (n − 1)). With fewer than two trials the
    limits are 0 and 1.

    Paper: —; Maurer and Pontil (2009), Theorem 4, at alpha / 2 for the values and for their complements.
    Errs: outward; the variance is rounded up past the cancellation in its two sums.
    Raises: InputError if the sums cannot come from that many values in [0, 1] or alpha is outside (0, 1).

    >>> lower, upper = empirical_bernstein(900, 812, 1000, alpha=0.05)
    >>> float(lower.round(4)), float(upper.round(4))
    (0.8856, 0.9144)
    """
    check_level("alpha", alpha)
    s, n, off = _sums(total, trials, rounding)
    q, s = broadcast("total_square", as_numbers("total_square", total_square), "total", s)
    slack = sum_error(n)
    most, least = s * (1 + slack) + 2 * off, np.maximum(s - off, 0.0)
    if not ((q >= 0) & (q <= most) & ((q + off) * n >= least * least * (1 - 3 * slack))).all():
        raise InputError.expected("total_square", "lie in [total² / trials, total]", "a sum of squares outside it")
    freedom = np.maximum(n - 1, 1)
    # Q − S² / n loses digits when the values are nearly equal: whatever the two sums may be off by is added back.
    variance = np.maximum(q + off - least * least / np.maximum(n, 1) + 4 * slack * q, 0.0) / freedom
    log_term = math.log(4 / alpha)
    half = np.sqrt(2 * variance * log_term / np.maximum(n, 1)) + 7 * log_term / (3 * freedom)
    return _around(s, n, np.where(n < 2, np.inf, half * (1 + _OUTWARD)), off)


def dkw_half_width(trials: ArrayLike | int, *, alpha: float) -> FloatArray:
    """Half-widths of the band around the empirical distribution function that holds the true one everywhere.

    With probability at least 1 - alpha no point of the distribution function, from the left or the right, is further
    than √(ln(2 / alpha) / (2 n)) from its empirical value. Infinite with no trials.

    Paper: App. A.1, CDF certificate; Massart (1990), Corollary 1.   Errs: high.
    Raises: InputError if alpha is outside (0, 1).

    >>> dkw_half_width([1000, 100_000], alpha=0.001).round(5).tolist()
    [0.06165, 0.00616]
    """
    check_level("alpha", alpha)
    n = as_counts("trials", trials)
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(math.log(2 / alpha) / (2 * n)) * (1 + _OUTWARD))


def sum_error(terms: FloatArray | float) -> FloatArray:
    """The relative error to allow for a float64 sum of that many non-negative terms, added in any order."""
    # Each addition errs by at most 2^-53 of its result: n 2^-53 in all, doubled, and a little for few terms.
    return np.asarray((np.asarray(terms) + 64.0) * 2.0**-52)


def _around(
    total: FloatArray, n: FloatArray, half_width: FloatArray, rounding: FloatArray
) -> tuple[FloatArray, FloatArray]:
    mean = total / np.maximum(n, 1)
    # Of the sum, of what it was rounded to, of the mean and of the subtraction below.
    error = sum_error(n) * mean + 2 * rounding / np.maximum(n, 1) + 2.0**-52
    return np.maximum(mean - half_width - error, 0.0), np.minimum(mean + half_width + error, 1.0)


def _sums(
    total: ArrayLike | float, trials: ArrayLike | int, rounding: ArrayLike | float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    s, n = broadcast("total", as_numbers("total", total), "trials", as_counts("trials", trials))
    off, n = broadcast("rounding", as_numbers("rounding", rounding), "trials", n)
    bad = ~((s >= 0) & (s <= n * (1 + sum_error(n)) + off))
    if bad.any():
        raise InputError.expected("total", "lie in [0, trials]", f"{s[bad].flat[0]:g} of {n[bad].flat[0]:g} trials")
    return s, n, off
