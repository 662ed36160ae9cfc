"""Attacks on calibration: of a model, with its labels left as they are, and of a smoothed model within a radius."""

from certcal.attacks.ace import CONFIGURATIONS, Configuration, Omega, ace_attack, galil_ace_attack, run_ace
from certcal.attacks.attack import attack, cross_entropy
from certcal.attacks.balls import Ball, Norm
from certcal.attacks.calibration import CalibrationAttack, attack_calibration
from certcal.attacks.estimate import SmoothedEstimate, estimate_smoothed
from certcal.attacks.judge import SandwichRow
from certcal.attacks.launch import Attacked
from certcal.attacks.sandwich import Sandwich, prepare_sandwich
from certcal.attacks.settings import Direction, End, OnFlip, Plateau, Settings
from certcal.attacks.table import AceRow, AceTable, prepare_ace_table
from certcal.settings import Adversary

__all__ = [
    "CONFIGURATIONS",
    "AceRow",
    "AceTable",
    "Adversary",
    "Attacked",
    "Ball",
    "CalibrationAttack",
    "Configuration",
    "Direction",
    "End",
    "Norm",
    "Omega",
    "OnFlip",
    "Plateau",
    "Sandwich",
    "SandwichRow",
    "Settings",
    "SmoothedEstimate",
    "ace_attack",
    "attack",
    "attack_calibration",
    "cross_entropy",
    "estimate_smoothed",
    "galil_ace_attack",
    "prepare_ace_table",
    "prepare_sandwich",
    "run_ace",
]
