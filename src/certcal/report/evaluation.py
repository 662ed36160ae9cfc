"""One row per radius: what a smoothed model's evidence certifies, for the certified inputs or for all of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from certcal.certificates import (
    ConfidenceIntervals,
    Method,
    average_certified_radius,
    certified_accuracy,
    confidence_bounds_at,
)
from certcal.errors import InputError
from certcal.inputs import one_or_more
from certcal.metrics import adaptive_calibration_error, expected_calibration_error, top_label_brier_score
from certcal.metrics.binning import Bins
from certcal.recalibration import IdentityMap, RecalibrationMap, score_bounds
from certcal.report.options import Population, check_evaluation
from certcal.smoothing import Evidence
from certcal.types import ArrayLike
from certcal.worstcase import (
    Solution,
    allowed_failures,
    approximate_certified_calibration_error,
    certified_brier_score,
    certified_calibration_error,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
    population_bound,
)


@dataclass(frozen=True)
class Row:
    """What is certified at one radius. Errors and scores are those of the row's population; NaN if it is empty.

    The `certified_` values follow if every input's certificate holds; the `joint_` ones allow for the failures that the
    whole set may have, and so hold with probability at least 1 - delta.
    """

    radius: float
    inputs: int  # in the population
    certified: int  # of all inputs, certified at R
    certified_accuracy: float  # share of all inputs that are correct and certified at R
    joint_accuracy: float
    ece: float = np.nan  # of the estimated confidences, no attack
    certified_ece: float = np.nan  # the largest within the certificates: exact
    joint_ece: float = np.nan
    adaptive_ece: float = np.nan
    brier: float = np.nan
    certified_brier: float = np.nan
    joint_brier: float = np.nan
    mean_width: float = np.nan  # of the confidence intervals
    population_ece: float = np.nan  # upper bound for the population that all inputs are a sample of: `population_bound`
    approximations: Mapping[str, float] = field(default_factory=dict)  # of the certified ECE, from below
    recalibrated: Mapping[str, float] = field(default_factory=dict)  # scores before the map, sharpness before and after

    def as_dict(self) -> dict[str, float]:
        """The row as a flat dictionary; approximations appear as `approximate_admm` and so on."""
        values = asdict(self)
        named = {f"approximate_{name}": value for name, value in values.pop("approximations").items()}
        recalibrated: dict[str, float] = values.pop("recalibrated")
        return values | named | recalibrated


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The rows of an evaluation, with the settings they were made with and the worst case behind each."""

    rows: tuple[Row, ...]
    worst: tuple[Solution | None, ...]  # of the certified ECE; None where the population is empty
    bounds: tuple[ConfidenceIntervals, ...]
    evidence: Evidence
    average_certified_radius: float
    alpha: float
    delta: float
    failures: int  # certificates that may fail, among all inputs, with probability at least 1 - delta
    method: Method
    split_alpha: bool
    population: Population
    bins: Bins
    recalibration: RecalibrationMap | None = None  # the map that confidences and bounds have gone through

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        radii = f"R = {self.rows[0].radius:g} … {self.rows[-1].radius:g}" if self.rows else "no radii"
        return f"Report({self.inputs} inputs, {len(self.rows)} radii, {radii}, method {self.method})"

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def inputs(self) -> int:
        """How many inputs the evidence is of."""
        return len(self.evidence)

    def as_dicts(self) -> list[dict[str, float]]:
        """The rows as plain dictionaries, for JSON or a data frame."""
        return [row.as_dict() for row in self.rows]


