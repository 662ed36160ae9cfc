"""certcal certifies how calibrated a classifier stays when an adversary perturbs its inputs."""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from certcal.errors import CertcalError, InputError

if TYPE_CHECKING:
    from certcal.attacks import ace_attack
    from certcal.certificates import (
        ConfidenceIntervals,
        certified_accuracy,
        certified_radius,
        confidence_bounds,
    )
    from certcal.evaluation import evaluate
    from certcal.metrics import (
        adaptive_calibration_error,
        expected_calibration_error,
        reliability_curve,
        top_label_brier_score,
    )
    from certcal.recalibration import recalibrate
    from certcal.smoothing import Evidence, collect_evidence, load_evidence, save_evidence
    from certcal.worstcase import (
        Kind,
        Solution,
        allowed_failures,
        certified_brier_score,
        certified_calibration_error,
        jointly_certified_brier_score,
        jointly_certified_calibration_error,
        population_bound,
    )

    __version__: str

__all__ = [
    "CertcalError",
    "ConfidenceIntervals",
    "Evidence",
    "InputError",
    "Kind",
    "Solution",
    "ace_attack",
    "adaptive_calibration_error",
    "allowed_failures",
    "certified_accuracy",
    "certified_brier_score",
    "certified_calibration_error",
    "certified_radius",
    "collect_evidence",
    "confidence_bounds",
    "evaluate",
    "expected_calibration_error",
    "jointly_certified_brier_score",
    "jointly_certified_calibration_error",
    "load_evidence",
    "population_bound",
    "recalibrate",
    "reliability_curve",
    "save_evidence",
    "top_label_brier_score",
]

# Everything is loaded when first used, so that `import certcal` and `certcal --help` are quick. The lowest room is
# asked first: those before the one that has a name are what it imports anyway, or little beside it.
_ROOMS = ("metrics", "smoothing", "certificates", "worstcase", "evaluation", "recalibration", "attacks")
# Names that stood here once.
_MOVED = dict.fromkeys(
    (
        "any_binning_calibration_error",
        "approximate_certified_calibration_error",
        "certified_auroc",
        "certified_operating_point",
    ),
    "worstcase",
) | {"clopper_pearson": "proportions"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        rooms = (import_module(f"{__name__}.{room}") for room in _ROOMS)
        found = getattr(next(room for room in rooms if name in room.__all__), name)
    elif name == "__version__":
        found = import_module(f"{__name__}.files").versions_of(__name__).get(__name__, "not installed")
    elif name in _MOVED:  # an AttributeError would lose its words in `from certcal import …`
        raise ImportError(f"certcal.{name} has moved: it is certcal.{_MOVED[name]}.{name}")
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")  # a room, such as `certcal.data`
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    rooms = (one.name for one in iter_modules(__path__) if one.name[0] != "_")
    return sorted({*(name for name in globals() if name[:2] == "__"), *__all__, *rooms})
