"""Which bins the inputs of a problem reach, counted; and where they go once every bin has its sign.

For given signs an input's best confidence depends only on its correctness and on the first and last bin it reaches
(docs/exact.md, Lemma 2), so these tables are all the exact solution needs to know of the inputs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.blocks import BLOCK, over_blocks
from certcal.metrics import Bins, sum_by_bin
from certcal.types import FloatArray, IntArray
from certcal.worstcase.problem import WorstCaseProblem, once_per_problem


@dataclass(frozen=True, eq=False)
class ReachTables:
    """Inputs by correctness × first bin × last bin they reach, shape (2, b, b). Tables add up over batches."""

    count: FloatArray
    lower: FloatArray  # sums of lower bounds
    upper: FloatArray  # sums of upper bounds


@once_per_problem
def tabulate(problem: WorstCaseProblem) -> tuple[ReachTables, IntArray]:
    """The tables, and each input's cell in them as (correct · M + first bin) · M + last bin, shape (n,)."""
    size, cells = len(problem.bins), 2 * len(problem.bins) ** 2
    kind: Any = np.int16 if cells <= 2**15 else np.int32
    cell_of: IntArray = np.empty(len(problem.lower), dtype=kind)

    def sums(block: slice) -> FloatArray:
        low, high = problem.lower[block], problem.upper[block]
        cell = np.multiply(problem.bins.assign_block(low), kind(size), out=cell_of[block])
        cell += problem.bins.assign_block(high)
        cell += problem.correct[block].astype(kind) * kind(size * size)
        index = cell.astype(np.intp)  # what bincount works in; converted once for all three
        table = np.zeros((3, cells))
        table[0] = np.bincount(index, minlength=cells)
        np.add.at(table[1], index, low)  # as `sum_by_bin`, bit by bit, in three quarters of the time
        np.add.at(table[2], index, high)
        return table

    total = sum(over_blocks(len(cell_of), sums, step=block_length(problem.bins)), np.zeros((3, cells)))
    return ReachTables(*total.reshape(3, 2, size, size)), cell_of


@dataclass(frozen=True, eq=False)
class Goals:
    """Where the inputs of each cell go, shape (2, b, b): their bin, and a confidence to be clipped to [l, u]."""

    bin: NDArray[np.int16]
    confidence: FloatArray


def goals(bins: Bins, signs: IntArray) -> Goals:
    """The best any input can do against fixed signs, +1 for bins that are under-confident and −1 for the others.

    A correct input goes to the bottom of the first + bin it reaches, and up to u if it reaches none. An incorrect one
    goes to the top of the last − bin it reaches, and down to l if it reaches none.
    """
    size = len(bins)
    index = np.arange(size)
    next_plus = np.minimum.accumulate(np.where(signs > 0, index, size)[::-1])[::-1]  # first + bin at or after each
    last_minus = np.maximum.accumulate(np.where(signs < 0, index, -1))  # last − bin at or before each
    first, last = np.ogrid[:size, :size]
    wrong_escapes = last_minus[last] >= first
    wrong_bin = np.where(wrong_escapes, last_minus[last], first)
    wrong = np.where(wrong_escapes, bins.tops[last_minus[last]], -np.inf)
    right_escapes = next_plus[first] <= last
    right_bin = np.where(right_escapes, next_plus[first], last)
    right = np.where(right_escapes, np.append(bins.bottoms, 1.0)[next_plus[first]], np.inf)
    return Goals(np.stack([wrong_bin, right_bin]).astype(np.int16), np.stack([wrong, right]))


def send(problem: WorstCaseProblem, signs: IntArray) -> tuple[FloatArray, IntArray]:
    """Every input at its goal against these signs: confidences within the bounds and their bins, shape (n,)."""
    cell_of, goal = tabulate(problem)[1], goals(problem.bins, signs)
    goal_confidence, goal_bin = goal.confidence.ravel(), goal.bin.ravel()
    confidence, bins = np.empty(len(cell_of)), np.empty(len(cell_of), dtype=goal_bin.dtype)

    def put(block: slice) -> None:
        cell = cell_of[block].astype(np.intp)  # NumPy gathers four times faster with its own index type
        aim = goal_confidence.take(cell, mode="clip", out=confidence[block])  # "clip" spares a check of every cell
        np.maximum(aim, problem.lower[block], out=aim)
        np.minimum(aim, problem.upper[block], out=aim)
        goal_bin.take(cell, mode="clip", out=bins[block])

    for _ in over_blocks(len(cell_of), put, step=block_length(problem.bins)):
        pass
    return confidence, bins


def bin_sums_at(goal: Goals, tables: ReachTables) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Per bin, with every input at its goal: how many inputs, the sum of their confidences, how many are correct."""
    size = goal.bin.shape[1]
    first, last = np.ogrid[:size, :size]
    # Clipping leaves l where the goal is below the whole interval, u where it is above, and the goal between.
    between = np.isfinite(goal.confidence)
    at_lower = np.isneginf(goal.confidence)
    at_lower[1] |= between[1] & (goal.bin[1] == first)
    at_upper = np.isposinf(goal.confidence)
    at_upper[0] |= between[0] & (goal.bin[0] == last)
    inside = np.where(between, goal.confidence, 0.0) * tables.count
    confidence = np.select([at_lower, at_upper], [tables.lower, tables.upper], inside)
    index = goal.bin.ravel()
    right = np.stack([np.zeros_like(tables.count[0]), tables.count[1]])
    return (
        sum_by_bin(index, tables.count.ravel(), size),
        sum_by_bin(index, confidence.ravel(), size),
        sum_by_bin(index, right.ravel(), size),
    )


def block_length(bins: Bins) -> int:
    """How many inputs are handled at once: at least as many as the tables are large, so that filling them pays."""
    return max(BLOCK, 2 * len(bins) ** 2)
