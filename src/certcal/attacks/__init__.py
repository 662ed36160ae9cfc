"""Attacks on calibration: of a model, with its labels left as they are, and of a smoothed model within a radius."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from certcal.attacks.records import AceRow, AceTable, Attacked, CalibrationAttack, Moved, Sandwich, SandwichRow, Terms
from certcal.attacks.stored import ACE, CURVES, MOVED, SANDWICH, from_plain, to_plain
from certcal.settings import Adversary, Norm

if TYPE_CHECKING:
    from certcal.attacks.ace import CONFIGURATIONS, Configuration, Omega, ace_attack, galil_ace_attack
    from certcal.attacks.ace_table import run_ace_attacks
    from certcal.attacks.adversaries import BACKWARD, attack_passes
    from certcal.attacks.balls import BALLS, Ball
    from certcal.attacks.calibration import attack_calibration
    from certcal.attacks.climb_settings import Direction, End, OnFlip, Plateau, Settings
    from certcal.attacks.fresh_draws import SmoothedEstimate, estimate_smoothed
    from certcal.attacks.input_attack import attack, cross_entropy
    from certcal.attacks.pgd import ascend, loss_and_gradient, walk
    from certcal.attacks.plain import attack_bounds
    from certcal.attacks.sandwich import attack_certificates, inputs_of
    from certcal.attacks.smoothed import signed_log_odds

__all__ = [
    "ACE",
    "BACKWARD",
    "BALLS",
    "CONFIGURATIONS",
    "CURVES",
    "MOVED",
    "SANDWICH",
    "AceRow",
    "AceTable",
    "Adversary",
    "Attacked",
    "Ball",
    "CalibrationAttack",
    "Configuration",
    "Direction",
    "End",
    "Moved",
    "Norm",
    "Omega",
    "OnFlip",
    "Plateau",
    "Sandwich",
    "SandwichRow",
    "Settings",
    "SmoothedEstimate",
    "Terms",
    "ace_attack",
    "ascend",
    "attack",
    "attack_bounds",
    "attack_calibration",
    "attack_certificates",
    "attack_passes",
    "cross_entropy",
    "estimate_smoothed",
    "from_plain",
    "galil_ace_attack",
    "inputs_of",
    "loss_and_gradient",
    "run_ace_attacks",
    "signed_log_odds",
    "to_plain",
    "walk",
]


# The records need no torch. What else there is comes from these modules when first used.
_LATER = (
    "ace", "ace_table", "adversaries", "balls", "batched", "calibration", "climb_settings", "fresh_draws",
    "input_attack", "pgd", "plain", "sandwich", "smoothed",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        modules = (import_module(f"{__name__}.{module}") for module in _LATER)
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