def evaluate(
    evidence: Evidence,
    *,
    radii: Iterable[float] | float,
    alpha: float,
    delta: float = 0.001,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    approximations: Iterable[str] = (),
    recalibration: RecalibrationMap | None = None,
) -> Report:
    """Certified accuracy, calibration error and Brier score at each radius, beside the clean ones.

    Per input, all its certificates hold together with probability at least 1 - alpha; the certified errors are what
    follows when they hold for every input. The joint ones are made for the set as a whole: with probability at least
    1 - delta over all noise draws, every joint value of every row holds. `population_ece` speaks of inputs not seen: at
    each radius by itself it holds with probability at least 1 - delta over inputs and draws, under the assumptions of
    `population_bound`.

    Paper: Sec. 5.   Errs: certified accuracy low, certified errors high.

    Args:
        evidence: of a smoothed model.
        radii: at which to certify, in the units of inputs in [0, 1].
        alpha: error probability per input.
        delta: error probability of the joint claim.
        method, split_alpha: as for `confidence_bounds`.
        population: "certified" leaves out inputs that are not certified at R, as the paper does; "all" counts them with
            free correctness and confidence, and at their estimated confidence in the clean columns.
        n_bins, edges: bins of the calibration errors.
        approximations: which of "admm", "dece" and "brier" to run beside the exact value; slow, and they certify
            nothing.
        recalibration: a map of the confidences, fitted on other inputs than these: see `recalibrate`.
    """
    distances = one_or_more("radii", radii)
    chosen, asked, bins = check_evaluation(
        radii=distances,
        alpha=alpha,
        delta=delta,
        method=method,
        split_alpha=split_alpha,
        population=population,
        n_bins=n_bins,
        edges=edges,
        approximations=approximations,
    )
    if not isinstance(recalibration, RecalibrationMap | None):
        raise InputError.expected("recalibration", "be a map from `recalibrate`", type(recalibration).__name__)
    mapped = (recalibration or IdentityMap()).intervals
    found = confidence_bounds_at(evidence, radii=distances, alpha=alpha, method=method, split_alpha=split_alpha)
    bounds = tuple(mapped(own) for own in found)
    failures = allowed_failures(bounds[0], delta=delta)
    pairs = [_row(own, chosen, bins, failures, delta, asked) for own in bounds]
    if recalibration is not None:
        before = [_row(own, chosen, bins, failures, delta, [])[0] for own in found]
        pairs = [
            (replace(row, recalibrated=_before_and_after(was, old, new, bins)), worst)
            for (row, worst), was, old, new in zip(pairs, before, found, bounds, strict=True)
        ]
    return Report(
        rows=tuple(row for row, _ in pairs),
        worst=tuple(worst for _, worst in pairs),
        bounds=bounds,
        evidence=evidence,
        average_certified_radius=average_certified_radius(bounds[0].certified_radius, evidence.correct),
        alpha=float(alpha),
        delta=float(delta),
        failures=failures,
        method=Method(method),
        split_alpha=split_alpha,
        population=chosen,
        bins=bins,
        recalibration=recalibration,
    )


def _row(
    own: ConfidenceIntervals,
    population: Population,
    bins: Bins,
    failures: int,
    delta: float,
    approximations: list[str],
) -> tuple[Row, Solution | None]:
    level = own.level
    kept = own.certified
    free = int((~kept).sum()) if population is Population.ALL else 0
    seen = kept | (population is Population.ALL)
    right = int((kept & own.correct).sum())
    values: dict[str, Any] = {
        "radius": own.radius,
        "inputs": int(seen.sum()),
        "certified": int(kept.sum()),
        "certified_accuracy": certified_accuracy(own.certified_radius, own.correct, at=own.radius),
        "joint_accuracy": max(right - failures, 0) / len(own),
        "population_ece": population_bound(
            own.lower[kept],
            own.upper[kept],
            own.correct[kept],
            alpha=level,
            delta=delta,
            edges=bins.edges,
            uncertified=int((~kept).sum()),
        ).value
        if level < 1
        else 1.0,
    }
    if not seen.any():
        return Row(**values), None
    clean = own.confidence[seen], own.correct[seen]
    certified = own.lower[kept], own.upper[kept], own.correct[kept]
    worst = certified_calibration_error(*certified, edges=bins.edges, uncertified=free)
    joint = jointly_certified_calibration_error(*certified, edges=bins.edges, uncertified=free, failures=failures)
    return (
        Row(
            **values,
            ece=expected_calibration_error(*clean, edges=bins.edges),
            certified_ece=worst.value,
            joint_ece=joint.value,
            adaptive_ece=adaptive_calibration_error(*clean, n_bins=len(bins)),
            brier=top_label_brier_score(*clean),
            certified_brier=_with_free(certified_brier_score(*certified).value, kept, free) if kept.any() else 1.0,
            joint_brier=jointly_certified_brier_score(*certified, failures=failures, uncertified=free).value,
            mean_width=float((own.upper[seen] - own.lower[seen]).mean()),
            approximations={
                name: approximate_certified_calibration_error(
                    *certified, confidence=own.confidence[kept], method=name, edges=bins.edges
                ).value
                for name in approximations
            },
        ),
        worst,
    )


def _before_and_after(was: Row, old: ConfidenceIntervals, new: ConfidenceIntervals, bins: Bins) -> dict[str, float]:
    """The row's values without the map, and on all inputs the sharpness without and with it."""
    before, after = (score_bounds(own, edges=bins.edges) for own in (old, new))
    names = ("ece", "certified_ece", "joint_ece", "brier", "certified_brier", "joint_brier")
    sharp = ("auroc", "refinement", "levels")
    return (
        {f"before_{name}": float(getattr(was, name)) for name in names}
        | {f"before_{name}": float(getattr(before, name)) for name in sharp}
        | {name: float(getattr(after, name)) for name in sharp}
    )


def _with_free(score: float, kept: Any, free: int) -> float:
    """The worst Brier score of certified and free inputs together: a free input can be wrong at confidence 1.

    The margin in `score` covers these few roundings, the next float covers them where it is 0.
    """
    count = int(kept.sum())
    return min(float(np.nextafter((score * count + free) / (count + free), 2.0)), 1.0)
