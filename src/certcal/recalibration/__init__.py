"""Certified recalibration: maps of the confidence that make the certified score small, fitted in seconds."""

from typing import TYPE_CHECKING

from certcal.later import later
from certcal.recalibration.data import MIN_INPUTS, NothingToFitError
from certcal.recalibration.fitting import recalibrate, recalibrate_bounds
from certcal.recalibration.heldout import HeldOut, HeldOutRow, TradeOff, held_out_scores, split_inputs, trade_off
from certcal.recalibration.maps import BetaMap, IdentityMap, IsotonicMap, RecalibrationMap, TemperatureMap
from certcal.recalibration.scores import Scores, score_bounds
from certcal.recalibration.storage import load_map, save_map
from certcal.settings import MapKind, Objective, OnFailure

if TYPE_CHECKING:
    from certcal.recalibration.deployment import RecalibratedModel, RecalibratedPredictions

__all__ = [
    "MIN_INPUTS",
    "BetaMap",
    "HeldOut",
    "HeldOutRow",
    "IdentityMap",
    "IsotonicMap",
    "MapKind",
    "NothingToFitError",
    "Objective",
    "OnFailure",
    "RecalibratedModel",
    "RecalibratedPredictions",
    "RecalibrationMap",
    "Scores",
    "TemperatureMap",
    "TradeOff",
    "held_out_scores",
    "load_map",
    "recalibrate",
    "recalibrate_bounds",
    "save_map",
    "score_bounds",
    "split_inputs",
    "trade_off",
]

__getattr__ = later(__name__, deployment="RecalibratedModel RecalibratedPredictions")  # they need torch
