"""Further metrics of a row: what is accepted, rankings, one-sided errors and other binnings. They stand apart."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from certcal.evaluation.metric import Measured, Metric, Rounding, three
from certcal.metrics import adaptive_calibration_error, equal_count_edges
from certcal.scalars import check_choice
from certcal.types import FloatArray
from certcal.worstcase import (
    NoThresholdError,
    OperatingPoint,
    Solution,
    WorstCaseProblem,
    any_binning_calibration_error,
    certified_auroc,
    certified_ks_error,
    certified_largest_gap,
    certified_operating_point,
    certified_overconfidence,
    certified_risk_coverage_area,
    certified_threshold,
    certified_underconfidence,
    jointly_certified_calibration_error,
    without_bins,
)

_SHARE: dict[str, Any] = {"digits": 1, "percent": True, "error": False}


def _bounds(at: Measured, failures: int | None) -> dict[str, Any]:
    """Without an attack, where `failures` is None, bounds meet at the confidences."""
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
        lambda at: getattr(_least(at), "threshold", np.nan),
        lambda at, failures: getattr(_least(at, failures), "threshold", np.nan),
    ),
    **three(
        "largest_coverage",
        "largest coverage",
        "the largest share that can be accepted with the wanted accuracy",
        lambda at: getattr(_least(at), "coverage", 0.0),  # if nobody can be accepted
        lambda at, failures: getattr(_least(at, failures), "coverage", 0.0),
        **_SHARE,
    ),
}


def thresholds_with(own: float) -> FloatArray:
    """Thresholds from 0 to 1 in steps of 0.01, and one of the user's own."""
    return np.union1d(np.linspace(0.0, 1.0, 101).round(2), [own])


def _ks(problem: WorstCaseProblem, *, failures: int) -> Solution:
    """No gap below a threshold exceeds the error without bins, which knows more of uncertified inputs."""
    own = certified_ks_error(problem, failures=failures)
    return replace(own, value=min(own.value, without_bins(problem, failures)))


_PERCENT: dict[str, Any] = {"digits": 2, "percent": True}
_SIDES: dict[str, tuple[str, Callable[..., Any]]] = {
    "overconfidence": (
        "by how much confidence exceeds accuracy, over the bins where it does",
        certified_overconfidence,
    ),
    "underconfidence": (
        "by how much accuracy exceeds confidence, over the bins where it does",
        certified_underconfidence,
    ),
    "largest_gap": ("the largest weighted gap of one bin", certified_largest_gap),
    "ks": ("the largest gap below a threshold: the Kolmogorov–Smirnov calibration error", _ks),
}


def _side(name: str, text: str, certified: Callable[..., Any]) -> dict[str, Metric]:
    return three(
        name,
        name.replace("_", " ").replace("ks", "KS error"),
        text,
        lambda at: float(getattr(at.miscalibration, name)),
        lambda at, failures: certified(at.problem, failures=failures).value,
        **_PERCENT,
    )


FURTHER: Mapping[str, Metric] = {
    **ACCEPTED,
    **three(
        "auroc",
        "AUROC",
        "how well confidence tells right from wrong",
        lambda at: at.ranks.auroc,
        lambda at, failures: certified_auroc(at.problem, failures=failures),
        digits=3,
        error=False,
    ),
    **three(
        "aurc",
        "AURC",
        "the mean error rate of the most confident inputs",
        lambda at: at.ranks.risk_coverage_area,
        lambda at, failures: certified_risk_coverage_area(at.problem, failures=failures),
        digits=4,
    ),
    **{key: own for name, (text, certified) in _SIDES.items() for key, own in _side(name, text, certified).items()},
}


def _every(at: Measured, *bounds: Any, **more: Any) -> float:
    return any_binning_calibration_error(*bounds, n_bins=len(at.bins), **more).value


def _fixed(at: Measured, failures: int) -> float:
    """In the equally filled bins of the clean confidences."""
    edges = equal_count_edges(at.clean[0], n_bins=len(at.bins))
    own: dict[str, Any] = {"population": at.population, "edges": edges}
    return jointly_certified_calibration_error(at.bounds, failures=failures, **own).value


# These take seconds where there are thousands of inputs.
ANY_BINNING: Mapping[str, Metric] = {
    **three(
        "any_binning",
        "any binning",
        "the largest calibration error over every partition into as many bins",
        lambda at: _every(at, at.clean[0], *at.clean),
        lambda at, failures: _every(at, at.bounds, population=at.population, failures=failures),
        **_PERCENT,
    ),
    **three(
        "equal_count",
        "equal counts, moving bins",
        "bound of the calibration error in equally filled bins that are cut anew after the attack",
        lambda at: adaptive_calibration_error(*at.clean, n_bins=len(at.bins)),
        lambda at, failures: at.equal_count(failures).value,
        **_PERCENT,
    ),
    "certified_equal_count_gap": Metric(
        "certified equal counts, at most too high by",
        "how far the bound above is over what an attack that was found attains",
        of=lambda at: at.equal_count(0).stats["gap"],
        rounding=Rounding.UP,
        table=False,
        **_PERCENT,
    ),
    **three(
        "equal_count_fixed",
        "equal counts, fixed bins",
        "the calibration error in the equally filled bins of the clean confidences, which stay under attack",
        lambda at: adaptive_calibration_error(*at.clean, n_bins=len(at.bins)),
        _fixed,
        **_PERCENT,
    ),
    **three(
        "without_bins",
        "without bins",
        "the mean distance of confidences from being right or wrong, which no number of bins exceeds",
        lambda at: float(np.abs(at.clean[1] - at.clean[0]).mean()),
        lambda at, failures: without_bins(at.problem, failures),
        **_PERCENT,
    ),
}


# What no value may exceed, so that none contradicts another: a one-sided error the calibration error of the same bins,
# the KS error and that of fixed bins the error of every binning.
_UNDER = {
    f"{part}_{name}": f"{part}_{above}"
    for part in ("certified", "joint")
    for above, names in {
        "ece": ("overconfidence", "underconfidence", "largest_gap"),
        "any_binning": ("ks", "equal_count_fixed"),
    }.items()
    for name in names
}


def further_of(at: Measured, names: Iterable[str], above: Mapping[str, float]) -> dict[str, float]:
    """The further metrics of these names, beside those of the row; NaN where the row's population is empty."""
    known, found = {**FURTHER, **WANTED, **ANY_BINNING}, dict[str, float]()
    for name in names:
        own = known[check_choice("further", name, tuple(known))]
        same = name.replace("joint_", "certified_") if at.failures == 0 else ""  # no certificate may fail
        found[name] = found[same] if same in found else float(own.of(at)) if at.inputs else np.nan
    limits = {**above, **found}
    return {name: min(value, limits.get(_UNDER.get(name, ""), value)) for name, value in found.items()}
