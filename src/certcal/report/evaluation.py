"""One row per radius: what a smoothed model's evidence certifies, for the certified inputs or for all of them."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np

from certcal.certificates import (
    ConfidenceIntervals,
    Method,
    average_certified_radius,
    certified_accuracy,
    confidence_bounds_at,
)
from certcal.inputs import check_choice
from certcal.metrics import adaptive_calibration_error, expected_calibration_error, top_label_brier_score
from certcal.smoothing import Evidence
from certcal.types import ArrayLike
from certcal.worstcase import Solution, certified_brier_score, certified_calibration_error


class Population(StrEnum):
    """Which inputs a row is about."""

    CERTIFIED = "certified"  # those whose prediction is certified at R, as in the paper
    ALL = "all"  # every input; those not certified may be right or wrong, at any confidence


@dataclass(frozen=True)
class Row:
    """What is certified at one radius. Errors and scores are those of the row's population; NaN if it is empty."""

    radius: float
    inputs: int  # in the population
    certified: int  # of all inputs, certified at R
    certified_accuracy: float  # share of all inputs that are correct and certified at R
    ece: float  # of the estimated confidences, no attack
    adaptive_ece: float
    brier: float
    certified_ece: float  # the largest within the certificates: exact
    certified_brier: float
    mean_width: float  # of the confidence intervals


@dataclass(frozen=True, eq=False)
class Report:
    """The rows of an evaluation, with the settings they were made with and the worst case behind each."""

    rows: tuple[Row, ...]
    worst: tuple[Solution | None, ...]  # of the certified ECE; None where the population is empty
    bounds: tuple[ConfidenceIntervals, ...]
    average_certified_radius: float
    inputs: int
    alpha: float
    method: Method
    population: Population

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def as_dicts(self) -> list[dict[str, float]]:
        """The rows as plain dictionaries, for JSON or a data frame."""
        return [asdict(row) for row in self.rows]


def evaluate(
    evidence: Evidence,
    *,
    radii: Iterable[float],
    alpha: float,
    method: str = Method.CDF_CP,
    joint: bool = True,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
) -> Report:
    """Certified accuracy, calibration error and Brier score at each radius, beside the clean ones.

    Per input, all its certificates hold together with probability at least 1 - alpha. The certified errors are what
    follows when they all hold.

    Paper: Sec. 5.   Errs: certified accuracy low, certified errors high.

    Args:
        evidence: of a smoothed model.
        radii: at which to certify, in the units of inputs in [0, 1].
        alpha: error probability per input.
        method, joint: as for `confidence_bounds`.
        population: "certified" leaves out inputs that are not certified at R, as the paper does; "all" counts them with
            free correctness and confidence, and at their estimated confidence in the clean columns.
        n_bins, edges: bins of the calibration errors.
    """
    chosen = Population(check_choice("population", population, tuple(Population)))
    bounds = tuple(confidence_bounds_at(evidence, radii=radii, alpha=alpha, method=method, joint=joint))
    pairs = [_row(own, chosen, n_bins, edges) for own in bounds]
    return Report(
        rows=tuple(row for row, _ in pairs),
        worst=tuple(worst for _, worst in pairs),
        bounds=bounds,
        average_certified_radius=average_certified_radius(bounds[0].certified_radius, evidence.correct),
        inputs=len(evidence),
        alpha=alpha,
        method=Method(method),
        population=chosen,
    )


def _row(
    own: ConfidenceIntervals, population: Population, n_bins: int, edges: ArrayLike | None
) -> tuple[Row, Solution | None]:
    kept = own.certified
    free = int((~kept).sum()) if population is Population.ALL else 0
    seen = kept | (population is Population.ALL)
    nan = float("nan")
    row = {
        "radius": own.radius,
        "inputs": int(seen.sum()),
        "certified": int(kept.sum()),
        "certified_accuracy": certified_accuracy(own.certified_radius, own.correct, at=own.radius),
    }
    if not seen.any():
        names = ("ece", "adaptive_ece", "brier", "certified_ece", "certified_brier", "mean_width")
        return Row(**row, **dict.fromkeys(names, nan)), None  # type: ignore[arg-type]
    clean = own.confidence[seen], own.correct[seen]
    certified = own.lower[kept], own.upper[kept], own.correct[kept]
    worst = certified_calibration_error(*certified, n_bins=n_bins, edges=edges, uncertified=free)
    brier = certified_brier_score(*certified).value if kept.any() else 0.0
    return (
        Row(
            **row,  # type: ignore[arg-type]
            ece=expected_calibration_error(*clean, n_bins=n_bins, edges=edges),
            adaptive_ece=adaptive_calibration_error(*clean, n_bins=n_bins),
            brier=top_label_brier_score(*clean),
            certified_ece=worst.value,
            # A free input can be wrong at confidence 1, a loss of 1. The margin in `brier` covers these few roundings,
            # the next float covers them where it is 0.
            certified_brier=min(float(np.nextafter((brier * kept.sum() + free) / seen.sum(), 2.0)), 1.0),
            mean_width=float((own.upper[seen] - own.lower[seen]).mean()),
        ),
        worst,
    )
