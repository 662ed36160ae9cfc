"""Maps of three steps: which cuts and levels make the certified calibration error of a set of inputs small.

After such a map the confidences of an input are those of the steps from g(l) to g(u), and of no others. So its worst
case is a maximum over the signs of three steps, with inputs counted by their first and last step (docs/exact.md,
"Confidences in bands"): a search tries thousands of maps in milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from typing import Any, ClassVar

import numpy as np

from certcal.errors import InputError
from certcal.inputs import as_probabilities, check_same_length
from certcal.metrics import Bins
from certcal.recalibration.data import FittingData
from certcal.recalibration.maps import RecalibrationMap
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase import WorstCaseProblem

STEPS = 3
_CUTS = 40  # candidates, at quantiles of bounds and confidences
_LEVELS = 16  # candidates in each bin
_RISE = 0.25  # of a step from end to end, in distances between levels: it keeps their order, and costs next to nothing
_SWEEPS = 12
_STARTS = ((0.15, 0.5), (0.05, 0.3), (0.3, 0.7), (0.1, 0.2))  # shares of the clean confidences below the cuts
# Which steps an input reaches, from its first to its last; and signs of steps.
_REACHES = tuple(combinations_with_replacement(range(STEPS), 2))
_FIRST, _LAST = (np.array(side) for side in zip(*_REACHES, strict=True))
_SIGNS = np.array(list(product((1.0, -1.0), repeat=STEPS)))
_CHANGES = _SIGNS[:, 1:] != _SIGNS[:, :-1]  # where the sign of a step is not that of the one before


@dataclass(frozen=True, eq=False, repr=False)
class StepsMap(RecalibrationMap):
    """A few steps: from each cut to the next confidences rise from `low` to `high`, by so little as keeps their order.

    Nobody can be given a confidence between two steps. So an adversary has fewer confidences to choose from than
    intervals say, and the certified calibration error is smaller: docs/exact.md, "Confidences in bands".

    >>> StepsMap(cuts=[0.5], low=[0.3, 0.9], high=[0.3, 0.92]).transform([0.0, 0.49, 0.5, 1.0]).tolist()
    [0.3, 0.3, 0.9, 0.92]
    """

    cuts: FloatArray  # (k,) strictly increasing in (0, 1]; a step begins at each
    low: FloatArray  # (k + 1,) in [0, 1]
    high: FloatArray  # (k + 1,) at least `low`, and at most that of the next step
    about: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "steps"

    def __post_init__(self) -> None:
        parts = {name: as_probabilities(name, getattr(self, name), allow_empty=name == "cuts").copy() for name in
                 ("cuts", "low", "high")}  # fmt: skip
        cuts, low, high = parts.values()
        check_same_length("high", high, "low", low)
        if len(cuts) != len(low) - 1:
            raise InputError.expected("cuts", "be one fewer than the steps", f"{len(cuts)} for {len(low)}")
        if not ((np.diff(cuts, prepend=0.0) > 0).all() and (low <= high).all() and (high[:-1] <= low[1:]).all()):
            raise InputError.expected("cuts, low and high", "rise from step to step", "some that fall")
        for name, values in parts.items():
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def bands(self) -> FloatArray:
        """The ends of each step, shape (k + 1, 2)."""
        return np.stack([self.low, self.high], axis=1)

    def _rounded(self, confidence: FloatArray, direction: int) -> FloatArray:
        step = np.searchsorted(self.cuts, confidence, side="right")
        low, high = self.low[step], self.high[step]
        begin, end = np.append(0.0, self.cuts)[step], np.append(self.cuts, 1.0)[step]
        share = np.clip((confidence - begin) / np.where(end > begin, end - begin, 1.0), 0.0, 1.0)
        # As for isotonic maps: monotone in floating point, exact on a flat step, and never outside its own.
        return np.asarray(np.clip(low + (high - low) * share + direction * 2.0**-50, low, high))


def fit_steps(data: FittingData) -> StepsMap:
    """The map of three steps with the least (1 − λ) Σ_r w_r · certified ECE + λ · clean Brier score that was found.

    A search by coordinates: every cut and level in turn moves to the best of its candidates, until none moves.
    """
    bins, cuts = data.problems[0].bins.whole, _candidates(data)
    levels, rise = _levels(bins)
    loss = _Loss(data, cuts)
    found = [_descend(loss, *start, levels) for start in loss.starts(levels)]
    _, ends, place = min(found, key=lambda one: one[0])
    kept = np.flatnonzero(ends[1:] > ends[:-1])  # a step between equal cuts holds nothing
    kept = kept[np.diff(place[kept], prepend=-1) > 0]  # one at the level of the one before goes on with it
    middle, half = levels[place[kept]], rise[place[kept]] / 2
    return StepsMap(cuts[ends[kept[1:]] - 1], middle - half, middle + half)


def _candidates(data: FittingData) -> FloatArray:
    """Where a step may begin: halfway from a value that bounds or clean confidences have to the next one below.

    At the value itself the last bits of a confidence, which differ between machines, would decide about its step.
    """
    every = np.concatenate([data.confidence, *(side for one in data.problems for side in (one.lower, one.upper))])
    shares = np.arange(1, _CUTS + 1) / (_CUTS + 1)
    known, found = np.unique(every), np.unique(np.quantile(every, shares, method="lower"))
    found = found[found > 0.0]
    below = np.append(0.0, known)[np.searchsorted(known, found)]
    # Strictly between both: data are on a grid, and halves of its step are floats too.
    return np.asarray(below + (found - below) / 2)


def _levels(bins: Bins) -> tuple[FloatArray, FloatArray]:
    """The values that a step may have, inside the bins, and how far it may rise around each."""
    width = np.diff(bins.edges)[:, None] / _LEVELS
    middle = bins.edges[:-1, None] + width * (np.arange(_LEVELS) + 0.5)
    return middle.ravel(), (_RISE * width).repeat(_LEVELS, axis=1).ravel()


@dataclass(frozen=True, eq=False)
class _Counts:
    """Inputs of a problem by the cells between cuts of their bounds: corner[c, i, j] have l below cell i, u below j."""

    corner: FloatArray  # (2, cells + 1, cells + 1), in shares of the inputs

    @classmethod
    def of(cls, problem: WorstCaseProblem, cuts: FloatArray) -> "_Counts":
        """Those of wrong and of right inputs."""
        size = len(cuts) + 1
        cell = problem.correct * size + np.searchsorted(cuts, problem.lower, side="right")
        cell = cell * size + np.searchsorted(cuts, problem.upper, side="right")
        counts = np.bincount(cell, minlength=2 * size * size).reshape(2, size, size)
        corner = np.zeros((2, size + 1, size + 1))
        corner[:, 1:, 1:] = counts.cumsum(axis=1).cumsum(axis=2) / len(problem.lower)
        return cls(corner)

    def by_reach(self, ends: IntArray) -> FloatArray:
        """The share of wrong and of right inputs with each reach, shape (2, k, reaches); ends (k, steps + 1)."""
        before, until, from_, to = ends[:, _FIRST], ends[:, _FIRST + 1], ends[:, _LAST], ends[:, _LAST + 1]
        own = self.corner
        return own[:, until, to] - own[:, before, to] - own[:, until, from_] + own[:, before, from_]


class _Loss:
    """(1 − λ) Σ_r w_r · certified calibration error + λ · clean Brier score of many maps at once."""

    def __init__(self, data: FittingData, cuts: FloatArray) -> None:
        self.parts = [
            (float(weight), _Counts.of(one, cuts)) for weight, one in zip(data.weights, data.problems, strict=True)
        ]
        self.bins, self.clean_weight, self.cells = data.problems[0].bins.whole, data.clean_weight, len(cuts) + 1
        cell = data.correct * self.cells + np.searchsorted(cuts, data.confidence, side="right")
        counts = np.bincount(cell.astype(np.intp), minlength=2 * self.cells).reshape(2, self.cells)
        self.clean = np.zeros((2, self.cells + 1))
        self.clean[:, 1:] = counts.cumsum(axis=1) / max(len(data.confidence), 1)

    def at(self, ends: IntArray, levels: FloatArray) -> FloatArray:
        """The loss of k maps, shape (k,); ends (k, steps + 1) are cells at which steps begin and the last ends.

        One row of ends, or of levels (k, steps), stands for k equal ones.
        """
        wrong, right = self.clean[:, ends[:, 1:]] - self.clean[:, ends[:, :-1]]
        brier = right * np.square(1.0 - levels) + wrong * np.square(levels)
        loss = self.clean_weight * sum(brier.T)
        bin_ = self.bins.assign(levels.ravel()).reshape(levels.shape)
        for weight, counts in self.parts:
            loss = loss + weight * _worst(counts.by_reach(ends), levels, bin_)
        return np.asarray(loss)

    def starts(self, levels: FloatArray) -> list[tuple[IntArray, IntArray]]:
        """Where descents begin: cuts at some quantiles, levels next to the accuracies of the steps."""
        found = []
        total = self.clean.sum(axis=0) if self.clean.any() else np.arange(self.cells + 1) / self.cells
        for shares in _STARTS:
            ends = np.array([0, *np.searchsorted(total, shares), self.cells])
            wrong, right = self.clean[:, ends[1:]] - self.clean[:, ends[:-1]]
            accuracy = (right + 0.01) / (wrong + right + 0.02)
            place = np.searchsorted(levels, np.maximum.accumulate(accuracy))
            found.append((ends, np.minimum(place, len(levels) - 1)))
        return found


def _worst(share: FloatArray, levels: FloatArray, bin_: IntArray) -> FloatArray:
    """The certified calibration error of k maps, shape (k,): the largest over the signs of the steps."""
    gain = _SIGNS[:, None, :, None] * (np.arange(2.0)[:, None, None] - levels.T)  # (signs, 2, steps, k)
    total, best = np.zeros((len(_SIGNS), max(len(levels), share.shape[1]))), gain[:, :, 0]
    for place, (first, last) in enumerate(_REACHES):  # by first, then by last
        best = gain[:, :, first] if last == first else np.maximum(best, gain[:, :, last])
        total += share[0, :, place] * best[:, 0] + share[1, :, place] * best[:, 1]
    together = bin_.T[1:] == bin_.T[:-1]  # steps in one bin have one sign
    refused = (_CHANGES[:, :, None] & together).any(axis=1)
    return np.asarray(np.where(refused, 0.0, total).max(axis=0))


def _descend(loss: _Loss, ends: IntArray, place: IntArray, levels: FloatArray) -> tuple[float, IntArray, IntArray]:
    """The loss, ends and places of levels at which no single cut or level can be moved to advantage."""
    value = float(loss.at(ends[None], levels[place][None])[0])
    for _ in range(_SWEEPS):
        before = value
        for step in range(1, STEPS):  # cuts first: with these cuts, levels would move together
            tried = _with(ends, step, np.arange(ends[step - 1], ends[step + 1] + 1))
            value, ends = _better(value, ends, loss.at(tried, levels[place][None]), tried)
        for step in range(STEPS):
            low = place[step - 1] if step else 0
            high = place[step + 1] if step < STEPS - 1 else len(levels) - 1
            tried = _with(place, step, np.arange(low, high + 1))
            value, place = _better(value, place, loss.at(ends[None], levels[tried]), tried)
        if value == before:
            break
    return value, ends, place


def _with(point: IntArray, entry: int, values: ArrayLike) -> IntArray:
    """Copies of a point, each with another value in one entry."""
    tried = np.repeat(point[None], len(np.asarray(values)), axis=0)
    tried[:, entry] = values
    return tried


def _better(value: float, point: IntArray, losses: FloatArray, tried: IntArray) -> tuple[float, IntArray]:
    """The best that was tried, if it is better by more than rounding."""
    best = int(losses.argmin())
    return (float(losses[best]), tried[best]) if losses[best] < value - 1e-9 else (value, point)
