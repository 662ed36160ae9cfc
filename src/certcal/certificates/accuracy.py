"""What certified radii say of a whole set: certified accuracy and average certified radius."""

import numpy as np

from certcal.errors import InputError
from certcal.inputs import as_correctness, as_vector, check_number, check_same_length
from certcal.types import ArrayLike, BoolArray, FloatArray


def certified_accuracy(radius: ArrayLike, correct: ArrayLike, *, at: float) -> float:
    """The fraction of inputs whose prediction is correct and certified to stay at distance `at`, in [0, 1].

    Abstained inputs, whose radius is NaN, count against it.

    Paper: Sec. 3, certified accuracy; Cohen et al. (2019), Sec. 4.   Errs: low, as the radii do.
    Raises: InputError if a radius is negative or `at` is not a number ≥ 0.

    >>> certified_accuracy([0.5, 0.2, float("nan"), 0.9], [1, 1, 1, 0], at=0.25)
    0.25
    """
    distance = check_number("at", at, "be a finite number ≥ 0", lambda number: number >= 0)
    radii, right = _radii(radius, correct)
    return float(np.mean((radii >= distance) & right))


def average_certified_radius(radius: ArrayLike, correct: ArrayLike) -> float:
    """The mean certified radius, where an abstained or incorrect input counts as 0.

    Paper: App. K, ACR; Zhai et al. (2020), MACER.   Errs: low.
    Raises: InputError if a radius is negative.

    >>> round(average_certified_radius([0.5, 0.25, float("nan"), 0.9], [1, 1, 1, 0]), 6)
    0.1875
    """
    radii, right = _radii(radius, correct)
    counted = np.where(right & ~np.isnan(radii), radii, 0.0)
    # NumPy adds pairwise, so fewer than 64 roundings of 2^-53 touch any term.
    return float(counted.mean() * (1 - 2.0**-46))


def _radii(radius: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, BoolArray]:
    radii = as_vector("radius", radius).astype(np.float64)
    right = as_correctness("correct", correct)
    check_same_length("correct", right, "radius", radii)
    if (radii < 0).any():
        raise InputError.expected("radius", "be ≥ 0, or NaN where it abstains", radii[radii < 0][0])
    return radii, right
