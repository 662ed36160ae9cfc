"""Confidence limits for proportions.

Each limit is nudged outward past the rounding of the special functions, so it errs on the safe side.
"""

import numpy as np
from scipy import special

from certcal.errors import InputError
from certcal.inputs import check_level, to_numpy
from certcal.types import ArrayLike, FloatArray

# scipy.special.betaincinv is accurate to a few ulp; a relative 1e-12 leaves a wide margin.
_OUTWARD = 1e-12


def clopper_pearson(
    successes: ArrayLike | int, trials: ArrayLike | int, *, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Two-sided confidence limits for binomial proportions, alpha / 2 in each tail.

    Each interval contains the true proportion with probability at least 1 - alpha, whatever it is.
    With no trials nothing is known and the limits are 0 and 1.

    Paper: —; Clopper and Pearson (1934), Biometrika 26, 404–413.   Errs: outward.
    Raises: InputError if successes exceed trials or alpha is outside (0, 1).

    >>> lower, upper = clopper_pearson([0, 5, 10], 10, alpha=0.05)
    >>> lower.round(4).tolist(), upper.round(4).tolist()
    ([0.0, 0.1871, 0.6915], [0.3085, 0.8129, 1.0])
    """
    check_level("alpha", alpha)
    k, n = _counts(successes, trials)
    # The beta quantiles are undefined at the ends, where the limits are 0 and 1 by definition.
    with np.errstate(invalid="ignore"):
        lower = np.where(k == 0, 0.0, special.betaincinv(k, n - k + 1, alpha / 2) * (1 - _OUTWARD))
        upper_tail = special.betaincinv(n - k, k + 1, alpha / 2) * (1 - _OUTWARD)
        upper = np.where(k == n, 1.0, 1.0 - upper_tail)
    return lower, np.minimum(np.nextafter(upper, 2.0), 1.0)


def _counts(successes: ArrayLike | int, trials: ArrayLike | int) -> tuple[FloatArray, FloatArray]:
    k, n = (_whole_numbers(name, value) for name, value in (("successes", successes), ("trials", trials)))
    try:
        k, n = np.broadcast_arrays(k, n)
    except ValueError as error:
        raise InputError.expected("trials", f"match `successes` of shape {k.shape}", f"shape {n.shape}") from error
    if (k > n).any():
        index = int((k > n).argmax())
        got = f"{k.flat[index]:.0f} successes in {n.flat[index]:.0f} trials"
        raise InputError.expected("successes", "be at most `trials`", got)
    return k, n


def _whole_numbers(name: str, value: ArrayLike | int) -> FloatArray:
    counts = to_numpy(name, [value] if isinstance(value, int) else value).astype(np.float64)
    wrong = ~((counts >= 0) & (counts == np.floor(counts)) & np.isfinite(counts))
    if wrong.any():
        raise InputError.expected(name, "be whole numbers ≥ 0", counts.flat[int(wrong.argmax())])
    return counts.reshape(()) if isinstance(value, int) else counts
