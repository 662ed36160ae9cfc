"""Confidence limits for the mean of values in [0, 1] and for a distribution function, from sums and counts.

Every limit is moved outward past the rounding of its own arithmetic and of the float64 sums it is given.
"""

import math

import numpy as np
import scipy

from certcal.errors import InputError
from certcal.inputs import as_counts, as_numbers, broadcast, check_each
from certcal.scalars import check_level
from certcal.types import ArrayLike, FloatArray

# Square roots, logarithms and the few products here carry a handful of roundings of 2^-53 each.
_OUTWARD = 2.0**-46
# Both parameters of the beta distribution that mixes the bets. A quarter costs little in the middle and gains much near
# 0 and 1, where certificates are decided: after 100 000 draws without a failure 2.6 less to pay than with a half.
_MIXING = 0.25
_HALVINGS = 52
_FAR = 745.0  # logits beyond which a float cannot tell its mean from 0 or 1


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
    log_term = math.log(4) - math.log(alpha)  # 4 / alpha may overflow
    half = np.sqrt(2 * variance * log_term / np.maximum(n, 1)) + 7 * log_term / (3 * freedom)
    return _around(s, n, np.where(n < 2, np.inf, half * (1 + _OUTWARD)), off)


def anytime_limits(
    total: ArrayLike | float, trials: ArrayLike | int, *, alpha: float, rounding: ArrayLike | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Two-sided confidence limits for the mean of values in [0, 1] that hold after every number of trials at once.

    With probability at least 1 - alpha all the intervals that one sequence of independent values ever gives contain the
    mean, so trials may be added whenever one likes, because of what was seen too. For proportions `total` counts the
    successes. A mean p is refuted once B(S + a, n − S + a) / (B(a, a) p^S (1 − p)^(n − S)) reaches 1 / alpha, S being
    the sum of the n values and a = 1/4: what somebody owns by then who has bet against p, starting with 1.

    Paper: —; Ville (1939); the mixture is Robbins's (1970), docs/certificates.md has the proof.   Errs: outward.
    Raises: InputError if a total lies outside [0, trials] or alpha outside (0, 1).

    >>> lower, upper = anytime_limits([0, 900, 1000], 1000, alpha=0.05)
    >>> lower.round(4).tolist(), upper.round(4).tolist()
    ([0.0, 0.861, 0.9946], [0.0054, 0.9316, 1.0])
    """
    check_level("alpha", alpha)
    s, n, off = (np.asarray(part) for part in _sums(total, trials, rounding))
    s = np.minimum(s, n)
    off = off + sum_error(n) * s
    middle = np.clip(scipy.special.logit(s / np.maximum(n, 1)), -700.0, 700.0)
    return _refuted_from(middle, -1, s, n, off, alpha), _refuted_from(middle, 1, s, n, off, alpha)


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


def anytime_p_value(successes: ArrayLike, trials: ArrayLike) -> FloatArray:
    """P-values of proportions of at most 1/2 that hold after every number of trials at once, 1 without a majority.

    With probability at least 1 - alpha no number of trials ever gives one of alpha or less if the proportion is at most
    1/2. The majority is refuted as the mean 1/2 is in `anytime_limits`.

    Paper: —; Ville (1939).   Errs: high.
    """
    s, n, off = _sums(successes, trials, 0.0)
    wealth = _log_wealth(np.zeros(n.shape), s, n, off, _log_bets(s, n))
    return np.where(2 * s > n, np.minimum(np.exp(-wealth), 1.0), 1.0)


def _refuted_from(
    middle: FloatArray, side: int, s: FloatArray, n: FloatArray, off: FloatArray, alpha: float
) -> FloatArray:
    """The mean on one side of the middle, given as logit, from which on every mean is refuted; or that side's end.

    The logarithm of the wealth is convex in the logit with its least value at the middle: it rises towards both ends.
    """
    inside, outside, bets = middle, np.full(n.shape, side * _FAR), _log_bets(s, n)
    for _ in range(_HALVINGS):
        x = (inside + outside) / 2
        refuted = _log_wealth(x, s, n, off, bets) >= -math.log(alpha)
        inside, outside = np.where(refuted, inside, x), np.where(refuted, x, outside)
    # The smaller of p and 1 − p keeps its digits. The addend covers what it and the logit were rounded by.
    small = scipy.special.expit(-np.abs(outside))
    mean = np.where(
        outside < 0, small * (1 + side * 2.0**-40), np.nextafter(1 - small * (1 - side * 2.0**-40), float(side))
    )
    return np.where(np.abs(outside) >= _FAR, float(side > 0), np.clip(mean, 0.0, 1.0))


def _log_bets(s: FloatArray, n: FloatArray) -> FloatArray:
    """Logarithms of ∫ q^s (1 − q)^(n − s) over the mixing distribution of q."""
    return np.asarray(scipy.special.betaln(s + _MIXING, n - s + _MIXING) - scipy.special.betaln(_MIXING, _MIXING))


def _log_wealth(x: FloatArray, s: FloatArray, n: FloatArray, off: FloatArray, bets: FloatArray) -> FloatArray:
    """Logarithms, rounded down, of what betting against the mean with logit x has made of 1 after n values of sum s."""
    distance = np.abs(x)
    # −ln p and −ln(1 − p) are ln(1 + e^−|x|), for the larger of p and 1 − p, and |x| more
    wealth = bets + n * np.log1p(np.exp(-distance)) + np.where(x < 0, s, n - s) * distance
    # Of a sum that is a little off the logarithm changes by at most its slope, |ψ(s + a) − ψ(n − s + a) − x|. Its terms
    # reach n ln n and n |x|, of which some hundred roundings are allowed for.
    slope = np.log(n + 1) + 8.0 + distance
    return np.asarray(wealth - off * slope - 2.0**-44 * (n + 1) * slope)


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
    within = np.ravel((s >= 0) & (s <= n * (1 + sum_error(n)) + off))
    check_each("total", within, "lie in [0, trials]", lambda at: f"{s.flat[at]:g} of {n.flat[at]:g} trials")
    return s, n, off
