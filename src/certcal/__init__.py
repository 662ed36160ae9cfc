"""certcal certifies how calibrated a classifier stays when an adversary perturbs its inputs."""

from importlib.metadata import version

from certcal.errors import CertcalError, InputError
from certcal.metrics import (
    adaptive_calibration_error,
    brier_score,
    differentiable_calibration_error,
    equal_count_edges,
    expected_calibration_error,
    log_score,
    reliability_curve,
    top_label_brier_score,
    top_label_log_score,
)
from certcal.proportions import clopper_pearson
from certcal.worstcase import (
    Kind,
    Solution,
    Status,
    approximate_certified_calibration_error,
    certified_brier_score,
    certified_calibration_error,
    certified_log_score,
)

__version__ = version("certcal")

__all__ = [
    "CertcalError",
    "InputError",
    "Kind",
    "Solution",
    "Status",
    "adaptive_calibration_error",
    "approximate_certified_calibration_error",
    "brier_score",
    "certified_brier_score",
    "certified_calibration_error",
    "certified_log_score",
    "clopper_pearson",
    "differentiable_calibration_error",
    "equal_count_edges",
    "expected_calibration_error",
    "log_score",
    "reliability_curve",
    "top_label_brier_score",
    "top_label_log_score",
]
