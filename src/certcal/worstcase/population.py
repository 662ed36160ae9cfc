"""From the inputs at hand to the population they were drawn from. Proof: docs/guarantee.md.

For fixed signs s the scores v_n(s) of independent inputs are independent, so a confidence bound for their mean bounds
what the population can earn against s. The population's own worst signs are one of finitely many s and do not depend on
the sample; so the largest bound over all s is valid, and no union over them is paid for.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.metrics import sum_by_bin
from certcal.scalars import check_level
from certcal.settings import Population
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase.exact import RunSums, best_signs, free_input, rounding_bound, solve_exact, with_free_inputs
from certcal.worstcase.problem import Score, Solution, WorstCaseProblem
from certcal.worstcase.reach import send, tabulate

# With fewer inputs Hoeffding's inequality is used, with more the empirical Bernstein inequality. The choice may depend
# on nothing but the number of inputs.
BERNSTEIN_FROM = 100


@dataclass(frozen=True)
class PopulationBound:
    """An upper confidence bound for the calibration error of a whole population under attack, and its parts."""

    value: float  # the sum of the three parts, at most 1
    certified: float  # certified calibration error of the sample
    failing: float  # 2 alpha, for certificates that fail
    sampling: float  # for the sample not being the population
    inputs: int
    alpha: float
    delta: float

    def __float__(self) -> float:
        return self.value


def population_bound(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    delta: float,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    uncertified: int = 0,
) -> PopulationBound:
    """An upper bound for the binned calibration error of the population under attack, with probability 1 − delta.

    Over the draw of the inputs and of the noise: the certified calibration error of these inputs, 2 alpha for
    certificates that fail, and a margin for sampling that shrinks with the variance of what inputs contribute.

    Assumed: the inputs are independent draws from the population; model, radius, edges and recalibration were fixed
    without them; inputs without certificate are counted as `uncertified`, none is left out; each certificate fails with
    probability at most alpha, counting all certificates of an input together: `bounds.level`. The
    adversary may use the input and its label, not the other inputs.

    Bounds in place of `lower`, `upper` and `correct` bring `alpha` and count every uncertified input. Those made from
    draws leave a part of delta to other looks at them: `bounds.delta_share`.

    Not covered: calibration error without bins, or with bins chosen from these inputs; the certified inputs alone;
    other distributions than the one sampled; several radii at once, for which divide delta.

    Paper: —; docs/guarantee.md, with Maurer and Pontil (2009), Theorem 4.   Errs: high.

    >>> lower, upper, correct = [0.9] * 990, [1.0] * 990, [True] * 960 + [False] * 30
    >>> bound = population_bound(lower, upper, correct, alpha=0.001, delta=0.05, uncertified=10)
    >>> round(bound.certified, 4), round(bound.sampling, 4), round(bound.value, 4)
    (0.136, 0.0324, 0.1704)
    """
    population, spent = Population.CERTIFIED, check_level("delta", delta)
    if isinstance(lower, ConfidenceIntervals):
        if alpha is not None:
            raise InputError.expected("alpha", "be left out with bounds, which bring their own", alpha)
        level, population = lower.level, Population.ALL
        spent *= lower.delta_share
    else:
        level = check_level("alpha", alpha)
    problem = WorstCaseProblem.checked(
        lower, upper, correct, population=population, n_bins=n_bins, edges=edges, uncertified=uncertified
    ).everywhere
    failing = 2.0 * level
    sample = solve_exact(problem)
    if spent == 0:
        sampling = 1.0  # nothing can be said at this look
    elif problem.size < BERNSTEIN_FROM:
        sampling = math.sqrt(2.0 * math.log(1.0 / spent) / problem.size)
    else:
        tail = math.log(2.0 / spent)
        spread = _largest_with_spread(problem, sample, math.sqrt(2.0 * tail / problem.size))
        sampling = max(spread - sample.value, 0.0) + 14.0 * tail / (3.0 * (problem.size - 1))
    # A handful of roundings, each below 2^-53 of its result.
    value = min((sample.value + failing + sampling) * (1 + 2.0**-48), 1.0)
    return PopulationBound(value, sample.value, failing, sampling, problem.size, level, float(delta))


def _largest_with_spread(problem: WorstCaseProblem, sample: Solution, factor: float) -> float:
    """An upper bound of max over s of mean v(s) + factor · (standard deviation of v(s)).

    For any τ > 0 and μ the deviation is at most τ / 2 + Σ (v − μ)² / (2 τ (N − 1)). For fixed τ and μ that is a sum
    over inputs again, which the dynamic program over runs maximises. Any τ and μ give a bound; those of the best signs
    found so far are tried in turn.
    """
    assert sample.signs is not None
    signs, size = sample.signs, problem.size
    inputs, best = len(problem.lower), math.inf
    for _ in range(4):
        centre, deviation = _mean_and_deviation(problem, signs)
        tau = max(deviation, 1.0 / math.sqrt(size))  # keeps the curvature below 2
        curvature = factor * size / (2.0 * tau * (size - 1))

        def score(v: FloatArray, centre: float = centre, curvature: float = curvature) -> FloatArray:
            far = np.subtract(v, centre)  # then in place: v + curvature (v − centre)², without three more arrays
            np.square(far, out=far)
            far *= curvature
            far += v
            return far

        before, (signs, total) = signs, _best_signs_by(problem, score)
        rounding = (4.0 + 16.0 * curvature) * rounding_bound(inputs, inputs, problem.bins)
        best = min(best, total / size + factor * tau / 2.0 + rounding)
        if np.array_equal(signs, before):
            break  # the same would be found again
    return best


def _mean_and_deviation(problem: WorstCaseProblem, signs: IntArray) -> tuple[float, float]:
    """Mean and standard deviation of what the inputs earn against these signs."""
    confidence, bins = send(problem, signs)
    own = np.subtract(problem.correct, confidence, out=confidence)
    own *= signs.take(bins)
    free = free_input(problem.bins, signs, problem.uncertified)
    earned = np.array([0.0 if free is None else abs(free.correct - free.confidence)])
    mean = (float(own.sum()) + problem.free_earning(earned).item()) / problem.size
    spread = problem.free_earning(earned, score=lambda v: np.square(v - mean)).item()
    own -= mean
    return mean, math.sqrt((float(np.square(own, out=own).sum()) + spread) / (problem.size - 1))


def _best_signs_by(problem: WorstCaseProblem, score: Score) -> tuple[IntArray, float]:
    """The signs with the largest Σ score(v_n(s)), and at least that sum."""
    worth = _run_worth_by(problem, score)
    if not problem.uncertified:
        return best_signs(worth[None])

    # As in `with_free_inputs`: φ is the larger of two. It is never below 1/2, so a smaller one is not it.
    def free(values: FloatArray) -> FloatArray:
        found, large = np.full(len(values), -np.inf), values >= 0.5
        found[large] = problem.free_earning(values[large], score=score)
        return found

    return best_signs(with_free_inputs(worth, problem.bins, free))


def _run_worth_by(problem: WorstCaseProblem, score: Score) -> FloatArray:
    """Σ of score(v_n) over the inputs charged to a run a … b, shape (2, b, b): Lemma 3 of docs/exact.md."""
    (tables, cell_of), bins, size = tabulate(problem), problem.bins, len(problem.bins)
    cell = cell_of.astype(np.intp)

    def summed(values: FloatArray) -> Iterator[RunSums]:
        """Of wrong and of right ones."""
        return map(RunSums, sum_by_bin(cell, values, 2 * size * size).reshape(2, size, size))

    wrong, right = map(RunSums, tables.count)
    wrong_plus, right_plus = summed(score(problem.correct - problem.lower))
    wrong_minus, right_minus = summed(score(problem.upper - problem.correct))
    stuck = wrong_plus.last_inside - wrong_plus.comes_from_left
    plus = right_plus.first_inside + wrong.comes_from_left * score(bins.end_before)[:, None] + stuck
    goes_on = right.first_inside - right.stays
    minus = wrong_minus.last_inside + goes_on * score(1.0 - bins.bottom_after)[None, :] + right_minus.stays
    return np.stack([plus, minus])
