"""Further metrics of a row: rankings, one-sided errors and other binnings. In results they stand apart."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from certcal.evaluation.accepted import ACCEPTED, WANTED
from certcal.evaluation.metric import Measured, Metric, Rounding, three
from certcal.scalars import check_choice
from certcal.worstcase import (
    any_binning_calibration_error,
    certified_auroc,
    certified_ks_error,
    certified_largest_gap,
    certified_overconfidence,
    certified_risk_coverage_area,
    certified_underconfidence,
    equal_count_calibration_error,
)

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
    "ks": ("the largest gap below a threshold: the Kolmogorov–Smirnov calibration error", certified_ks_error),
}


def _side(name: str, text: str, certified: Callable[..., Any]) -> dict[str, Metric]:
    return three(
        name,
        name.replace("_", " ").replace("ks", "KS error"),
        text,
        lambda at: float(getattr(at.miscalibration, name)),
        lambda at, failures: certified(at.problem, failures=failures).value,
        digits=2,
        percent=True,
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
# These take seconds where there are thousands of inputs.
ANY_BINNING: Mapping[str, Metric] = {
    name: Metric(label, text, of, rounding=rounding, digits=2, percent=True, table=False)
    for name, label, text, of, rounding in (
        (
            "certified_any_binning",
            "certified, any binning",
            "the largest calibration error over every binning",
            lambda at: any_binning_calibration_error(at.bounds, population=at.population, n_bins=len(at.bins)).value,
            Rounding.UP,
        ),
        (
            "joint_any_binning",
            "joint, any binning",
            "the same, allowing for the certificates of the set that may fail",
            lambda at: (
                any_binning_calibration_error(
                    at.bounds, population=at.population, n_bins=len(at.bins), failures=at.failures
                ).value
            ),
            Rounding.UP,
        ),
        (
            "certified_equal_count",
            "certified, equal counts",
            "bound of the calibration error with equal-count bins that move",
            lambda at: equal_count_calibration_error(at.bounds, population=at.population, n_bins=len(at.bins)).value,
            Rounding.UP,
        ),
        (
            "certified_without_bins",
            "certified, without bins",
            "the mean distance of the far ends from being right or wrong: what no number of bins exceeds",
            lambda at: at.without_bins,
            Rounding.UP,
        ),
    )
}


# No one-sided error exceeds the calibration error of the same bins, nor the KS error that of every binning.
_UNDER = {
    **dict.fromkeys(("joint_overconfidence", "joint_underconfidence", "joint_largest_gap"), "joint_ece"),
    "joint_ks": "joint_any_binning",
}


def further_of(at: Measured, names: Iterable[str], joint_ece: float = 1.0) -> dict[str, float]:
    """The further metrics of these names, beside the row's joint ECE; NaN where the row's population is empty."""
    known, found = {**FURTHER, **WANTED, **ANY_BINNING}, dict[str, float]()
    for name in names:
        own = known[check_choice("further", name, tuple(known))]
        same = name.replace("joint_", "certified_") if at.failures == 0 else ""  # no certificate may fail
        found[name] = found[same] if same in found else float(own.of(at)) if at.inputs else np.nan
    above = {**found, "joint_ece": joint_ece}
    return {name: min(value, above.get(_UNDER.get(name, ""), value)) for name, value in found.items()}
