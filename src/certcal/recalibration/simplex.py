"""Sums and minima over the steps of a map that come out the same, bit for bit, on every machine.

Which map is found hangs on the last bits: a descent that jumps magnifies them, and two maps that are equally good on
the inputs they are fitted to may differ by points on others. Libraries of linear algebra add in an order that depends
on the processor and the number of threads, so here numbers are put on grids on which every product and sum is exact, in
whatever order it is made; the rest is done element by element, in one order. Certificates of a map do not rest on this:
they are made from the draws, rounded outward.
"""

import numpy as np

from certcal.types import FloatArray, IntArray

ROWS = 2**20  # grid of values in [−1, 1]; what is left of each stands on a second grid, as much finer
STEPS = 2**32  # grid of steps, whose sum is 1: products of both add up to at most 2^52
BLOCK = 2**13  # rows whose products, at most 2^40, are added at a time: whole numbers up to 2^53 are exact
_PIVOT = 1e-12  # what must be left of a column that others explain, of its size
_ROUNDS = 8  # of going on from where the last ended, without its rounding errors


def on_grid(values: FloatArray) -> FloatArray:
    """Values in [−1, 1] as whole numbers of 1 / ROWS."""
    return np.rint(values * ROWS)


def _in_two(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values in [−1, 1] in whole numbers of 1 / ROWS, and what is left of them in those of 1 / ROWS²."""
    whole = on_grid(values)
    return whole, np.rint((values * ROWS - whole) * ROWS)


def as_steps(steps: FloatArray) -> FloatArray:
    """Steps ≥ 0 as multiples of 1 / STEPS with sum 1; the largest takes what rounding left over."""
    whole = np.rint(steps / steps.sum() * STEPS)
    whole[np.argmax(whole)] += STEPS - whole.sum()
    return np.asarray(whole / STEPS)


def means(rows: FloatArray, steps: FloatArray) -> FloatArray:
    """rows · steps, for values in [−1, 1] and `as_steps`, shape (n,)."""
    whole, left = _in_two(rows)
    return np.asarray(((whole @ steps) + (left @ steps) / ROWS) / ROWS)


def gram(rows: FloatArray) -> FloatArray:
    """rowsᵀ rows, for values in [−1, 1], shape (k, k)."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), BLOCK):
        whole, left = _in_two(rows[start : start + BLOCK])
        cross = whole.T @ left
        total += whole.T @ whole + ((cross + cross.T) + (left.T @ left) / ROWS) / ROWS
    return total / ROWS**2


def least_on_simplex(quadratic: FloatArray) -> FloatArray:
    """argmin of vᵀ H v over v ≥ 0 with Σ v = 1, for positive semi-definite H, as steps on their grid, shape (k,).

    Non-negative least squares finds y = argmin yᵀ H y + κ² (1 − Σ y)². Along y = t v with Σ v = 1 that is least at
    κ² q / (κ² + q) for q = vᵀ H v, which rises with q: y / Σ y is the answer, whatever κ is.
    """
    best = int(np.argmin(np.diag(quadratic)))
    weight = float(quadratic[best, best])  # κ², of the size of the answer
    if weight <= 0:
        return np.asarray(np.eye(len(quadratic))[best])
    matrix, target = quadratic + weight, np.full(len(quadratic), weight)
    y = np.zeros(len(quadratic))
    for _ in range(_ROUNDS):
        before, y = y, _least(_Tableau(matrix, target, np.flatnonzero(y)), y)
        if np.array_equal(before > 0, y > 0):
            break
    return as_steps(y)


def _least(table: "_Tableau", y: FloatArray) -> FloatArray:
    """Lawson and Hanson's way from y ≥ 0, whose positive entries are free, to the least yᵀ A y / 2 − bᵀ y."""
    y, barred = _towards(table, y), np.zeros(len(y), dtype=bool)
    for _ in range(30 * len(y)):
        pull = np.where(table.free | barred, 0.0, table.value)
        enters = int(np.argmax(pull))
        if pull[enters] <= 1e-13 * table.scale:
            break
        if not table.swap(enters):
            barred[enters] = True
            continue
        if table.value[enters] <= 0:  # rounding: it was to rise
            table.swap(enters)
            barred[enters] = True
            continue
        y = _towards(table, y)
        barred[:] = False
    return y


def _towards(table: "_Tableau", y: FloatArray) -> FloatArray:
    """From y towards the least over the free entries; those that reach 0 on the way are free no more."""
    while True:
        goal = np.where(table.free, table.value, 0.0)
        falls = table.free & (goal <= 0)
        if not falls.any():
            return goal
        reach = np.full(len(y), np.inf)
        reach[falls] = y[falls] / (y[falls] - goal[falls])
        y = y + min(float(reach.min()), 1.0) * (goal - y)
        for place in np.flatnonzero(falls & ((reach <= reach.min()) | (y <= 0))):
            table.swap(int(place))
            y[place] = 0.0


class _Tableau:
    """A y = b solved for the free entries of y: their values, and for the others how much they pull, b − A y."""

    def __init__(self, matrix: FloatArray, target: FloatArray, free: IntArray) -> None:
        self._body = np.column_stack([matrix, target])
        self._size, self.scale = np.diag(matrix).copy(), float(target.max())
        self.free = np.zeros(len(target), dtype=bool)
        for place in free:
            self.swap(int(place))

    @property
    def value(self) -> FloatArray:
        """Of free entries y, of others b − A y, shape (k,)."""
        return np.asarray(self._body[:, -1])

    def swap(self, place: int) -> bool:
        """Free an entry, or bind it again; False where the free ones explain it but for rounding."""
        body, sign = self._body, -1.0 if self.free[place] else 1.0
        pivot = float(body[place, place])
        if sign > 0 and pivot <= _PIVOT * self._size[place]:
            return False
        row, column = body[place] / pivot, body[:, place].copy()
        body -= column[:, None] * row
        body[place] = row
        body[:, place] = -column / pivot
        body[place, place] = 1.0 / pivot
        self.free[place] = sign > 0
        return True
