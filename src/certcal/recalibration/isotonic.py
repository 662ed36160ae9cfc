"""Isotonic regression: the non-decreasing function closest to weighted points, exactly."""

import numpy as np

from certcal.types import FloatArray


def isotonic_fit(x: FloatArray, target: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """argmin over non-decreasing g of Σ weight (target − g(x))², as knots and values of its flat blocks.

    Pooled adjacent violators: points are taken from the left, and whenever a block's mean is not above that of the
    block before, the two become one. The same g minimises every other proper score of 0/1 targets, such as the log
    score. Between blocks any non-decreasing g is optimal; the straight line is taken.
    """
    knots, place = np.unique(x, return_inverse=True)  # equal x have equal g
    mass = np.bincount(place, weight, minlength=len(knots))
    total = np.bincount(place, weight * target, minlength=len(knots))
    first, masses, totals = _pool(mass.tolist(), total.tolist())
    level = np.clip(np.array(totals) / np.array(masses), 0.0, 1.0)
    last = np.append(np.array(first[1:], dtype=np.intp) - 1, len(knots) - 1)
    ends = np.stack([np.array(first, dtype=np.intp), last], axis=1).ravel()
    keep = np.append(True, np.diff(ends) > 0)  # a block of one knot has one end
    # Pooling leaves block means rising in exact arithmetic; rounding may put two next to each other the wrong way.
    return knots[ends[keep]], np.maximum.accumulate(np.repeat(level, 2)[keep])


def _pool(mass: list[float], total: list[float]) -> tuple[list[int], list[float], list[float]]:
    """Blocks from the left: index of the first knot, weight and weighted sum of targets of each."""
    first: list[int] = []
    masses: list[float] = []
    totals: list[float] = []
    for index, (own_mass, own_total) in enumerate(zip(mass, total, strict=True)):
        begin = index
        # Means are compared without dividing: total / mass ≥ own_total / own_mass.
        while masses and totals[-1] * own_mass >= own_total * masses[-1]:
            begin = first.pop()
            own_mass += masses.pop()
            own_total += totals.pop()
        first.append(begin)
        masses.append(own_mass)
        totals.append(own_total)
    return first, masses, totals
