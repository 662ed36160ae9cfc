"""Metrics of a row that accepts predictions from a threshold, or asks which threshold gives an accuracy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from certcal.evaluation.metric import Measured, Metric, three
from certcal.types import FloatArray
from certcal.worstcase import NoThresholdError, OperatingPoint, certified_operating_point, certified_threshold

_SHARE: dict[str, Any] = {"digits": 1, "percent": True, "error": False}


# Without an attack, where `failures` is None, bounds meet at the confidences.
def _bounds(at: Measured, failures: int | None) -> dict[str, Any]:
    if failures is not None:
        return {"lower": at.problem, "failures": failures}
    confidence, correct = at.clean
    return {"lower": confidence, "upper": confidence, "correct": correct}


def _point(at: Measured, failures: int | None = None) -> OperatingPoint:
    return certified_operating_point(**_bounds(at, failures), threshold=at.threshold)


def _least(at: Measured, failures: int | None = None) -> OperatingPoint | None:
    try:
        return certified_threshold(**_bounds(at, failures), accuracy=at.accept_accuracy)
    except NoThresholdError:
        return None


def _threshold(point: OperatingPoint | None) -> float:
    return np.nan if point is None else point.threshold


def _coverage(point: OperatingPoint | None) -> float:
    return 0.0 if point is None else point.coverage  # nobody can be accepted


# At the threshold of the report.
ACCEPTED: Mapping[str, Metric] = {
    **three(
        "coverage",
        "coverage",
        "share of the inputs that are accepted from the threshold",
        lambda at: _point(at).coverage,
        lambda at, failures: _point(at, failures).coverage,
        **_SHARE,
    ),
    **three(
        "selective_accuracy",
        "accuracy of accepted",
        "share of right ones among those accepted from the threshold",
        lambda at: _point(at).accuracy,
        lambda at, failures: _point(at, failures).accuracy,
        **_SHARE,
    ),
}
# For the accuracy that is wanted of those accepted. Coverage falls with the threshold: the least has the largest.
WANTED: Mapping[str, Metric] = {
    **three(
        "least_threshold",
        "least threshold",
        "the smallest threshold from which those accepted have the wanted accuracy",
        lambda at: _threshold(_least(at)),
        lambda at, failures: _threshold(_least(at, failures)),
    ),
    **three(
        "largest_coverage",
        "largest coverage",
        "the largest share that can be accepted with the wanted accuracy",
        lambda at: _coverage(_least(at)),
        lambda at, failures: _coverage(_least(at, failures)),
        **_SHARE,
    ),
}


def thresholds_with(own: float) -> FloatArray:
    """Thresholds from 0 to 1 in steps of 0.01, and one of the user's own."""
    return np.union1d(np.linspace(0.0, 1.0, 101).round(2), [own])
