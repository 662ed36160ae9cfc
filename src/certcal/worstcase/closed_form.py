"""Worst cases in closed form: Brier and log scores (Paper: Sec. 3.1, App. D), AUROC and AURC (docs/operating.md).

All of them get worse as a right input's confidence falls and as a wrong one's rises, so each right one at l and each
wrong one at u is the worst case of all at once.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.metrics import Ranks, as_predictions, first_sums, log_losses
from certcal.settings import Population
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase.problem import Kind, Solution, WorstCaseProblem, once_per_problem

_MOST_WORK = 2**24  # ways to share failures between right and wrong, times inputs, that are tried one by one


def certified_brier_score(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
) -> Solution:
    """The largest top-label Brier score of any confidences within the bounds, in [0, 1].

    A correct prediction hurts most at its lower bound, an incorrect one at its upper bound; these "Brier confidences"
    are the witness. Bounds may stand in for `lower`, `upper` and `correct`, as for `certified_calibration_error`; with
    population "all" each uncertified input counts where its bounds let it hurt most (docs/guarantee.md), and as wrong
    at confidence 1 if nothing is known of it.

    Paper: Thm. 3.3, Eq. (3).   Errs: high (rounding goes up).

    >>> round(certified_brier_score([0.5, 0.1], [0.9, 0.5], [1, 0]).value, 6)
    0.25
    """
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population)
    witness = brier_confidences(problem)
    return _certified_mean(np.square(problem.correct - witness), problem, witness, np.square, ceiling=1.0)


def certified_log_score(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
) -> Solution:
    """The largest top-label log score (nats) of any confidences within the bounds, in [0, ∞].

    The witness is that of the Brier score. Infinite if a correct input may reach confidence 0 or an incorrect one 1,
    and with an uncertified one that may. Bounds may stand in for `lower`, `upper` and `correct`.

    Paper: —; the argument of Thm. 3.3 for the logarithmic score.   Errs: high (rounding goes up).

    >>> round(certified_log_score([0.5, 0.1], [0.9, 0.5], [1, 0]).value, 6)
    0.693147
    """
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population)
    witness = brier_confidences(problem)

    def loss(distance: FloatArray) -> FloatArray:
        return log_losses(distance, np.zeros(len(distance), dtype=bool))

    return _certified_mean(log_losses(witness, problem.correct), problem, witness, loss, ceiling=np.inf)


def brier_confidences(problem: WorstCaseProblem) -> FloatArray:
    """The confidences that maximise the Brier score: l where correct, u where not, shape (n,)."""
    return np.where(problem.correct, problem.lower, problem.upper)


def _certified_mean(
    losses: FloatArray,
    problem: WorstCaseProblem,
    witness: FloatArray,
    loss: Callable[[FloatArray], FloatArray],
    *,
    ceiling: float,
) -> Solution:
    """The mean loss, rounded up; an uncertified input loses what its distance from being right allows."""
    mean = value = float(losses.mean()) if len(losses) else 0.0
    if (witness != problem.correct).any():
        # NumPy adds pairwise: fewer than 64 roundings touch any term, each loss itself carries at most four, and 2^-46
        # = 128 units of rounding covers them all. The next float covers a loss or mean that underflowed.
        value = min(float(np.nextafter(mean * (1 + 2**-46), np.inf)), ceiling)
    if problem.uncertified:
        lost = ceiling * problem.uncertified if problem.farthest is None else float(loss(problem.farthest).sum())
        mean = (mean * len(losses) + lost) / problem.size
        # As above; the margin in `value` covers these few roundings, the next float covers them where it is 0.
        most = (value * len(losses) + lost * (1 + 2**-46)) / problem.size
        value = min(float(np.nextafter(most, np.inf)), ceiling)
    free = problem.free_input(1.0, correct=False, bin=len(problem.bins) - 1)
    rounding = value - mean if value < np.inf else 0.0
    return Solution(value, Kind.EXACT, witness, free=free, stats={"inputs": len(witness), "rounding": rounding})


def certified_auroc(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    uncertified: int = 0,
    failures: int = 0,
) -> float:
    """The least probability, under attack, that a right prediction is more confident than a wrong one; ties half.

    Uncertified inputs, and those whose certificate fails, become right at 0 or wrong at 1 as suits the adversary. Exact
    but for very many failures, where it errs low. NaN if all inputs are right or all are wrong.

    Paper: —; docs/operating.md.   Errs: low.

    >>> certified_auroc([0.7, 0.4], [0.9, 0.6], [1, 0])
    1.0
    >>> certified_auroc([0.7, 0.5, 0.4], [0.9, 0.8, 0.7], [1, 1, 0])
    0.25
    """
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    problem.check_few_free()
    ranks = worst_ranks(problem)
    right, wrong = ranks.right[::-1], ranks.wrong  # in the order in which they fail
    failed = problem.failed(failures)
    free, won = failed + problem.uncertified, _pairs_won(ranks)
    if failed and (failed + 1) * (free + len(problem.lower)) > _MOST_WORK:
        # At least: pairs that no failure can touch, over the most pairs there can be.
        pairs = won(min(failed, len(right)), failed)
        return float(np.nextafter(pairs / max((len(right) + free) * (len(wrong) + free), 1), 0.0))
    least, to_wrong = np.nan, np.arange(free + 1)  # of the free ones
    ones, zeros = int((right == 1.0).sum()), int((wrong == 0.0).sum())
    # Right ones whose certificate fails; the others are wrong ones.
    for gone in range(max(failed - len(wrong), 0), min(failed, len(right)) + 1):
        other = failed - gone
        ties = (max(ones - gone, 0) * to_wrong + max(zeros - other, 0) * (free - to_wrong)) / 2
        count = (len(right) - gone + free - to_wrong) * (len(wrong) - other + to_wrong)
        if (count > 0).any():
            least = np.fmin(least, _least_share((won(gone, other) + ties)[count > 0], count[count > 0]))
    return float(least)


def _least_share(won: FloatArray, of: IntArray) -> float:
    """The least of these quotients, rounded down; counts below 2^52, and halves, are exact."""
    shares = won / of
    least = float(shares.min())
    near = set(zip(won[shares == least].tolist(), of[shares == least].tolist(), strict=True)) if least else ()
    exact = all(Fraction(least) * count <= Fraction(pairs) for pairs, count in near)
    return least if exact else float(np.nextafter(least, 0.0))


def _pairs_won(ranks: Ranks) -> Callable[[int, int], float]:
    """Pairs in which a right input is more confident than a wrong one, ties half, without the first of each to fail.

    The most confident right ones fail first, and the least confident wrong ones; so without the first k wrong ones
    every right one beats k fewer, or none.
    """
    losses = [-own[::-1] for own in ranks.beaten]
    sums = [first_sums(own) for own in losses]

    def won(gone: int, skipped: int) -> float:
        twice = 0
        for own, total in zip(losses, sums, strict=True):
            stop = max(int(np.searchsorted(own, -skipped)), gone)  # those that beat more than `skipped`
            twice += int(total[gone] - total[stop]) - skipped * (stop - gone)
        return twice / 2

    return won


def risk_coverage_area(confidence: ArrayLike, correct: ArrayLike) -> float:
    """The area under the risk-coverage curve (AURC): the mean, over k, of the error rate of the k most confident.

    Equal confidences come in random order, in expectation, so the order of the inputs does not matter.

    Paper: —; Geifman, Uziel and El-Yaniv (2019).

    >>> risk_coverage_area([0.9, 0.8, 0.7], [1, 0, 1]), risk_coverage_area([0.5, 0.5], [1, 0])
    (0.27777777777777773, 0.5)
    """
    return Ranks.of(*as_predictions(confidence, correct)).risk_coverage_area


def certified_risk_coverage_area(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    uncertified: int = 0,
    failures: int = 0,
) -> float:
    """The largest area under the risk-coverage curve under attack (certified AURC).

    Uncertified inputs come first and are wrong; so do the most confident right ones, where certificates fail.

    Paper: —; docs/operating.md.   Errs: high (rounding goes up).

    >>> round(certified_risk_coverage_area([0.7, 0.5, 0.4], [0.9, 0.8, 0.7], [1, 1, 0]), 6)
    0.444444
    """
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    problem.check_few_free()
    ranks, free = worst_ranks(problem), problem.uncertified
    failed = problem.failed(failures)
    right = ranks.right[: max(len(ranks.right) - failed, 0)]
    wrong = ranks.wrong[: len(ranks) - max(failed, len(ranks.right))]  # where no right one is left to fail
    worst = Ranks(right, np.append(wrong, np.ones(failed + free)))
    return min(worst.risk_coverage_area * (1 + 2.0**-46), 1.0)  # pairwise sums: fewer than 64 roundings of each term


@once_per_problem
def worst_ranks(problem: WorstCaseProblem) -> Ranks:
    """The certified inputs at the worst case of all rankings."""
    return Ranks.of(brier_confidences(problem), problem.correct)
