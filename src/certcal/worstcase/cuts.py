"""The worst runs of equal sign when their ends may lie anywhere. Proof: docs/any_binning.md.

A cut from − to + is a rise, one from + to − a fall. What a run earns (Lemma 3 of docs/exact.md) is linear in its rise
between ends of intervals and constant in its fall, so finitely many cuts are enough. The program sweeps the rises from
left to right; each step looks at all falls and all numbers of bins at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from certcal.types import BoolArray, FloatArray, IntArray
from certcal.worstcase.problem import WorstCaseProblem

END = 2.0  # a cut above every confidence
_BLOCK = 2**17  # numbers handled at once, which stay in the processor's cache
_BELOW_1 = float(np.nextafter(1.0, 0.0))


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
    """Right and wrong inputs with the candidate cuts, sorted; 0 and `END` are among rises and falls."""

    def __init__(self, problem: WorstCaseProblem, windows: Windows | None = None) -> None:
        right, wrong = problem.correct, ~problem.correct
        self.right_low, self.right_high = problem.lower[right], problem.upper[right]
        self.wrong_low, self.wrong_high = problem.lower[wrong], problem.upper[wrong]
        above = np.nextafter(self.wrong_low, END)  # a cut that leaves l on its left
        rises = np.concatenate([self.right_low, self.right_high, self.wrong_high, above])
        tops = np.unique(np.minimum(self.wrong_high, _BELOW_1))
        falls = np.append(tops, np.nextafter(tops, 0.0))  # the second leave u in a + run that starts there
        if windows is None:
            # Of two falls without a right l between them, the lower one keeps more wrong inputs in the − run.
            gained = np.diff(np.searchsorted(np.sort(self.right_low), tops), prepend=0) > 0
            falls = np.append(tops[gained], np.nextafter(tops, 0.0))
        else:
            ends = np.concatenate([windows.low, windows.high])
            rises, falls = np.append(rises, ends), np.concatenate([falls, ends, np.nextafter(ends, 0.0)])
        self.rises, self.falls = _with_ends(rises), _with_ends(falls)

    def plus(self, rises: FloatArray, fall: float) -> FloatArray:
        """What a + run from each rise to one fall earns: right 1 − l; wrong the rise if l is below it, else −l."""
        own = np.sort(self.right_low)
        earned = np.append(0.0, np.cumsum(1.0 - own))
        ended = np.sort(self.wrong_low[self.wrong_high < fall])
        lost = np.append(0.0, np.cumsum(ended))
        place, gone = np.searchsorted(ended, rises), np.searchsorted(np.sort(self.wrong_high), rises)
        mine = earned[np.searchsorted(own, fall)] - earned[np.searchsorted(own, rises)]
        return np.asarray(mine + rises * (place - gone) - (lost[-1] - lost[place]))

    def minus(self, falls: FloatArray, rise: float) -> FloatArray:
        """What a − run from each fall to one rise earns: wrong u; right 1 − rise if u is not below it, else u − 1."""
        own = np.sort(self.wrong_high)
        earned = np.append(0.0, np.cumsum(own))
        ended = self.right_high < rise
        order = np.argsort(self.right_low[ended])
        stuck = np.append(np.cumsum((self.right_high[ended][order] - 1.0)[::-1])[::-1], 0.0)
        place = np.searchsorted(self.right_low[ended][order], falls)  # ended ones from here on begin in the run
        begun = np.sort(self.right_low)
        inside = np.searchsorted(begun, rise) - np.searchsorted(begun, falls) - (ended.sum() - place)
        mine = earned[np.searchsorted(own, rise)] - earned[np.searchsorted(own, falls)]
        return np.asarray(mine + stuck[place] + np.where(inside > 0, (1.0 - rise) * inside, 0.0))


def _with_ends(cuts: FloatArray) -> FloatArray:
    """Distinct cuts inside (0, 1), between 0 and `END`."""
    return np.concatenate([[0.0], np.unique(cuts[(cuts > 0.0) & (cuts < 1.0)]), [END]])


@dataclass(frozen=True, eq=False)
class Runs:
    """The best alternating runs: their inner cuts from left to right, the sign of the first, and what they earn."""

    cuts: FloatArray
    first: int
    total: float

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
    rises, falls = program.rises, program.falls
    allow = None if windows is None else (windows.allow(rises), windows.allow(falls))
    at_fall = np.full((size + 1, len(falls)), -np.inf)  # [m, j]: most with at most m bins, a + run ends at fall j
    at_rise = np.full((size + 1, len(rises)), -np.inf)
    at_fall[:, 0] = at_rise[:, 0] = 0.0
    sweep, done = _Sweep(program), 1
    for rows, stop in _between_falls(rises, falls, size):
        sweep.advance(rows, stop)
        # No later rise is below these falls.
        at_fall[:, done:stop] = _settled(at_fall[:, done:stop], None if allow is None else allow[1][:, done:stop])
        done = max(done, stop)
        if stop:
            worth = sweep.minus(rows, stop)
            worth[:, 0] += free_first * (1.0 - np.minimum(rises[rows], 1.0))
            own = (at_fall[:-1, None, :stop] + worth).max(axis=2)
            at_rise[1:, rows] = own
            at_rise[:, rows] = _settled(at_rise[:, rows], None if allow is None else allow[0][:, rows])
        worth = sweep.plus(rows, stop)
        worth[:, -1] += free_last * rises[rows]
        worth += free_first * (rises[rows] == 0.0)[:, None]
        worth[rises[rows, None] >= falls[stop:]] = -np.inf
        np.maximum(at_fall[1:, stop:], (at_rise[:-1, rows, None] + worth).max(axis=1), out=at_fall[1:, stop:])
    at_fall[:, -1] = np.maximum.accumulate(at_fall[:, -1])
    at_rise[:, -1] += free_last
    return _traced(program, at_rise, at_fall, free_first, free_last)


def _between_falls(rises: FloatArray, falls: FloatArray, size: int) -> Iterator[tuple[slice, int]]:
    """Rises with the same falls below them, in blocks, and how many falls that is: these do not see each other."""
    below = np.searchsorted(falls, rises, "left")
    most = max(_BLOCK // (size * len(falls)), 1)
    starts = np.flatnonzero(np.diff(below, prepend=-1))
    for start, stop in zip(starts, np.append(starts[1:], len(rises)), strict=True):
        for first in range(start, stop, most):
            yield slice(first, min(first + most, stop)), int(below[start])


def _settled(values: FloatArray, allowed: BoolArray | None) -> FloatArray:
    """The most with at most m bins, of the values with m, where a cut may be the m-th."""
    kept = values if allowed is None else np.where(allowed, values, -np.inf)
    return np.maximum.accumulate(kept)


class _Sweep:
    """What runs that end or start at a block of rises earn, over all falls; blocks come from left to right."""

    def __init__(self, program: RunProgram) -> None:
        self.falls, self.rises = program.falls, program.rises
        right, wrong = np.sort(program.right_low), np.sort(program.wrong_high)
        self.right_earned = np.append(0.0, np.cumsum(1.0 - right))
        self.wrong_earned = np.append(0.0, np.cumsum(wrong))
        self.right_before, self.wrong_before = (np.searchsorted(own, self.falls) for own in (right, wrong))
        self.right_here, self.wrong_here = (np.searchsorted(own, self.rises) for own in (right, wrong))
        order = np.argsort(program.wrong_high)
        self.lost = np.append(0.0, np.cumsum(program.wrong_low[order]))[self.wrong_before]  # Σ l over u < fall
        # Of the wrong with l < rise and u < fall: how many, and Σ l.
        above = np.searchsorted(self.falls, program.wrong_high, "right")
        self.escaping = _Passed(self.rises, program.wrong_low, above, len(self.falls))
        # Of the right with u < rise and l ≥ fall, counted from the last fall down: how many, and Σ u.
        within = len(self.falls) - np.searchsorted(self.falls, program.right_low, "right")
        self.stuck = _Passed(self.rises, program.right_high, within, len(self.falls))

    def advance(self, rows: slice, stop: int) -> None:
        """Move on to these rises, which have `stop` falls below them."""
        self.escaping.advance(rows, stop)
        self.stuck.advance(rows, len(self.falls) - stop)

    def plus(self, rows: slice, start: int) -> FloatArray:
        """What + runs from these rises to the falls from `start` on earn, shape (rises, falls)."""
        rise, to = self.rises[rows, None], slice(start, None)
        mine = self.right_earned[self.right_before[to]] - self.right_earned[self.right_here[rows]][:, None]
        escaping = self.escaping.count - self.wrong_here[rows, None]
        return np.asarray(mine + rise * escaping - (self.lost[to] - self.escaping.sums))

    def minus(self, rows: slice, stop: int) -> FloatArray:
        """What − runs from the falls before `stop` to these rises earn, shape (rises, falls)."""
        rise, to = self.rises[rows, None], slice(0, stop)
        stuck, high = self.stuck.count[:, ::-1], self.stuck.sums[:, ::-1]
        inside = self.right_here[rows, None] - self.right_before[to] - stuck
        mine = self.wrong_earned[self.wrong_here[rows]][:, None] - self.wrong_earned[self.wrong_before[to]]
        return np.asarray(mine + (1.0 - rise) * inside + (high - stuck))


class _Passed:
    """Inputs whose end the rises have passed: how many there are up to each place, and the sum of those ends."""

    def __init__(self, rises: FloatArray, ends: FloatArray, places: IntArray, size: int) -> None:
        order = np.argsort(ends, kind="stable")
        self.ends, self.places = ends[order], places[order]
        self.row = np.searchsorted(rises, self.ends, "right")  # the first rise above an end
        self.done, self.before = 0, np.zeros((2, size))
        self.count = self.sums = np.zeros((0, size))

    def advance(self, rows: slice, first: int) -> None:
        """Tables for these rises and the places from `first` on, shape (rises, places)."""
        stop = int(np.searchsorted(self.row, rows.stop))
        new, self.done = slice(self.done, stop), stop
        height, width = rows.stop - rows.start, self.before.shape[1] - first + 1
        cell = (self.row[new] - rows.start) * width + np.maximum(self.places[new] - first, 0)
        tables = np.empty((2, height, width - 1))
        for table, weights in zip(tables, (None, self.ends[new]), strict=True):
            table[:] = np.bincount(cell, weights, height * width).reshape(height, width)[:, :-1]
        np.cumsum(tables, axis=1, out=tables)
        np.cumsum(tables, axis=2, out=tables)
        tables += self.before[:, None, first:]
        self.before[:, first:] = tables[:, -1]
        self.count, self.sums = tables


def _traced(program: RunProgram, at_rise: FloatArray, at_fall: FloatArray, free_first: int, free_last: int) -> Runs:
    """The cuts behind the best end, found again run by run from the last."""
    rises, falls = program.rises, program.falls
    sign = 1 if at_fall[-1, -1] >= at_rise[-1, -1] else -1
    total = float(max(at_fall[-1, -1], at_rise[-1, -1]))
    left, place = len(at_fall) - 1, -1
    cuts: list[float] = []
    while True:
        if sign > 0:
            fall = falls[place]
            before = rises[rises < fall]
            worth = program.plus(before, fall) + (free_last * before if fall == END else 0.0)
            worth[0] += free_first
            best = int((at_rise[left - 1, : len(before)] + worth).argmax())
            at = before[best]
        else:
            rise = rises[place]
            before = falls[falls < rise]
            worth = program.minus(before, rise)
            worth[0] += free_first * (1.0 - min(rise, 1.0))
            best = int((at_fall[left - 1, : len(before)] + worth).argmax())
            at = before[best]
        if best == 0:
            return Runs(np.array(cuts[::-1]), sign, total)
        cuts.append(float(at))
        left, place, sign = left - 1, best, -sign
