"""Worst cases over a whole set of inputs whose confidences are bounded one by one."""

from typing import TYPE_CHECKING

from certcal.later import later
from certcal.worstcase.any_binning import any_binning_calibration_error, equal_count_calibration_error, without_bins
from certcal.worstcase.approximate import approximate_certified_calibration_error
from certcal.worstcase.closed_form import (
    brier_confidences,
    certified_auroc,
    certified_brier_score,
    certified_log_score,
    certified_risk_coverage_area,
    risk_coverage_area,
)
from certcal.worstcase.exact import certified_calibration_error, optimise, rounding_bound, solve_exact
from certcal.worstcase.gradient import (
    differentiable_certified_calibration_error,
    moved_with,
    slopes,
    value_and_gradient,
)
from certcal.worstcase.guarantee import (
    allowed_failures,
    alpha_for_set,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
)
from certcal.worstcase.one_sided import (
    certified_ks_error,
    certified_largest_gap,
    certified_overconfidence,
    certified_underconfidence,
)
from certcal.worstcase.operating import (
    NoThresholdError,
    certified_operating_point,
    certified_threshold,
    operating_curve,
)
from certcal.worstcase.operating_points import OperatingCurve, OperatingPoint
from certcal.worstcase.pooled import PooledClaim, pooled_calibration_error, pooled_claims
from certcal.worstcase.population import PopulationBound, population_bound
from certcal.worstcase.problem import FreeInput, Kind, Solution, Status, WorstCaseProblem, choose_few_bins
from certcal.worstcase.reach import ReachTables, bin_sums_at, goals, tabulate
from certcal.worstcase.settings import AdmmSettings, DeceSettings

if TYPE_CHECKING:
    from certcal.worstcase.admm import Assignments

__all__ = [
    "AdmmSettings",
    "Assignments",
    "DeceSettings",
    "FreeInput",
    "Kind",
    "NoThresholdError",
    "OperatingCurve",
    "OperatingPoint",
    "PooledClaim",
    "PopulationBound",
    "ReachTables",
    "Solution",
    "Status",
    "WorstCaseProblem",
    "allowed_failures",
    "alpha_for_set",
    "any_binning_calibration_error",
    "approximate_certified_calibration_error",
    "bin_sums_at",
    "brier_confidences",
    "certified_auroc",
    "certified_brier_score",
    "certified_calibration_error",
    "certified_ks_error",
    "certified_largest_gap",
    "certified_log_score",
    "certified_operating_point",
    "certified_overconfidence",
    "certified_risk_coverage_area",
    "certified_threshold",
    "certified_underconfidence",
    "choose_few_bins",
    "differentiable_certified_calibration_error",
    "equal_count_calibration_error",
    "goals",
    "jointly_certified_brier_score",
    "jointly_certified_calibration_error",
    "moved_with",
    "operating_curve",
    "optimise",
    "pooled_calibration_error",
    "pooled_claims",
    "population_bound",
    "risk_coverage_area",
    "rounding_bound",
    "slopes",
    "solve_exact",
    "tabulate",
    "value_and_gradient",
    "without_bins",
]

__getattr__ = later(__name__, admm="Assignments")  # it needs torch
