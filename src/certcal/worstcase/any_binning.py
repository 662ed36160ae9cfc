"""The worst calibration error over every partition into at most M intervals, chosen after the attack.

It bounds every binning: equal width, equal count with moving bins, or any other. Proof: docs/any_binning.md.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.metrics import Bins
from certcal.scalars import check_integer
from certcal.settings import MAX_BINS, Population
from certcal.types import ArrayLike
from certcal.worstcase.brier import brier_confidences
from certcal.worstcase.cuts import RunProgram, Runs, Windows, best_runs
from certcal.worstcase.exact import free_input
from certcal.worstcase.failing import most_to_gain
from certcal.worstcase.problem import WorstCaseProblem
from certcal.worstcase.reach import goals, send, tabulate
from certcal.worstcase.solution import Kind, Solution

MOST_INPUTS = 2**15  # seconds; beyond it bounds are rounded outward to a grid
_GRID = 2.0**11


def any_binning_calibration_error(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    uncertified: int = 0,
    failures: int = 0,
) -> Solution:
    """The largest calibration error of any confidences within the bounds over every binning into at most `n_bins`.

    The partition is chosen after the attack, so no choice of bins tells a worse story. Exact, in seconds; beyond 32 768
    inputs bounds are rounded outward to steps of 2⁻¹¹ and the value is an upper bound. With `failures` it is an upper
    bound that allows for certificates that fail. In `stats`, `edges` are the worst bins, `attained` the witness's error
    in them, and `without_bins` the mean of |c − far end|, which bounds every number of bins.

    Paper: App. L names bins that move as future work; docs/any_binning.md.   Errs: high (rounding goes up).

    >>> solution = any_binning_calibration_error([0.1, 0.5], [0.6, 0.9], [1, 0], n_bins=2)
    >>> round(solution.value, 6), solution.confidence.tolist()
    (0.9, [0.1, 0.9])
    """
    size = check_integer("n_bins", n_bins, minimum=1, maximum=MAX_BINS)
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    return solve_cuts(problem, size, problem.failed(failures))


def solve_cuts(problem: WorstCaseProblem, size: int, failures: int, windows: Windows | None = None) -> Solution:
    """The worst case over at most `size` bins, whose cuts lie in the windows if there are any."""
    free, inputs = problem.uncertified + failures, len(problem.lower)
    coarse, solved = inputs > MOST_INPUTS, problem
    if coarse:
        low, high = np.floor(problem.lower * _GRID) / _GRID, np.ceil(problem.upper * _GRID) / _GRID
        solved = replace(problem, lower=low, upper=high)
    program = RunProgram(solved, windows, free=free)
    ways = ((free, 0), (0, free)) if free else ((0, 0),)
    best = max(
        (best_runs(program, size, free_first=first, free_last=last, windows=windows) for first, last in ways),
        key=lambda found: found.total,
    )
    rounding = 1.0 / program.unit + 2.0**-51  # docs/any_binning.md
    far = without_bins(problem, failures)
    total = float(best.total) + most_to_gain(problem, failures)
    value = min(total / problem.size + 2.0**-51, far, 1.0)
    witness, stats = _witness(problem, best, failures)
    return replace(
        witness,
        value=value,
        kind=Kind.UPPER if coarse or failures or windows is not None or problem.restricts else Kind.EXACT,
        stats={"inputs": inputs, "uncertified": problem.uncertified, "rounding": rounding, "without_bins": far} | stats,
    )


def _witness(problem: WorstCaseProblem, runs: Runs, failures: int) -> tuple[Solution, dict[str, Any]]:
    """Every input where the runs send it, and the calibration error that this attains in these bins."""
    bins = Bins.from_edges(np.concatenate([[0.0], runs.cuts, [1.0]]))
    signs = runs.signs.astype(np.int32)
    own = replace(problem, bins=bins)
    confidence, place = send(own, tabulate(own)[1], goals(bins, signs))
    gaps = np.bincount(place, problem.correct - confidence, minlength=len(bins))
    free = free_input(bins, signs, problem.uncertified)
    if free is not None:
        gaps[free.bin] += free.count * (free.correct - free.confidence)
    stats = {"edges": bins.edges, "attained": float(np.abs(gaps).sum() / problem.size), "failures": failures}
    return Solution(0.0, Kind.EXACT, confidence, place, signs, free), stats


def without_bins(problem: WorstCaseProblem, failures: int = 0) -> float:
    """The mean of |c − far end of the interval|: what no number of bins can exceed.

    An uncertified input counts as far from its correctness as it can be, `bounds.farthest`, and 1 if nothing is known.
    """
    gaps = np.abs(problem.correct - brier_confidences(problem))
    if failures:
        gaps = np.sort(gaps)[failures:]
    free = float(problem.after_failures(failures).free_earning(np.ones(1))[0])
    total = (float(gaps.sum()) + free) * (1 + 2.0**-46) + failures  # pairwise sums: below 64 roundings
    return min(float(np.nextafter(total / problem.size, 2.0)), 1.0)
