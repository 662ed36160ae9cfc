"""What a map is fitted to: certified bounds at one or several radii, clean confidences, and their weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, check_of_one_model
from certcal.errors import InputError
from certcal.inputs import as_probabilities, check_same_length
from certcal.scalars import check_number, exactly, one_or_more
from certcal.settings import checks
from certcal.types import ArrayLike, BoolArray, FloatArray
from certcal.worstcase import WorstCaseProblem, brier_confidences

_GRID = 2.0**32
# Fewer inputs than this say next to nothing about a whole map.
MIN_INPUTS = 20


class NothingToFitError(InputError):
    """The inputs cannot teach a map: too few, or all right or all wrong."""

    @classmethod
    def because(cls, argument: str, requirement: str, got: object) -> "NothingToFitError":
        """The usual sentence, and what can be done."""
        offer = "No map can be learned from that; on_failure='identity' keeps the confidences as they are."
        return cls(f"{InputError.expected(argument, requirement, got)} {offer}")


@dataclass(frozen=True, eq=False)
class FittingData:
    """Certified bounds per radius with weights that sum to 1 − λ, and clean confidences with weight λ."""

    problems: tuple[WorstCaseProblem, ...]  # one per radius, of the inputs certified there
    weights: FloatArray  # (radii,)
    confidence: FloatArray  # (m,) clean; empty if λ = 0
    correct: BoolArray  # (m,)
    clean_weight: float  # λ
    about: dict[str, Any] = field(default_factory=dict)  # which radii these are, with which weights

    def worst_points(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        """Where each input hurts a proper score most under any map, whether it is right there, and its weight.

        A non-decreasing map keeps the order of confidences, so a correct input is worst at g(l) and an incorrect one at
        g(u): the certified score of g is its plain score on these points (Thm. 3.3).
        """
        x = np.concatenate([*(brier_confidences(problem) for problem in self.problems), self.confidence])
        right = np.concatenate([*(problem.correct for problem in self.problems), self.correct])
        shares = [
            np.full(problem.size, w / problem.size) for problem, w in zip(self.problems, self.weights, strict=True)
        ]
        clean = np.full(len(self.confidence), self.clean_weight / max(len(self.confidence), 1))
        weight = np.concatenate([*shares, clean])
        used = weight > 0
        return x[used], right[used], weight[used]


def data_from_arrays(
    lower: ArrayLike,
    upper: ArrayLike | None,
    correct: ArrayLike | None,
    confidence: ArrayLike | None,
    clean_weight: float,
    *,
    n_bins: int,
    edges: ArrayLike | None,
) -> FittingData:
    """One set of bounds, and the clean confidences of the same inputs."""
    problem = WorstCaseProblem.checked(lower, upper, correct, n_bins=n_bins, edges=edges)
    low, high = (np.rint(x * _GRID) / _GRID for x in (problem.lower, problem.upper))  # as for bounds: `_rounded`
    problem = replace(problem, lower=low, upper=high)
    share = checks.share("clean_weight", clean_weight)
    if confidence is None and share > 0:
        raise InputError.expected("confidence", f"be given for clean_weight = {share:g}", "None")
    clean = np.empty(0) if confidence is None else np.rint(as_probabilities("confidence", confidence) * _GRID) / _GRID
    if confidence is not None:
        check_same_length("confidence", clean, "lower", problem.lower)
    check_teaches("lower", "inputs", "correct", problem.correct)
    right = problem.correct if confidence is not None else np.empty(0, dtype=bool)
    return FittingData((problem,), np.array([1.0 - share]), clean, right, share)


def data_from_bounds(
    bounds: Sequence[ConfidenceIntervals],
    weights: ArrayLike | None,
    clean_weight: float,
    *,
    n_bins: int,
    edges: ArrayLike | None,
) -> FittingData:
    """Certificates of the same inputs at several radii: those certified at each, and all of them clean."""
    several = [_rounded(own) for own in bounds]
    share = checks.share("clean_weight", clean_weight)
    shares = check_weights(weights, len(several))
    # A radius that counts nothing need not teach anything.
    counted = [own for own, weight in zip(several, shares, strict=True) if weight > 0]
    for own in counted:
        where = f"inputs certified at R = {exactly(own.radius)}"
        check_teaches("bounds", where, "correct", own.correct[own.certified])
    problems = tuple(WorstCaseProblem.of(own, n_bins=n_bins, edges=edges) for own in counted)
    shares = shares[shares > 0]
    about = {"radii": [own.radius for own in counted], "weights": shares.tolist()}
    clean = several[0].confidence, several[0].correct
    return FittingData(problems, shares * (1.0 - share), *clean, share, about)


def _rounded(bounds: ConfidenceIntervals) -> ConfidenceIntervals:
    """The bounds on a grid: inputs of equal draws are equal in whatever order a machine adds, and maps of them are."""
    lower, upper, confidence = (np.rint(x * _GRID) / _GRID for x in (bounds.lower, bounds.upper, bounds.confidence))
    return replace(bounds, lower=lower, upper=upper, confidence=confidence, bands=None)  # of a map before this one


def as_intervals(
    bounds: ConfidenceIntervals | Sequence[ConfidenceIntervals],
) -> tuple[ConfidenceIntervals, ...]:
    """Certificates of the same inputs, at one or several radii."""
    several = (bounds,) if isinstance(bounds, ConfidenceIntervals) else one_or_more("bounds", bounds)
    for own in several:
        if not isinstance(own, ConfidenceIntervals):
            raise InputError.expected("bounds", "be from `confidence_bounds` or a list of such", type(own).__name__)
        check_same_length("bounds", own.lower, "bounds[0]", several[0].lower)
        if not np.array_equal(own.correct, several[0].correct):
            raise InputError.expected(
                "bounds", "be of the same inputs at every radius", "others that are right elsewhere"
            )
    check_of_one_model(several)
    return several


def check_teaches(argument: str, what: str, other: str, correct: BoolArray) -> None:
    """Whether a map can be learned from inputs, or a `NothingToFitError`."""
    if len(correct) < MIN_INPUTS:
        raise NothingToFitError.because(argument, f"hold at least {MIN_INPUTS} {what}", len(correct))
    if correct.all() or not correct.any():
        got = f"{len(correct)} {'right' if correct.all() else 'wrong'} ones"
        raise NothingToFitError.because(other, f"hold right and wrong predictions among the {what}", got)


def check_weights(weights: ArrayLike | None, count: int) -> FloatArray:
    """One weight ≥ 0 for each radius, divided by their sum; equal by default."""
    if weights is None:
        return np.full(count, 1.0 / count)
    numbers = [
        check_number("weights", w, "hold numbers ≥ 0", lambda w: w >= 0) for w in one_or_more("weights", weights)
    ]
    if len(numbers) != count:
        raise InputError.expected("weights", f"have one entry per radius ({count})", len(numbers))
    if not 0 < sum(numbers) < np.inf:
        raise InputError.expected("weights", "have a positive, finite sum", sum(numbers))
    return np.array(numbers) / sum(numbers)
