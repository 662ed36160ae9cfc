"""Attacks on calibration: of a model, with its labels left as they are, and of a smoothed model within a radius."""

from typing import TYPE_CHECKING

from certcal.attacks.records import AceRow, AceTable, Attacked, CalibrationAttack, Moved, Sandwich, SandwichRow, Terms
from certcal.attacks.stored import ACE, CURVES, MOVED, SANDWICH, from_plain, to_plain
from certcal.later import later
from certcal.settings import Adversary, Norm

if TYPE_CHECKING:
    from certcal.attacks.ace import CONFIGURATIONS, ace_attack, galil_ace_attack, run_ace_attacks
    from certcal.attacks.adversaries import BACKWARD, attack_calibration, attack_passes
    from certcal.attacks.balls import BALLS, Ball
    from certcal.attacks.batched import attack, cross_entropy
    from certcal.attacks.climb_settings import End, Plateau, Settings
    from certcal.attacks.pgd import loss_and_gradient, walk
    from certcal.attacks.plain import attack_bounds
    from certcal.attacks.sandwich import attack_certificates, inputs_of
    from certcal.attacks.smoothed import SmoothedEstimate, estimate_smoothed, signed_log_odds

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
    "End",
    "Moved",
    "Norm",
    "Plateau",
    "Sandwich",
    "SandwichRow",
    "Settings",
    "SmoothedEstimate",
    "Terms",
    "ace_attack",
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

# The records need no torch. What else there is comes when first used.
__getattr__ = later(
    __name__,
    ace="CONFIGURATIONS ace_attack galil_ace_attack run_ace_attacks",
    adversaries="BACKWARD attack_calibration attack_passes",
    balls="BALLS Ball",
    batched="attack cross_entropy",
    climb_settings="End Plateau Settings",
    pgd="loss_and_gradient walk",
    plain="attack_bounds",
    sandwich="attack_certificates inputs_of",
    smoothed="SmoothedEstimate estimate_smoothed signed_log_odds",
)
