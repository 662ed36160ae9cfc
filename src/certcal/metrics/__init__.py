"""Calibration metrics and proper scores: plain functions on arrays, nothing certified yet."""

from certcal.metrics.binning import BandedBins, BinRule, Bins, choose_bins, sum_by_bin
from certcal.metrics.calibration import (
    adaptive_calibration_error,
    as_predictions,
    equal_count_edges,
    expected_calibration_error,
    top_label,
)
from certcal.metrics.dece import differentiable_calibration_error, soft_bin_lines
from certcal.metrics.ranks import Ranks, count_below, first_of_equals, first_sums
from certcal.metrics.reliability import ReliabilityCurve, bin_sums, curve_from_sums, reliability_curve
from certcal.metrics.scores import brier_score, log_losses, log_score, top_label_brier_score, top_label_log_score
from certcal.metrics.sharpness import Miscalibration, Sharpness, miscalibration, miscalibration_of, sharpness

__all__ = [
    "BandedBins",
    "BinRule",
    "Bins",
    "Miscalibration",
    "Ranks",
    "ReliabilityCurve",
    "Sharpness",
    "adaptive_calibration_error",
    "as_predictions",
    "bin_sums",
    "brier_score",
    "choose_bins",
    "count_below",
    "curve_from_sums",
    "differentiable_calibration_error",
    "equal_count_edges",
    "expected_calibration_error",
    "first_of_equals",
    "first_sums",
    "log_losses",
    "log_score",
    "miscalibration",
    "miscalibration_of",
    "reliability_curve",
    "sharpness",
    "soft_bin_lines",
    "sum_by_bin",
    "top_label",
    "top_label_brier_score",
    "top_label_log_score",
]
