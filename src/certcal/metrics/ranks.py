"""Confidences in order, right and wrong predictions apart: what rankings and errors below a threshold are read from."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from certcal.types import BoolArray, FloatArray, IntArray

Amounts = TypeVar("Amounts", FloatArray, IntArray)


@dataclass(frozen=True, eq=False)
class Ranks:
    """Confidences of right and of wrong predictions, sorted once for several metrics."""

    right: FloatArray  # rising
    wrong: FloatArray  # rising

    @classmethod
    def of(cls, confidence: FloatArray, correct: BoolArray) -> "Ranks":
        """The ranks of predictions in any order."""
        right, wrong = confidence[np.flatnonzero(correct)], confidence[np.flatnonzero(~correct)]
        return cls(np.sort(right), np.sort(wrong))

    def __len__(self) -> int:
        return len(self.right) + len(self.wrong)

    @cached_property
    def together(self) -> tuple[FloatArray, BoolArray]:
        """All confidences, rising, and which are of wrong predictions; among equals the right ones come first."""
        both = np.concatenate([self.right, self.wrong])
        order = np.argsort(both, kind="stable")  # of two rising runs: one merge, as fast as a copy
        return both[order], order >= len(self.right)

    @cached_property
    def beaten(self) -> tuple[IntArray, IntArray]:
        """For each right prediction, how many wrong ones are less confident, and how many are not more confident."""
        return count_below(self.wrong, self.right), count_below(self.wrong, self.right, equal=True)

    @property
    def auroc(self) -> float:
        """P(a right prediction is more confident than a wrong one), ties half; NaN if all are right or all wrong."""
        if len(self.right) == 0 or len(self.wrong) == 0:
            return float("nan")
        return float(sum(own.sum() for own in self.beaten) / 2 / (len(self.right) * len(self.wrong)))

    @property
    def risk_coverage_area(self) -> float:
        """The mean, over k, of the expected error rate of the k most confident; equal ones come in random order."""
        values, wrong = self.together[0][::-1], self.together[1][::-1]
        start, places = first_of_equals(values), np.arange(1, len(values) + 1)
        errors: IntArray | FloatArray = np.cumsum(wrong, dtype=np.int64)
        if len(start) < len(values):
            count = np.diff(start, append=len(values))
            mistakes = np.add.reduceat(wrong, start, dtype=np.int64)
            before = np.cumsum(mistakes) - mistakes  # whole numbers: no rounding
            within = places - np.repeat(start, count)  # place among its equals
            errors = np.repeat(before, count) + within * np.repeat(mistakes / count, count)
        return float((errors / places).mean())

    @property
    def ks(self) -> float:
        """The largest |Σ over z ≤ t of (c − z)| / N over t."""
        values, wrong = self.together
        last = np.append(first_of_equals(values)[1:], len(values)) - 1
        return float(np.abs(np.cumsum(~wrong - values)[last]).max() / len(values))


def count_below(ends: FloatArray, points: FloatArray, *, equal: bool = False) -> IntArray:
    """How many ends are below each point, or at most it; both rise, so that merging them takes half a binary search."""
    order = np.argsort(np.concatenate([ends, points] if equal else [points, ends]), kind="stable")
    places = np.flatnonzero(order >= len(ends) if equal else order < len(points))
    return places - np.arange(len(points))


def first_sums(amounts: Amounts) -> Amounts:
    """Σ of the first k amounts, from k = 0 on."""
    return np.append(np.zeros(1, amounts.dtype), np.cumsum(amounts))


def first_of_equals(values: FloatArray) -> IntArray:
    """Where each distinct value of a sorted array stands first."""
    return np.flatnonzero(np.append(np.ones(len(values[:1]), dtype=np.bool_), values[1:] != values[:-1]))
