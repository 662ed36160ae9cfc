"""One door to the approximations of the certified calibration error that the paper uses and compares."""

from typing import Any

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.inputs import as_probabilities, check_each, check_same_length, make_settings
from certcal.scalars import check_choice
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase.problem import Solution, WorstCaseProblem
from certcal.worstcase.settings import AdmmSettings, DeceSettings


def approximate_certified_calibration_error(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    method: str = "admm",
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    **settings: Any,
) -> Solution:
    """A feasible point of large calibration error: the paper's approximate certified calibration error (ACCE).

    It is at most the true worst case, so it certifies nothing; `certified_calibration_error` is exact and faster. It
    is here to reproduce and compare.

    Paper: Sec. 3.4 and 5.2, Alg. 1, App. G.3.   Errs: low.

    Args:
        lower, upper, correct, n_bins, edges: as for `certified_calibration_error`, of certified inputs only.
        confidence: the clean confidences within the bounds, where the solvers may start; where they are not given,
            those of the bounds, or the middle between arrays.
        method: "admm" (the paper's, best of its 16-run grid), "dece" (gradient ascent on the dECE) or "brier" (the
            confidences that maximise the Brier score).
        settings: fields of `certcal.worstcase.AdmmSettings` or `DeceSettings`, such as `steps`, `device` or, for ADMM,
            `diagnostics=True`; docs/admm.md lists them and what `stats` then holds.

    >>> bounds = [0.1, 0.5], [0.6, 0.9], [1, 0]
    >>> round(approximate_certified_calibration_error(*bounds, method="brier", n_bins=3).value, 6)
    0.9
    """
    if isinstance(lower, ConfidenceIntervals) and confidence is None:
        confidence = lower.confidence[lower.certified]
    problem = WorstCaseProblem.checked(lower, upper, correct, n_bins=n_bins, edges=edges)
    check_choice("method", method, ("admm", "dece", "brier"))
    clean = _clean_confidence(problem, confidence)
    # torch is imported here, not with certcal: the exact way does not need it.
    from certcal.worstcase.solve import solve_admm, solve_brier, solve_dece

    if method == "admm":
        return solve_admm(problem, clean, make_settings(AdmmSettings, settings))
    if method == "dece":
        return solve_dece(problem, clean, make_settings(DeceSettings, settings))
    if settings:
        raise InputError.expected("settings", "be empty for method 'brier'", ", ".join(settings))
    return solve_brier(problem)


def _clean_confidence(problem: WorstCaseProblem, confidence: ArrayLike | None) -> FloatArray:
    if confidence is None:
        return (problem.lower + problem.upper) / 2
    clean = as_probabilities("confidence", confidence)
    check_same_length("confidence", clean, "lower", problem.lower)
    check_each(
        "confidence",
        (clean >= problem.lower) & (clean <= problem.upper),
        "lie within its bounds",
        lambda at: f"{clean[at]} outside [{problem.lower[at]}, {problem.upper[at]}] at index {at}",
    )
    return clean
