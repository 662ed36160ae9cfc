"""The worst runs of equal sign when their ends may lie anywhere. Proofs: docs/any_binning.md.

A cut from − to + is a rise, one from + to − a fall. What a run earns (Lemma 3 of docs/exact.md) is linear in its rise
between ends of intervals and constant in its fall, so finitely many cuts are enough. The best start of a run moves up
with its end, so a search by halves finds all starts. Amounts are whole numbers, each rounded up: sums are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from certcal.metrics import first_sums
from certcal.types import BoolArray, FloatArray, IntArray
from certcal.worstcase.problem import WorstCaseProblem

END = 2.0  # a cut above every confidence
_BELOW_1 = float(np.nextafter(1.0, 0.0))
_CELLS = 5_000_000  # of one table of all pairs; with more, points are taken in blocks
_NEVER = -(2**62)  # less than anything earned: all sums stay below 2^61


@dataclass(frozen=True, eq=False)
class Windows:
    """Between which values the m-th cut may lie, shape (M − 1,) each."""

    low: FloatArray
    high: FloatArray

    def allow(self, cuts: FloatArray) -> BoolArray:
        """Whether each cut may be the m-th, shape (M + 1, cuts): start and end are cuts 0 and M."""
        inside = (self.low[:, None] <= cuts) & (cuts <= self.high[:, None]) & (cuts > 0.0) & (cuts < END)
        return np.vstack([cuts == 0.0, inside, cuts == END])


class RunProgram:
    """Candidate cuts, sorted, with 0 and `END` among rises and falls, and what runs between them earn.

    Earnings are in units of 1 / `unit`; `free` further inputs may come as a bonus.
    """

    def __init__(self, problem: WorstCaseProblem, windows: Windows | None = None, *, free: int = 0) -> None:
        right, wrong = problem.correct, ~problem.correct
        right_low, right_high = problem.lower[right], problem.upper[right]
        wrong_low, wrong_high = problem.lower[wrong], problem.upper[wrong]
        self.rises, self.falls = _candidates(right_low, right_high, wrong_low, wrong_high, windows)
        self.unit = 2.0 ** min(44, 59 - (len(problem.lower) + free).bit_length())
        first, last = np.sort(right_low), np.sort(wrong_high)
        # Sums over the right with l below a cut, and over the wrong with u below it.
        self._right, self._wrong = first_sums(self._up(1.0 - first)), first_sums(self._up(last))
        self._right_rise, self._right_fall = (np.searchsorted(first, cuts) for cuts in (self.rises, self.falls))
        self._wrong_rise, self._wrong_fall = (np.searchsorted(last, cuts) for cuts in (self.rises, self.falls))
        lows = -self._up(-wrong_low)  # rounded down
        self._lost = first_sums(lows[np.argsort(wrong_high)])[self._wrong_fall]  # Σ l over the wrong with u < fall
        self._high, self._rest = self._up(self.rises), self._up(1.0 - self.rises)
        self._escaping = Below(self.rises, self.falls, wrong_low, wrong_high, lows)
        self._stuck = Below(self.rises, self.falls, right_high, right_low, self._up(right_high - 1.0))

    def _up(self, amounts: FloatArray) -> IntArray:
        return np.ceil(amounts * self.unit).astype(np.int64)

    def plus(self, rise: IntArray, fall: IntArray) -> IntArray:
        """What + runs between cuts at these places earn: right 1 − l; wrong the rise if l is below it, else −l."""
        mine = self._right[self._right_fall[fall]] - self._right[self._right_rise[rise]]
        count, sums = self._escaping(rise, fall)
        return mine + self._high[rise] * (count - self._wrong_rise[rise]) - (self._lost[fall] - sums)

    def minus(self, fall: IntArray, rise: IntArray) -> IntArray:
        """What − runs between cuts at these places earn: wrong u; right 1 − rise if u is not below it, else u − 1."""
        mine = self._wrong[self._wrong_rise[rise]] - self._wrong[self._wrong_fall[fall]]
        (all_ended, all_sums), (before, sums) = self._stuck(rise, len(self.falls) - 1), self._stuck(rise, fall)
        inside = self._right_rise[rise] - self._right_fall[fall] - (all_ended - before)
        return mine + self._rest[rise] * inside + (all_sums - sums)


def _candidates(
    right_low: FloatArray, right_high: FloatArray, wrong_low: FloatArray, wrong_high: FloatArray, held: Windows | None
) -> tuple[FloatArray, FloatArray]:
    """The rises and falls among which the best ones are."""
    above = np.nextafter(wrong_low, END)  # a cut that leaves l on its left
    rises = np.concatenate([right_low, right_high, wrong_high, above])
    tops = np.unique(np.minimum(wrong_high, _BELOW_1))
    falls = np.append(tops, np.nextafter(tops, 0.0))  # the second leave u in a + run that starts there
    if held is None:
        # Of two falls without a right l between them, the lower one keeps more wrong inputs in the − run.
        gained = np.diff(np.searchsorted(np.sort(right_low), tops), prepend=0) > 0
        falls = np.append(tops[gained], np.nextafter(tops, 0.0))
    else:
        ends = np.concatenate([held.low, held.high])
        rises, falls = np.append(rises, ends), np.concatenate([falls, ends, np.nextafter(ends, 0.0)])
    return _with_ends(rises), _with_ends(falls)


def _with_ends(cuts: FloatArray) -> FloatArray:
    """Distinct cuts inside (0, 1), between 0 and `END`."""
    return np.concatenate([[0.0], np.unique(cuts[(cuts > 0.0) & (cuts < 1.0)]), [END]])


@dataclass(frozen=True, eq=False)
class Runs:
    """The best alternating runs: their inner cuts from left to right, the sign of the first, and what they earn."""

    cuts: FloatArray
    first: int
    total: Fraction

    @property
    def signs(self) -> IntArray:
        """+1 and −1 in turn, one per run."""
        return self.first * (-1) ** np.arange(len(self.cuts) + 1)


def best_runs(
    program: RunProgram, size: int, *, free_first: int = 0, free_last: int = 0, windows: Windows | None = None
) -> Runs:
    """At most `size` runs that earn most.

    `free_first` free inputs go to the first + run, which earns them 1 − its start; `free_last` to the last − run, which
    earns them its end.
    """
    rises, falls, one = program.rises, program.falls, int(program.unit)
    last = len(falls) - 1
    starting = free_first * np.ceil((1.0 - np.minimum(rises, 1.0)) * one).astype(np.int64)
    ending = free_last * np.ceil(rises * one).astype(np.int64)

    def plus(fall: IntArray, rise: IntArray) -> IntArray:
        earned = at_rise[m - 1][rise] + program.plus(rise, fall)
        return np.asarray(earned + np.where(rise == 0, free_first * one, 0) + np.where(fall == last, ending[rise], 0))

    def minus(rise: IntArray, fall: IntArray) -> IntArray:
        earned = at_fall[m - 1][fall] + program.minus(fall, rise)
        return np.asarray(earned + np.where(fall == 0, starting[rise], 0))

    # Of each number of bins m and each cut: the most that runs up to it earn, and where the last of them starts.
    at_fall, at_rise = (np.full((size + 1, len(cuts)), _NEVER) for cuts in (falls, rises))
    at_fall[:, 0] = at_rise[:, 0] = 0
    from_rise, from_fall = np.zeros_like(at_fall, np.int32), np.zeros_like(at_rise, np.int32)
    allow = None if windows is None else (windows.allow(falls), windows.allow(rises))
    rises_below, falls_below = np.searchsorted(rises, falls[1:]), np.searchsorted(falls, rises[1:])
    for m in range(1, size + 1):
        for at, start, worth, limit, side in (
            (at_fall, from_rise, plus, rises_below, 0),
            (at_rise, from_fall, minus, falls_below, 1),
        ):
            value, start[m, 1:] = _best_starts(worth, limit)
            if allow is not None:
                value = np.where(allow[side][m, 1:], value, _NEVER)
            at[m, 1:] = np.maximum(at[m - 1, 1:], np.where(value < _NEVER // 2, _NEVER, value))
    at_rise[:, -1] += free_last * one
    return _traced(program, (at_rise, from_fall), (at_fall, from_rise))


def _best_starts(worth: Callable[[IntArray, IntArray], IntArray], limit: IntArray) -> tuple[IntArray, IntArray]:
    """The most that a run to each end earns, and its start: one of the first `limit` places, which never falls.

    Ends are counted from 1. Among those of twice the distance the best starts are known; they enclose the others'.
    """
    count = len(limit)
    best, most = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for step in 2 ** np.arange(count.bit_length())[::-1]:
        ends = np.arange(step - 1, count, 2 * step)
        low = np.where(ends >= step, best[ends - step], 0)
        after = ends + step
        high = np.where(after < count, best[np.minimum(after, count - 1)], limit[-1])
        width = np.minimum(high, limit[ends] - 1) - low + 1
        offset = np.cumsum(width) - width
        end = np.repeat(np.arange(len(ends)), width)
        start = np.arange(len(end)) - (offset - low)[end]
        value = worth(ends[end] + 1, start)
        most[ends] = np.maximum.reduceat(value, offset)
        first = np.flatnonzero(value == most[ends][end])[::-1]  # of equal ones the first is written last
        best[ends[end[first]]] = start[first]
    return most, best


def _traced(program: RunProgram, to_rise: tuple[IntArray, IntArray], to_fall: tuple[IntArray, IntArray]) -> Runs:
    """The cuts behind the best end, from the last to the first."""
    sign = 1 if to_fall[0][-1, -1] >= to_rise[0][-1, -1] else -1
    total = max(to_fall[0][-1, -1], to_rise[0][-1, -1])
    m, place = len(to_fall[0]) - 1, -1
    cuts: list[float] = []
    while True:
        (at, start), before = (to_fall, program.rises) if sign > 0 else (to_rise, program.falls)
        while m > 1 and at[m - 1, place] == at[m, place]:
            m -= 1
        place, m = int(start[m, place]), m - 1
        if place == 0:
            return Runs(np.array(cuts[::-1]), sign, Fraction(int(total)) / Fraction(program.unit))
        cuts.append(float(before[place]))
        sign = -sign


class Below:
    """How many points have x < rise and y < fall, and what their amounts add up to, by places of rise and fall.

    Points in order of x form blocks. One table has the blocks before a point, by rank of y; each block has a small one
    of its own, by rank within it. Few distinct values make one block per x, and need no small ones.
    """

    def __init__(self, rises: FloatArray, falls: FloatArray, x: FloatArray, y: FloatArray, amount: IntArray) -> None:
        order = np.argsort(x, kind="stable")
        x, y, amount = x[order], y[order], amount[order]
        xs, ys = np.unique(x), np.unique(y)
        self._small = None
        if len(xs) * len(ys) <= _CELLS:
            block, rank = np.searchsorted(xs, x), np.searchsorted(ys, y)
            self._rise, self._fall = np.searchsorted(xs, rises), np.searchsorted(ys, falls)
            self._side = 1
        else:
            self._side = 1 << (len(x).bit_length() // 2)
            place = np.arange(len(x))
            block, rank = place // self._side, np.argsort(np.argsort(y, kind="stable"))
            self._rise, self._fall = np.searchsorted(x, rises), np.searchsorted(np.sort(y), falls)
            self._small = self._tables(block, place % self._side, rank, amount)
        ranks, blocks = (len(ys) if self._small is None else len(y)), int(block.max(initial=-1)) + 1
        self._count, self._sum = (
            _below(blocks + 1, ranks, block, rank, own) for own in (np.ones(len(x), np.int32), amount)
        )

    def _tables(self, block: IntArray, place: IntArray, rank: IntArray, amount: IntArray) -> tuple[IntArray, IntArray]:
        """Within each block: over its first r points, those of the t lowest ranks; shape (blocks, r, t)."""
        order = np.lexsort((rank, block))
        local = np.empty_like(order)
        local[order] = np.arange(len(order)) % self._side
        shape = int(block[-1]) + 2, self._side + 1, self._side + 1  # an empty block after the last
        tables = []
        for own in (np.ones(len(rank), np.int32), amount):
            table = np.zeros(shape, own.dtype)
            table[block, place + 1, local + 1] = own
            np.cumsum(table, axis=1, out=table)
            tables.append(np.cumsum(table, axis=2, out=table))
        return tables[0], tables[1]

    def __call__(self, rise: IntArray, fall: IntArray | int) -> tuple[IntArray, IntArray]:
        """Counts and sums for pairs of places."""
        (block, first), rank = divmod(self._rise[rise], self._side), self._fall[fall]
        count, total = self._count[block, rank], self._sum[block, rank]
        if self._small is None:
            return count, total
        inside = self._count[np.minimum(block + 1, len(self._count) - 1), rank] - count
        return count + self._small[0][block, first, inside], total + self._small[1][block, first, inside]


def _below(blocks: int, ranks: int, block: IntArray, rank: IntArray, amount: IntArray) -> IntArray:
    """Sums over earlier blocks and lower ranks, shape (blocks, ranks + 1)."""
    table = np.zeros((blocks, ranks + 1), amount.dtype)
    np.add.at(table, (block + 1, rank + 1), amount)
    np.cumsum(table, axis=0, out=table)
    return np.cumsum(table, axis=1, out=table)
