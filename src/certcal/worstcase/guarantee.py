"""One claim for the whole set: all but K certificates hold, and what the K can do. Proofs: docs/guarantee.md."""

from bisect import bisect_left
from dataclasses import replace

import numpy as np
import scipy

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.proportions import TAIL_UNDERFLOW, tail_error
from certcal.scalars import check_integer, check_level
from certcal.settings import Population
from certcal.types import ArrayLike
from certcal.worstcase.closed_form import brier_confidences
from certcal.worstcase.exact import solve_exact
from certcal.worstcase.failing import solve_with_failures
from certcal.worstcase.problem import Kind, Solution, WorstCaseProblem


def allowed_failures(inputs: int | ConfidenceIntervals, *, alpha: float | None = None, delta: float) -> int:
    """The smallest K with P(Binomial(inputs, alpha) > K) ≤ delta: with probability 1 − delta no more than K fail.

    Each certificate fails with probability at most alpha, independently over inputs since their noise is, so this holds
    however the probabilities differ. Count ALL inputs whose evidence was drawn, not only those certified at some
    radius: the draws that make a certificate fail may be the draws that made it certify, and of the inputs certified
    any share may have failed. Per input all radii rest on one event, so one K serves all radii together.

    Paper: —; docs/guarantee.md.   Errs: high (the binomial tail is rounded up).

    Args:
        inputs: how many inputs there is evidence of; or the bounds of all of them, which bring their own `alpha`.
        alpha: the error probability per input of all its certificates together: `bounds.level`.
        delta: the error probability of the claim about the whole set.

    >>> allowed_failures(500, alpha=0.001, delta=0.01)
    3
    """
    if isinstance(inputs, ConfidenceIntervals):
        if alpha is not None:
            raise InputError.expected("alpha", "be left out with bounds, which bring their own", alpha)
        if inputs.level in (0, 1):  # proven, or nothing at all
            return int(inputs.level) * len(inputs)
        alpha, inputs = inputs.level, len(inputs)
    total = check_integer("inputs", inputs, minimum=1, maximum=2**53)
    level = check_level("alpha", alpha)
    check_level("delta", delta)
    relative = float(tail_error(float(total)))

    def enough(failures: int) -> bool:
        tail = scipy.special.betainc(failures + 1, total - failures, level)  # P(X > failures)
        return bool(tail * (1 + relative) + TAIL_UNDERFLOW <= delta)

    return bisect_left(range(total), True, key=enough)  # N, if none of these: P(X > N) = 0


def alpha_for_set(inputs: int, *, draws: int, delta: float) -> float:
    """The error probability per input at which a claim about the whole set is about least, known before any draw.

    A smaller α widens every input's bounds, a larger one lets more certificates fail. For each number K of failures
    there is a largest α that allows no more; of these the one is taken with the least K / N + z / (4 √n), where z is
    the normal quantile of a limit at one of 255 thresholds: each failure costs up to one input of the N, and limits of
    a probability are of the order of z / √n wide. The rule looks at nothing but these numbers, so that the claim holds
    as for any α fixed beforehand; how good the rule is matters for its size alone.

    Paper: —; docs/guarantee.md.   Errs: low (a smaller α is valid).

    >>> allowed_failures(500, alpha=alpha_for_set(500, draws=10_000, delta=0.001), delta=0.001)
    0
    """
    total = check_integer("inputs", inputs, minimum=1, maximum=2**53)
    check_integer("draws", draws, minimum=1)
    check_level("delta", delta)
    failures = np.arange(min(total, 100), dtype=np.float64)
    # P(Binomial(N, α) > K) = I_α(K + 1, N − K); a little less than the α at which it is δ.
    levels = scipy.special.betaincinv(failures + 1, total - failures, delta) * (1 - 1e-6)
    quantile = -scipy.special.ndtri(levels / (4 * 255))  # a half for each certificate, and of that for each side
    cost = failures / total + quantile / (4 * np.sqrt(draws))
    return float(levels[np.argmin(cost)])


