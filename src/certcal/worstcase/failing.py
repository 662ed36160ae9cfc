"""The exact worst case when the adversary also chooses K certificates that fail. Proof: docs/guarantee.md.

An input whose certificate failed has no bounds and no fixed correctness left, so it scores what any free input scores
against the signs s, φ(s), instead of its own v_n(s) ≤ φ(s). The best K to fail are those that score least:

    N · value = max_s (U + K) φ(s) + Σ_n v_n(s) − (the K smallest v_n(s)).

The K smallest of a set that is split into runs are the best split of K over the runs, so the dynamic program over run
ends takes one more index, how many have failed so far, and stays exact.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from certcal.types import FloatArray, IntArray
from certcal.worstcase.exact import (
    RunSums,
    best_signs,
    free_input,
    in_whole_bins,
    optimise,
    rounding_bound,
    run_worth,
    with_free_inputs,
)
from certcal.worstcase.problem import Kind, Solution, WorstCaseProblem
from certcal.worstcase.reach import block_length, send, tabulate

# Additions of the dynamic program, (bins · failures)²: about a second. Beyond it failures are counted in twos, fours …
MOST_WORK = 2**29
MOST_CELLS = 2**22  # of its tables, bins² · failures: about 200 MB
MOST_AT_ONCE = 2**13  # scores that are sorted together: of fewer, it is the calls that take time


def solve_with_failures(problem: WorstCaseProblem, failures: int) -> Solution:
    """The worst case with `failures` ≤ n certificates failed, with signs, witness and who failed."""
    tables, _ = tabulate(problem)
    inputs, bins = len(problem.lower), problem.bins
    step, drops = _plan(inputs, len(bins), failures)

    def free(at_best: FloatArray, failed: int = failures) -> FloatArray:
        return problem.free_earning(at_best) + failed * at_best

    kind = Kind.UPPER if problem.restricts or step != 1 else Kind.EXACT
    total = math.inf
    if step != 1:
        signs, total = optimise(tables, bins, free)
        total += most_to_gain(problem, failures)
    if step:
        earned = with_free_inputs(run_worth(tables, bins), bins, partial(free, failed=drops * step))
        signs, best = best_signs(earned, smallest_sums(problem, step, drops))
        total = min(total, best)
    # Sums of the smallest scores pass through as many additions, those of the program through two more per run.
    block = block_length(bins)
    additions = min(inputs, block) + inputs // block + max(failures, drops * step) + 8 * len(bins)
    additions += 64 if problem.restricts else 0
    rounding = rounding_bound(additions, inputs, bins)
    confidence, assigned, found = _witness(problem, signs, failures)
    solution = Solution(
        value=min(total / problem.size + rounding, 1.0),
        kind=kind,
        confidence=confidence,
        bins=assigned,
        signs=signs,
        free=free_input(bins, signs, problem.uncertified),
        stats={"inputs": inputs, "uncertified": problem.uncertified, "rounding": rounding, **found},
    )
    return in_whole_bins(solution, bins)


def _plan(inputs: int, size: int, failures: int) -> tuple[int, int]:
    """In steps of how many failures to count, and how many steps; (0, 0) if no step makes the program affordable.

    Rounding each run's failures up to whole steps needs at most step − 1 more in each run that has any. A step twice as
    long allows all that the shorter one does, so the bound stays monotone in the number of failures.
    """
    step = 1
    while step <= 2 * failures:
        drops = (failures + min(size, failures) * (step - 1)) // step
        cells = size**2 * (drops + 1)
        if drops * step <= inputs and cells <= MOST_CELLS and cells * (drops + 1) <= MOST_WORK:
            return step, drops
        step *= 2
    return 0, 0


def most_to_gain(problem: WorstCaseProblem, failures: int) -> float:
    """The most that dropping `failures` inputs can gain, whatever the signs: they score at least u − 1 or −l."""
    if failures == 0:
        return 0.0
    loss = np.where(problem.correct, 1.0 - problem.upper, problem.lower)
    return float(np.partition(loss, len(loss) - failures)[len(loss) - failures :].sum())


def _witness(problem: WorstCaseProblem, signs: IntArray, failures: int) -> tuple[FloatArray, IntArray, dict[str, Any]]:
    """Confidences and bins with those that score least failed, shape (n,); who failed, and the error they attain."""
    confidence, bins = send(problem, signs)
    score = signs[bins] * (problem.correct - confidence)
    failed = np.sort(np.argpartition(score, failures - 1)[:failures])
    free = free_input(problem.bins, signs, problem.uncertified + failures)
    assert free is not None  # there are failures
    confidence[failed], bins[failed] = free.confidence, free.bin
    correct = problem.correct.copy()
    correct[failed] = free.correct
    gaps = np.bincount(bins, correct - confidence, minlength=len(signs))
    gaps[free.bin] += problem.uncertified * (free.correct - free.confidence)
    attained = float(np.abs(gaps).sum() / problem.size)
    found = {"failures": failures, "failed": failed, "failed_correct": free.correct, "attained": attained}
    return confidence, bins, found


def smallest_sums(problem: WorstCaseProblem, step: int, drops: int) -> FloatArray:
    """Σ of the k · step smallest scores of each run, shape (2, b, b, drops + 1) for (sign, a, b, k); ∞ if too few.

    By Lemma 3 of docs/exact.md the members of a + run score 1 − l (correct), the end of the bin before (incorrect, come
    from the left) or −l (incorrect, cannot escape); those of a − run u, 1 − the bottom of the bin after (correct, go on
    to the right) or u − 1. Read from right to left a − run is a + run, so one function serves both.
    """
    (tables, cell_of), size, bins = tabulate(problem), len(problem.bins), problem.bins
    cell = cell_of.astype(np.intp)
    first, last = cell // size % size, cell % size
    right, wrong = problem.correct, ~problem.correct
    wrong_between, right_between = tables.count
    plus = _smallest_in_runs(
        _Scores(1.0 - problem.lower[right], first[right]),
        _Scores(-problem.lower[wrong], first[wrong], last[wrong]),
        bins.end_before,
        RunSums(wrong_between).comes_from_left,
        step,
        drops,
    )
    minus = _smallest_in_runs(
        _Scores(problem.upper[wrong], size - 1 - last[wrong]),
        _Scores(problem.upper[right] - 1.0, size - 1 - last[right], size - 1 - first[right]),
        (1.0 - bins.bottom_after)[::-1],
        RunSums(right_between[::-1, ::-1].T).comes_from_left,
        step,
        drops,
    )
    return np.stack([plus, minus[::-1, ::-1].swapaxes(0, 1)])


class _Scores:
    """Scores of inputs that fall as their bin rises, sorted from the smallest, with first and last bin."""

    def __init__(self, score: FloatArray, first: IntArray, last: IntArray | None = None) -> None:
        order = np.lexsort((-first, score))  # rounding may make scores of two bins equal
        self.score, self.first = score[order], first[order]
        self.last = self.first if last is None else last[order]

    def smallest(self, ends: IntArray, length: int) -> tuple[FloatArray, IntArray]:
        """The smallest scores of inputs that end by each bin, padded with ∞, and their first bins, (e, length)."""
        score, first = np.full((len(ends), length), np.inf), np.full((len(ends), length), -1)
        for n, end in enumerate(ends):
            inside = np.flatnonzero(self.last <= end)[:length]
            score[n, : len(inside)], first[n, : len(inside)] = self.score[inside], self.first[inside]
        return score, first


def _smallest_in_runs(
    own: _Scores, stuck: _Scores, escape: FloatArray, escaping: FloatArray, step: int, drops: int
) -> FloatArray:
    """Σ of the k · step smallest scores in each run of + bins, shape (b, b, drops + 1); ∞ if there are too few."""
    size, length = len(escape), step * drops
    out = np.full((size, size, drops + 1), np.inf)
    place = np.arange(length)
    # Summed for some ends at a time: the scores of all runs, bins² · failures of them, may take gigabytes.
    pieces = min(size, 1 + size**2 * length // MOST_AT_ONCE)
    for ends in np.array_split(np.arange(size), pieces):
        starts = np.arange(ends[-1] + 1)[:, None]
        # The smallest scores have the highest first bins. So the smallest among those from bin `start` on are the
        # smallest of all, less those that begin before it.
        parts = [
            np.where(first[:, None] >= starts, score[:, None], np.inf)
            for score, first in (scores.smallest(ends, length) for scores in (own, stuck))
        ]
        parts.append(np.where(place < escaping.T[ends, : len(starts), None], escape[starts], np.inf))
        lists = np.sort(np.concatenate(parts, axis=-1), axis=-1)[..., :length]
        out[: len(starts), ends] = _sums_in_steps(lists, step).swapaxes(0, 1)
    out[np.tril_indices(size, -1)] = np.inf  # no run ends before it starts
    return out


def _sums_in_steps(lists: FloatArray, step: int) -> FloatArray:
    """Sums of the first k · step entries; one that is not there counts nothing, and a step without any is ∞."""
    count = np.isfinite(lists).sum(axis=-1)[..., None]
    sums = np.where(np.isfinite(lists), lists, 0.0).cumsum(axis=-1)[..., step - 1 :: step]
    taken = np.arange(sums.shape[-1]) * step  # before this step
    padded = np.where(taken < count, sums, np.inf)
    return np.concatenate([np.zeros_like(padded[..., :1]), padded], axis=-1)
