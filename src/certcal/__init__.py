"""certcal certifies how calibrated a classifier stays when an adversary perturbs its inputs."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from certcal.certificates import (
    ConfidenceIntervals,
    average_certified_radius,
    certified_accuracy,
    certified_radius,
    confidence_bounds,
)
from certcal.errors import CertcalError, InputError
from certcal.evaluation import evaluate
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
from certcal.recalibration import recalibrate
from certcal.smoothing import Evidence
from certcal.worstcase import (
    Kind,
    Solution,
    Status,
    allowed_failures,
    approximate_certified_calibration_error,
    certified_brier_score,
    certified_calibration_error,
    certified_log_score,
    differentiable_certified_calibration_error,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
    population_bound,
)

if TYPE_CHECKING:
    from certcal.attacks import ace_attack
    from certcal.smoothing import collect_evidence, load_evidence, save_evidence

__version__ = version("certcal")

__all__ = [
    "CertcalError",
    "ConfidenceIntervals",
    "Evidence",
    "InputError",
    "Kind",
    "Solution",
    "Status",
    "ace_attack",
    "adaptive_calibration_error",
    "allowed_failures",
    "approximate_certified_calibration_error",
    "average_certified_radius",
    "brier_score",
    "certified_accuracy",
    "certified_brier_score",
    "certified_calibration_error",
    "certified_log_score",
    "certified_radius",
    "clopper_pearson",
    "collect_evidence",
    "confidence_bounds",
    "differentiable_calibration_error",
    "differentiable_certified_calibration_error",
    "equal_count_edges",
    "evaluate",
    "expected_calibration_error",
    "jointly_certified_brier_score",
    "jointly_certified_calibration_error",
    "load_evidence",
    "log_score",
    "population_bound",
    "recalibrate",
    "reliability_curve",
    "save_evidence",
    "top_label_brier_score",
    "top_label_log_score",
]


# Names that need torch or PyArrow, and rooms, are loaded when first used, so that `import certcal` is light.
_LATER = {
    "ace_attack": "attacks",
    "collect_evidence": "smoothing",
    "load_evidence": "smoothing",
    "save_evidence": "smoothing",
}
_ROOMS = (
    "attacks",
    "certificates",
    "cluster",
    "data",
    "evaluation",
    "integrations",
    "metrics",
    "models",
    "recalibration",
    "report",
    "runs",
    "smoothing",
    "studies",
    "training",
    "worstcase",
)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
