"""Which class the smoothed classifier predicts at the input itself. Paper: App. A.1."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from certcal.certificates.checks import check_evidence
from certcal.certificates.looks import PLANNED_SHARE
from certcal.certificates.radius import Decision
from certcal.means import anytime_p_value
from certcal.proportions import tail_error
from certcal.scalars import check_level
from certcal.smoothing import Counts, Evidence
from certcal.types import BoolArray, FloatArray

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
