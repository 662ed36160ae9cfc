"""Certified recalibration: maps of the confidence that make the certified score small, fitted in seconds."""

from typing import TYPE_CHECKING

from certcal.later import later
from certcal.recalibration.caution import caution_about, hangs_on_one, unless_one_decides
from certcal.recalibration.choice import CANDIDATES, PARTS, Candidate, Choice, choose_map
from certcal.recalibration.data import MIN_INPUTS, NothingToFitError
from certcal.recalibration.fitting import recalibrate, recalibrate_bounds
from certcal.recalibration.heldout import (
    HeldOut,
    HeldOutRow,
    TradeOff,
    held_out_maps,
    held_out_scores,
    split_inputs,
    trade_off,
    trade_off_of,
)
from certcal.recalibration.inside import fit_inside, fit_score_map
from certcal.recalibration.maps import AnyMap, BetaMap, IdentityMap, IsotonicMap, RecalibrationMap, TemperatureMap
from certcal.recalibration.nested import fit_nested
from certcal.recalibration.score_maps import FullMap, ScoreMap, TemperedMap
from certcal.recalibration.scores import Scores, score_bounds
from certcal.recalibration.steps import StepsMap
from certcal.recalibration.storage import load_map, save_map

if TYPE_CHECKING:
    from certcal.recalibration.deployment import RecalibratedModel, RecalibratedPredictions

__all__ = [
    "CANDIDATES",
    "MIN_INPUTS",
    "PARTS",
    "AnyMap",
    "BetaMap",
    "Candidate",
    "Choice",
    "FullMap",
    "HeldOut",
    "HeldOutRow",
    "IdentityMap",
    "IsotonicMap",
    "NothingToFitError",
    "RecalibratedModel",
    "RecalibratedPredictions",
    "RecalibrationMap",
    "ScoreMap",
    "Scores",
    "StepsMap",
    "TemperatureMap",
    "TemperedMap",
    "TradeOff",
    "caution_about",
    "choose_map",
    "fit_inside",
    "fit_nested",
    "fit_score_map",
    "hangs_on_one",
    "held_out_maps",
    "held_out_scores",
    "load_map",
    "recalibrate",
    "recalibrate_bounds",
    "save_map",
    "score_bounds",
    "split_inputs",
    "trade_off",
    "trade_off_of",
    "unless_one_decides",
]

__getattr__ = later(__name__, deployment="RecalibratedModel RecalibratedPredictions")  # they need torch
