"""Certified scores: the worst Brier and log scores within the bounds, in closed form. Paper: Sec. 3.1, App. D."""

from collections.abc import Callable

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.metrics import log_losses
from certcal.settings import Population
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase.problem import WorstCaseProblem
from certcal.worstcase.solution import Kind, Solution


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
