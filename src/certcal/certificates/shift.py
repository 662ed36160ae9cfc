"""What a probability under Gaussian noise can become when the input moves. Paper: App. A.1.

If an event has probability p under N(x, σ² I), then under N(x + γ, σ² I) with ‖γ‖ ≤ R its probability lies between
Φ(Φ⁻¹(p) − R/σ) and Φ(Φ⁻¹(p) + R/σ), by the lemma of Neyman and Pearson; half-spaces attain both ends. The same holds
for the mean of a function with values in [0, 1].
"""

import numpy as np
import scipy

from certcal.types import FloatArray

# Relative errors allowed for scipy.special.ndtri (compared with 40-digit arithmetic: below 8e-16), together with the
# roundings of R/σ and of the sum, and for ndtr (below 3e-13 down to where it underflows).
QUANTILE_ERROR = 2.0**-48
_PROBABILITY_ERROR = 1e-12
_UNDERFLOW = 1e-300


def least_probability(probability: FloatArray, shift: float) -> FloatArray:
    """Φ(Φ⁻¹(p) − shift): the least probability within reach, where shift = R/σ ≥ 0.

    Never increases with `shift`; 0 and 1 stay, and so does everything at shift 0.

    Paper: App. A.1, Eq. (standard bounds), left.   Errs: low, by about 1e-12.
    """
    if shift == 0.0:
        return probability
    moved = _shifted(probability, -shift)
    moved = np.maximum(moved * (1 - _PROBABILITY_ERROR) - _UNDERFLOW, 0.0)
    return np.where(probability >= 1.0, 1.0, moved)


def greatest_probability(probability: FloatArray, shift: float) -> FloatArray:
    """Φ(Φ⁻¹(p) + shift): the greatest probability within reach, where shift = R/σ ≥ 0.

    Never decreases with `shift`; 0 and 1 stay, and so does everything at shift 0.

    Paper: App. A.1, Eq. (standard bounds), right.   Errs: high, by about 1e-12.
    """
    if shift == 0.0:
        return probability
    moved = _shifted(probability, shift)
    moved = np.minimum(moved * (1 + _PROBABILITY_ERROR) + _UNDERFLOW, 1.0)
    return np.where(probability <= 0.0, 0.0, moved)


def _shifted(probability: FloatArray, shift: float) -> FloatArray:
    # Where p is 0 or 1 the quantile is infinite; the callers overwrite what comes of it.
    inside = np.clip(probability, np.finfo(np.float64).tiny, 1 - 2.0**-53)
    quantile = scipy.special.ndtri(inside)
    margin = 4 * QUANTILE_ERROR * (np.abs(quantile) + abs(shift))
    return np.asarray(scipy.special.ndtr(quantile + shift + np.copysign(margin, shift)))
