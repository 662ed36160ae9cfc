"""C1: how far an input may move before the smoothed prediction could change, and what it is there. Paper: App. A.1."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from certcal.certificates.checks import check_evidence
from certcal.certificates.looks import PLANNED_SHARE, upper_limits_by_look
from certcal.certificates.shift import QUANTILE_ERROR
from certcal.errors import InputError
from certcal.inputs import as_correctness, as_counts, as_fractions, as_vector, check_same_length
from certcal.means import anytime_p_value
from certcal.proportions import clopper_pearson_upper, tail_error
from certcal.scalars import check_choice, check_level
from certcal.settings import RunnerUp, checks
from certcal.smoothing import Counts, Evidence
from certcal.types import ArrayLike, BoolArray, FloatArray

# Stands where a certification log abstained and so did not say which class it was about. Equal to no label.
NO_CLASS = -1


class Decision(StrEnum):
    """What became of an input."""

    CERTIFIED = "certified"  # the class is proven to stay, within a radius
    PREDICTED = "predicted"  # the class is proven to lead, at the input itself
    ABSTAINED = "abstained"  # the draws do not decide


@dataclass(frozen=True, eq=False)
class Radii:
    """Certified radii of the n inputs; NaN where the certificate abstains.

    NaN compares False with everything, so an abstained input never counts as certified at any R, not even at 0.
    """

    index: Counts  # (n,) position of the input in the data set
    label: Counts  # (n,) true class
    predicted: Counts  # (n,) class A chosen by the selection draws; `NO_CLASS` where a log did not keep it
    radius: FloatArray  # (n,) in the units of inputs in [0, 1]
    alpha: float | None  # error probability per input; None if whoever gave the radii did not say
    runner_up: RunnerUp = RunnerUp.COMPLEMENT  # how the second class was bounded

    def __len__(self) -> int:
        return len(self.radius)

    @property
    def abstained(self) -> BoolArray:
        """Where the draws do not decide, shape (n,)."""
        return np.isnan(self.radius)

    @property
    def correct(self) -> BoolArray:
        """Where the class is the label, shape (n,)."""
        return np.asarray(self.predicted == self.label)

    @property
    def decision(self) -> NDArray[np.str_]:
        """`Decision.CERTIFIED` or `Decision.ABSTAINED` per input, shape (n,)."""
        return np.where(self.abstained, Decision.ABSTAINED, Decision.CERTIFIED)


def certified_radius(votes: ArrayLike | int, trials: ArrayLike | int, *, sigma: float, alpha: float) -> FloatArray:
    """Certified ℓ2 radii σ Φ⁻¹(p_A) from the selected class's votes; NaN where p_A ≤ 1/2, that is, abstains.

    p_A is the one-sided Clopper–Pearson lower limit and p_B = 1 − p_A. For each input, with probability at least
    1 - alpha over the draws, the smoothed classifier predicts the selected class at every point no further away than
    the radius, or the radius is NaN. The votes must not be those by which the class was selected.

    Paper: App. A.1, Eq. (R_n); Cohen et al. (2019), Theorem 1 and CERTIFY.
    Errs: low, strictly: the theorem's open ball of the true radius contains the closed ball of this one.
    Raises: InputError if votes exceed trials, sigma is not above 0 or alpha is outside (0, 1).

    >>> certified_radius([990, 1000, 500], 1000, sigma=0.5, alpha=0.001).round(4).tolist()
    [0.989, 1.2316, nan]
    """
    scale, level = checks.positive("sigma", sigma), check_level("alpha", alpha)
    return _radius(_failure_limit(votes, trials, level), None, scale)


def certified_radius_with_runner_up(votes: ArrayLike, selected: ArrayLike, *, sigma: float, alpha: float) -> FloatArray:
    """Certified ℓ2 radii σ/2 (Φ⁻¹(p_A) − Φ⁻¹(p_B)) from the votes of all classes, shape (n, k); NaN where it abstains.

    p_A is the selected class's lower limit at alpha / 2. Which class comes second is seen in the same draws, so p_B is
    the largest of the k − 1 upper limits at alpha / (2 (k − 1)) each, or 1 − p_A if that is less. The claim is that of
    `certified_radius`; larger when the votes against A are spread over several classes, a little smaller when not.

    Paper: App. A.1, Eq. (R_n), both probabilities.   Errs: low, strictly.
    Raises: InputError if the shapes do not fit, sigma is not above 0 or alpha is outside (0, 1).

    >>> votes = [[600, 200, 200], [600, 400, 0]]
    >>> certified_radius_with_runner_up(votes, [0, 0], sigma=1.0, alpha=0.001).round(3).tolist()
    [0.402, 0.12]
    """
    scale, level = checks.positive("sigma", sigma), check_level("alpha", alpha)
    table = as_counts("votes", votes)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError.expected("votes", "have shape (inputs, classes ≥ 2)", f"shape {table.shape}")
    classes = as_vector("selected", selected, allow_empty=True).astype(np.intp)
    if len(classes) != len(table) or not ((classes >= 0) & (classes < table.shape[1])).all():
        raise InputError.expected("selected", f"name one of {table.shape[1]} classes per row of `votes`", "others")
    trials = table.sum(axis=1)
    own = table[np.arange(len(table)), classes]
    limit = clopper_pearson_upper(rival_votes(table, classes), trials, alpha=level / 2 / (table.shape[1] - 1))
    return _radius(_failure_limit(own, trials, level / 2), limit, scale)


def certify_radii(evidence: Evidence, *, alpha: float, runner_up: str = RunnerUp.COMPLEMENT) -> Radii:
    """Certified radii of all inputs of the evidence: Cohen's CERTIFY on stored votes.

    Per input, with probability at least 1 - alpha: it abstains, or the smoothed classifier predicts `predicted` at
    every point within `radius`, at all looks at the draws together. Radii allow for the rounding of inputs to the grid
    of the noise; where nothing is left of one it is 0, and the claim is of the input itself.

    Paper: App. A.1, C1.   Errs: low.
    """
    check_evidence(evidence)
    level = check_level("alpha", alpha)
    rule = check_choice("runner_up", runner_up, tuple(RunnerUp))
    lost = evidence.draws - evidence.votes[np.arange(len(evidence)), evidence.selected]
    if rule == RunnerUp.BOUNDED:
        rival = rival_votes(evidence.votes, evidence.selected)
        failure = upper_limits_by_look(evidence, lost, level / 2)
        limit = upper_limits_by_look(evidence, rival, level / 2 / (evidence.header.classes - 1))
        radius = _radius(failure, limit, evidence.header.sigma)
    else:
        radius = _radius(upper_limits_by_look(evidence, lost, level), None, evidence.header.sigma)
    if reach := evidence.header.reach:
        radius = np.maximum(np.nextafter(radius - reach, -np.inf), 0.0)
    return Radii(evidence.index, evidence.label, evidence.selected, radius, alpha, RunnerUp(rule))


def certified_accuracy(radius: ArrayLike, correct: ArrayLike, *, at: float) -> float:
    """The fraction of inputs whose prediction is correct and certified to stay at distance `at`, in [0, 1].

    Abstained inputs, whose radius is NaN, count against it.

    Paper: Sec. 3, certified accuracy; Cohen et al. (2019), Sec. 4.   Errs: low, as the radii do.
    Raises: InputError if a radius is negative or `at` is not a number ≥ 0.

    >>> certified_accuracy([0.5, 0.2, float("nan"), 0.9], [1, 1, 1, 0], at=0.25)
    0.25
    """
    distance = checks.not_negative("at", at)
    radii, right = _checked_radii(radius, correct)
    return float(np.mean((radii >= distance) & right))


def average_certified_radius(radius: ArrayLike, correct: ArrayLike) -> float:
    """The mean certified radius, where an abstained or incorrect input counts as 0.

    Paper: App. K, ACR; Zhai et al. (2020), MACER.   Errs: low.
    Raises: InputError if a radius is negative.

    >>> round(average_certified_radius([0.5, 0.25, float("nan"), 0.9], [1, 1, 1, 0]), 6)
    0.1875
    """
    radii, right = _checked_radii(radius, correct)
    counted = np.where(right & ~np.isnan(radii), radii, 0.0)
    # NumPy adds pairwise, so fewer than 64 roundings of 2^-53 touch any term.
    return float(counted.mean() * (1 - 2.0**-46))


def _failure_limit(votes: ArrayLike | int, trials: ArrayLike | int, level: float) -> FloatArray:
    """The upper limit of 1 − p_A. Close to 0 it keeps digits that p_A itself, close to 1, would lose."""
    own, n = as_fractions("votes", votes, trials)
    return clopper_pearson_upper(n - own, n, alpha=level)


def rival_votes(votes: NDArray[Any], selected: NDArray[Any]) -> NDArray[Any]:
    """The most votes of any class but the selected one. Limits rise with the count, so its limit is the largest."""
    others = np.arange(votes.shape[1]) != selected[:, None]
    return np.asarray(np.where(others, votes, 0).max(axis=1))


def _radius(failure: FloatArray, rival: FloatArray | None, sigma: float) -> FloatArray:
    quantile = -scipy.special.ndtri(failure)  # Φ⁻¹(p_A)
    rival_quantile = -quantile if rival is None else scipy.special.ndtri(np.minimum(rival, failure))
    margin = 4 * QUANTILE_ERROR * (np.abs(quantile) + np.abs(rival_quantile))
    with np.errstate(invalid="ignore"):  # a limit of 1 puts −∞ on both sides
        radius = sigma * (0.5 * ((quantile - rival_quantile) - margin))
    return np.where(radius > 0, radius, np.nan)


def _checked_radii(radius: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, BoolArray]:
    radii = as_vector("radius", radius).astype(np.float64)
    right = as_correctness("correct", correct)
    check_same_length("correct", right, "radius", radii)
    if (radii < 0).any():
        raise InputError.expected("radius", "be ≥ 0, or NaN where it abstains", radii[radii < 0][0])
    return radii, right


_LEAST = 1e-240  # SciPy's incomplete beta function gives 0 below it, too early


@dataclass(frozen=True, eq=False)
class Predictions:
    """The classes that the smoothed classifier is shown to predict at the n inputs themselves."""

    predicted: Counts  # (n,) class with the most votes, which means nothing where abstained
    p_value: FloatArray  # (n,) two-sided, of the votes of the two leading classes against a tie
    abstained: BoolArray  # (n,) where p_value exceeds the part of alpha that its look may spend
    alpha: float

    @property
    def decision(self) -> NDArray[np.str_]:
        """`Decision.PREDICTED` or `Decision.ABSTAINED` per input, shape (n,)."""
        return np.where(self.abstained, Decision.ABSTAINED, Decision.PREDICTED)


def predict_classes(evidence: Evidence, *, alpha: float) -> Predictions:
    """The smoothed prediction at each input, or an abstention: Cohen's PREDICT on stored votes.

    A two-sided binomial test of the two leading classes against a tie. Per input, with probability at least 1 - alpha:
    it abstains, or `predicted` is the class that the smoothed classifier predicts, at all looks together.

    Paper: App. A.1; Cohen et al. (2019), PREDICT; Hung and Fithian (2019) for choosing the two classes
    by the same votes.   Errs: towards abstention.
    """
    check_evidence(evidence)
    check_level("alpha", alpha)
    votes = evidence.votes
    predicted = votes.argmax(axis=1).astype(np.int64)
    pair = np.partition(votes, -2, axis=1)[:, -2:].astype(np.float64)
    second, first = pair[:, 0], pair[:, 1]
    at = evidence.header.planned(evidence.draws)
    # Which class the true one is mistaken for is not known in advance: a union over all others, at looks not planned.
    any_time = np.minimum(anytime_p_value(first, first + second) * (evidence.header.classes - 1), 1.0)
    p_value = np.where(at, _p_value(first, second), any_time)
    level = np.where(at, PLANNED_SHARE * alpha / evidence.header.looks, (1 - PLANNED_SHARE) * alpha)
    return Predictions(predicted, p_value, p_value > level, alpha)


def _p_value(first: FloatArray, second: FloatArray) -> FloatArray:
    """Of the two-sided binomial test of two counts against a tie."""
    # P(X ≥ first) for X ~ Binomial(first + second, 1/2) is an incomplete beta function; at 1/2 both tails are alike.
    tail = scipy.special.betainc(np.maximum(first, 1.0), second + 1.0, 0.5) * (1 + tail_error(first + second))
    tail = np.maximum(tail, _LEAST)
    return np.where(first > second, np.minimum(2 * tail, 1.0), 1.0)
