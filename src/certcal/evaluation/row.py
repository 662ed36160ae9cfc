"""One row: every metric of the certificates at one radius. A new metric is a new field of `Row`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, certified_accuracy
from certcal.errors import several
from certcal.evaluation.further import further_of
from certcal.evaluation.metric import Before, Measured, Metric, Rounding, metric, number
from certcal.metrics import adaptive_calibration_error, expected_calibration_error, top_label_brier_score
from certcal.scalars import check_choice, check_level, exactly, guarded
from certcal.settings import Population, checks
from certcal.shown import ShownRows
from certcal.types import ArrayLike
from certcal.worstcase import (
    Solution,
    approximate_certified_calibration_error,
    certified_brier_score,
    choose_few_bins,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
    population_bound,
)

_UP: dict[str, Any] = {"rounding": Rounding.UP}
_DOWN: dict[str, Any] = {"rounding": Rounding.DOWN}
_PERCENT: dict[str, Any] = {"digits": 2, "percent": True}
_SCORE: dict[str, Any] = {"digits": 4}
_ALL: dict[str, Any] = {"of_all": True}
_MAIN: dict[str, Any] = {"main": True}
_KEPT: dict[str, Any] = {"before": Before.KEPT}
_SHOWN: dict[str, Any] = {"before": Before.SHOWN}
_MAPPED: dict[str, Any] = {"of_all": True, "with_map": True}
_AGAIN = "allowing for the certificates of the set that may fail"


@dataclass(frozen=True, repr=False)
class Row(ShownRows):
    """What is certified at one radius. Errors and scores are those of the row's population; NaN if it is empty.

    The `certified_` values follow if every input's certificate holds; the `joint_` ones allow for the failures that the
    whole set may have, and so hold with probability at least 1 - delta. A metric that was not asked for is NaN.
    """

    radius: float = metric(
        "R",
        "how far each input may move, in the units of the inputs",
        lambda at: at.bounds.radius,
        _ALL | _MAIN,
    )
    inputs: int = metric(
        "inputs", "how many inputs the errors and scores of this row are about", lambda at: at.inputs, _ALL
    )
    certified: int = metric(
        "certified", "inputs whose prediction is proven to stay within R", lambda at: at.certified, _ALL
    )
    certified_share: float = metric(
        "certified share",
        "the same as a share of all inputs",
        lambda at: at.certified / len(at.bounds),
        _ALL | _DOWN | _PERCENT | _MAIN,
    )
    accuracy: float = metric(
        "accuracy",
        "share of all inputs whose prediction is right, without an attack",
        lambda at: float(at.bounds.correct.mean()),
        _ALL | _PERCENT,
    )
    certified_accuracy: float = metric(
        "certified accuracy",
        "share of all inputs, right and certified at R",
        lambda at: certified_accuracy(at.bounds.certified_radius, at.bounds.correct, at=at.bounds.radius),
        _ALL | _DOWN | _PERCENT,
    )
    joint_accuracy: float = metric(
        "guaranteed accuracy",
        f"certified accuracy, {_AGAIN}",
        lambda at: max(int((at.bounds.certified & at.bounds.correct).sum()) - at.failures, 0) / len(at.bounds),
        _ALL | _DOWN | _PERCENT | _MAIN,
    )
    ece: float = metric(
        "clean ECE",
        "expected calibration error of the estimated confidences, without an attack",
        lambda at: expected_calibration_error(*at.clean, edges=at.bins.edges),
        _PERCENT | _MAIN | _KEPT,
    )
    certified_ece: float = metric(
        "certified ECE",
        "the largest ECE of any confidences within the certificates",
        lambda at: at.worst.value,
        _UP | _PERCENT | _SHOWN,
    )
    joint_ece: float = metric(
        "guaranteed ECE",
        f"certified ECE, {_AGAIN}",
        lambda at: jointly_certified_calibration_error(at.problem, failures=at.failures).value,
        _UP | _PERCENT | _MAIN | _KEPT,
    )
    adaptive_ece: float = metric(
        "AdaECE",
        "calibration error with equally filled bins, without an attack",
        lambda at: adaptive_calibration_error(*at.clean, n_bins=len(at.bins)),
        _PERCENT,
    )
    brier: float = metric(
        "clean Brier",
        "Brier score of the predicted class, without an attack",
        lambda at: top_label_brier_score(*at.clean),
        _SCORE | _SHOWN,
    )
    certified_brier: float = metric(
        "certified Brier",
        "the largest Brier score within the certificates",
        lambda at: certified_brier_score(at.problem).value,
        _UP | _SCORE | _SHOWN,
    )
    joint_brier: float = metric(
        "guaranteed Brier",
        f"certified Brier score, {_AGAIN}",
        lambda at: jointly_certified_brier_score(at.problem, failures=at.failures).value,
        _UP | _SCORE | _KEPT,
    )
    mean_width: float = metric(
        "mean width",
        "mean width of the certified confidence intervals",
        lambda at: float(at.widths.mean()),
        _UP | _SCORE,
    )
    population_ece: float = metric(
        "population ECE",
        "bound for what all inputs are a random sample of, R by R",
        lambda at: population_bound(at.bounds, delta=at.delta, edges=at.bins.edges).value,
        _ALL | _UP | _PERCENT,
    )
    ece_all: float = metric(
        "clean ECE, all inputs",
        "ECE of all inputs, certified or not, without an attack",
        lambda at: expected_calibration_error(at.bounds.confidence, at.bounds.correct, edges=at.bins.edges),
        _ALL | _PERCENT,
    )
    brier_all: float = metric(
        "clean Brier, all inputs",
        "Brier score of all inputs, certified or not, without an attack",
        lambda at: top_label_brier_score(at.bounds.confidence, at.bounds.correct),
        _ALL | _SCORE,
    )
    auroc: float = metric(
        "AUROC",
        "how well the confidences of all inputs tell right from wrong; 0.5 if they are constant",
        lambda at: at.sharpness.auroc,
        _MAPPED | _SHOWN | {"digits": 3},
    )
    refinement: float = metric(
        "refinement",
        "Brier score that the best map would leave, all inputs",
        lambda at: at.sharpness.refinement,
        _MAPPED | _SCORE | _KEPT | {"table": False},
    )
    levels: float = metric(
        "levels",
        "distinct confidences, or steps of a map",
        lambda at: float(at.levels),
        _MAPPED | _KEPT,
    )
    approximations: Mapping[str, float] = field(default_factory=dict)  # of the certified ECE, from below
    further: Mapping[str, float] = field(default_factory=dict)  # rankings, one-sided errors, other binnings, by name
    claims: Mapping[str, float] = field(default_factory=dict)  # bounds of the set's ECE by way, if several were made
    before: "Row | None" = None  # without the map that confidences and bounds have gone through
    worst: Solution | None = field(default=None, compare=False, repr=False)  # that the certified ECE is attained at

    @property
    def claim(self) -> str:
        """The way by which the guaranteed ECE is least: "failures", "alpha_for_set" or "pooled"."""
        return min(self.claims, key=self.claims.__getitem__, default="failures")

    def __repr__(self) -> str:
        errors = {"clean": "ece", "certified": "certified_ece", "joint": "joint_ece"}
        values = {name: (getattr(self, own), METRICS[own].rounding) for name, own in errors.items()}
        known = ", ".join(f"{name} ECE {number(*own)}" for name, own in values.items() if not np.isnan(own[0]))
        return f"Row(R = {exactly(self.radius)}, {several(self.inputs)}, {known or 'nothing certified'})"

    def as_dict(self) -> dict[str, float]:
        """The row as a flat dictionary; approximations appear as `approximate_admm`, and so on."""
        values = {name: getattr(self, name) for name in (WITHOUT_ASKING if self.before is None else WITH_MAP)}
        values |= {f"approximate_{name}": value for name, value in self.approximations.items()}
        values |= {f"joint_ece_{name}": value for name, value in self.claims.items()}
        if self.before is not None:
            values |= {f"before_{name}": getattr(self.before, name) for name in WITHOUT_MAP}
        return values

    def as_dicts(self) -> list[dict[str, Any]]:
        """The row alone, for a data frame."""
        return [self.as_dict()]


METRICS: Mapping[str, Metric] = {one.name: one.metadata["metric"] for one in fields(Row) if "metric" in one.metadata}
WITHOUT_ASKING = tuple(name for name, one in METRICS.items() if not one.with_map)
WITH_MAP = tuple(METRICS)
WITHOUT_MAP = tuple(name for name, one in METRICS.items() if one.before is not Before.NO)


@guarded
def row_at(
    bounds: ConfidenceIntervals,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    delta: float = 0.001,
    share: float = 1.0,
    threshold: float = 0.8,
    accept_accuracy: float | None = None,
    metrics: Iterable[str] | None = None,
    approximations: Iterable[str] = (),
    further: Iterable[str] = (),
) -> Row:
    """The certified metrics of bounds at their radius, beside the clean ones.

    Paper: Sec. 5.   Errs: certified accuracy low, certified errors high.

    Args:
        bounds: from `confidence_bounds`.
        population, n_bins, edges, delta, approximations, threshold, accept_accuracy: as for `evaluate`.
        share: of delta, for certificates that may fail.
        metrics: names of those wanted, fields of `Row`; only these are computed. By default all that `evaluate` gives.
        further: names of those wanted of `FURTHER`, `WANTED` and `ANY_BINNING`, in `certcal.evaluation`.

    Raises: InputError if a metric has no such name.
    """
    wanted = WITHOUT_ASKING if metrics is None else tuple(metrics)
    for name in wanted:
        check_choice("metrics", name, tuple(METRICS))
    chosen = Population(check_choice("population", population, tuple(Population)))
    part = checks.share("share", share)
    bins, level = choose_few_bins(n_bins, edges), check_level("delta", delta)
    at = Measured(bounds, chosen, bins, level, part, threshold, accept_accuracy)
    found: dict[str, Any] = {}
    for name in wanted:
        own = METRICS[name]
        found[name] = own.of(at) if own.of_all or at.inputs else np.nan
    found["approximations"] = {
        name: approximate_certified_calibration_error(bounds, method=name, edges=at.bins.edges).value
        for name in (approximations if at.inputs else ())
    }
    found["further"] = further_of(at, further, {name: own for name, own in found.items() if name.endswith("_ece")})
    return Row(**found, worst=at.worst if at.inputs and "certified_ece" in found else None)
