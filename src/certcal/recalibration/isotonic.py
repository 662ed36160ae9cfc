"""Isotonic regression: the non-decreasing function closest to weighted points, exactly."""

import numpy as np

from certcal.types import FloatArray


def isotonic_fit(x: FloatArray, target: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """argmin over non-decreasing g of Σ weight (target − g(x))², as knots and values of its flat blocks.

    SciPy pools adjacent violators: blocks whose means do not rise become one. The same g minimises every other proper
    score of 0/1 targets, such as the log score. Between blocks any non-decreasing g is optimal; the straight line is
    taken.
    """
    from scipy.optimize import isotonic_regression

    knots, place = np.unique(x, return_inverse=True)  # equal x have equal g
    mass = np.bincount(place, weight, minlength=len(knots))
    total = np.bincount(place, weight * target, minlength=len(knots))
    first = isotonic_regression(total / mass, weights=mass).blocks[:-1]
    level = np.clip(np.add.reduceat(total, first) / np.add.reduceat(mass, first), 0.0, 1.0)
    last = np.append(first[1:] - 1, len(knots) - 1)
    ends = np.stack([first, last], axis=1).ravel()
    keep = np.append(True, np.diff(ends) > 0)  # a block of one knot has one end
    # Block means rise in exact arithmetic; rounding may put two next to each other the wrong way.
    return knots[ends[keep]], np.maximum.accumulate(np.repeat(level, 2)[keep])
