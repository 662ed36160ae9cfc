"""Calibration metrics and proper scores: plain functions on arrays, nothing certified yet."""

from certcal.metrics.binning import BinRule, Bins, choose_bins
from certcal.metrics.calibration import (
    adaptive_calibration_error,
    equal_count_edges,
    expected_calibration_error,
)
from certcal.metrics.dece import differentiable_calibration_error
from certcal.metrics.reliability import ReliabilityCurve, reliability_curve
from certcal.metrics.scores import brier_score, log_score, top_label_brier_score, top_label_log_score
from certcal.metrics.sharpness import Sharpness, sharpness

__all__ = [
    "BinRule",
    "Bins",
    "ReliabilityCurve",
    "Sharpness",
    "adaptive_calibration_error",
    "brier_score",
    "choose_bins",
    "differentiable_calibration_error",
    "equal_count_edges",
    "expected_calibration_error",
    "log_score",
    "reliability_curve",
    "sharpness",
    "top_label_brier_score",
    "top_label_log_score",
]