def jointly_certified_calibration_error(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    failures: int,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    uncertified: int = 0,
) -> Solution:
    """The largest expected calibration error when up to `failures` of the certificates do not hold.

    The adversary chooses which: such an input may be right or wrong, at any confidence, like an uncertified one. With
    `failures` from `allowed_failures` the value holds for the whole set with probability at least 1 − delta. Exact if
    bins × failures stays below 23 000 (and there are at most 180 bins), otherwise an upper bound; 0 failures give the
    certified calibration error. In `stats`, `failed` names the inputs that failed in the witness, `failed_correct` says
    whether they are then right, and `attained` is the witness's calibration error.

    Paper: —; docs/guarantee.md.   Errs: high (rounding goes up).

    Args:
        lower, upper, correct, population, n_bins, edges, uncertified: as for `certified_calibration_error`.
        failures: how many certificates may fail.

    >>> lower, upper, correct = [0.9, 0.9, 0.9, 0.9], [1.0, 1.0, 1.0, 1.0], [1, 1, 1, 0]
    >>> values = [jointly_certified_calibration_error(lower, upper, correct, failures=k).value for k in range(3)]
    >>> [round(value, 4) for value in values]
    [0.325, 0.55, 0.775]
    """
    problem = WorstCaseProblem.checked(
        lower, upper, correct, population=population, n_bins=n_bins, edges=edges, uncertified=uncertified
    )
    # Those that fail may be certified or not. As many of each are more than there can be, and never earn less.
    count, problem = problem.failed(failures), problem.after_failures(failures)
    if count:
        return solve_with_failures(problem, count)
    exact = solve_exact(problem)
    nobody = {"failures": 0, "failed": np.empty(0, dtype=np.intp), "failed_correct": False}
    return replace(exact, stats={**exact.stats, **nobody, "attained": exact.value - exact.stats["rounding"]})


def jointly_certified_brier_score(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    failures: int,
    uncertified: int = 0,
) -> Solution:
    """The largest top-label Brier score when up to `failures` of the certificates do not hold.

    An input whose certificate failed may be wrong at confidence 1, a loss of 1; so may an uncertified one. The inputs
    that lose least fail. `stats` names them as for the calibration error.

    Paper: —; docs/guarantee.md.   Errs: high (rounding goes up).

    >>> round(jointly_certified_brier_score([0.5, 0.1], [0.9, 0.5], [1, 0], failures=1).value, 6)
    0.625
    """
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    witness = brier_confidences(problem)
    known = np.empty(0) if problem.farthest is None else problem.farthest
    losses = np.square(np.concatenate([problem.correct - witness, known]))
    count = min(check_integer("failures", failures, minimum=0), len(losses))
    least = np.argpartition(losses, count - 1)[:count] if count else np.empty(0, dtype=np.intp)
    losses[least] = 1.0
    failed = np.sort(least[least < len(witness)])
    witness[failed] = 1.0
    mean = (float(losses.sum()) + problem.uncertified - len(known)) / problem.size
    # NumPy adds pairwise, below 64 roundings of each term; 2^-46 = 128 units covers these and those of a loss.
    # The next float covers losses or a mean that underflowed; 0 is only claimed where nobody can lose anything.
    lossless = not (count or problem.uncertified) and np.array_equal(witness, problem.correct)
    value = 0.0 if lossless else min(float(np.nextafter(mean * (1 + 2**-46), np.inf)), 1.0)
    return Solution(
        value,
        Kind.EXACT,
        witness,
        free=problem.free_input(1.0, correct=False, bin=len(problem.bins) - 1),
        stats={
            "inputs": len(witness),
            "uncertified": problem.uncertified,
            "rounding": value - mean,
            "failures": count,
            "failed": failed,
            "failed_correct": False,
            "attained": mean,
        },
    )
