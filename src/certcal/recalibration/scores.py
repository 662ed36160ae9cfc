"""Scores of certificates before or after a map: certified, clean, and how sharp the confidences are."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.metrics import expected_calibration_error, top_label_brier_score
from certcal.recalibration.sharpness import sharpness
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase import certified_brier_score, certified_calibration_error


@dataclass(frozen=True)
class Scores:
    """Scores at one radius: certified and clean ones of the inputs certified there, and clean ones of all inputs."""

    certified_ece: float  # NaN, like the next three, if nobody is certified
    certified_brier: float
    ece: float
    brier: float
    brier_all: float  # clean, all inputs
    auroc: float  # of all inputs, like the next two
    refinement: float
    levels: float


def score_bounds(bounds: ConfidenceIntervals, *, n_bins: int = 15, edges: ArrayLike | None = None) -> Scores:
    """The scores of certificates, before or after a map."""
    kept = bounds.certified
    nan = float("nan")
    own = {"certified_ece": nan, "certified_brier": nan, "ece": nan, "brier": nan}
    if kept.any():
        parts = bounds.lower[kept], bounds.upper[kept], bounds.correct[kept]
        clean = bounds.confidence[kept], bounds.correct[kept]
        own = {
            "certified_ece": certified_calibration_error(*parts, n_bins=n_bins, edges=edges).value,
            "certified_brier": certified_brier_score(*parts).value,
            "ece": expected_calibration_error(*clean, n_bins=n_bins, edges=edges),
            "brier": top_label_brier_score(*clean),
        }
    sharp = sharpness(bounds.confidence, bounds.correct, n_bins=n_bins, edges=edges)
    return Scores(
        **own,
        brier_all=top_label_brier_score(bounds.confidence, bounds.correct),
        auroc=sharp.auroc,
        refinement=sharp.refinement,
        levels=sharp.levels,
    )


def average(scores: list[Scores]) -> Scores:
    """The mean of each score; NaN entries are left out."""
    return _summary(scores, np.mean)


def deviation(scores: list[Scores]) -> Scores:
    """The standard deviation of each score; NaN entries are left out."""
    return _summary(scores, lambda known: np.std(known) if len(known) > 1 else np.nan)


def _summary(scores: list[Scores], function: Callable[[FloatArray], Any]) -> Scores:
    def over(name: str) -> float:
        values = np.array([getattr(own, name) for own in scores], dtype=np.float64)
        known = values[~np.isnan(values)]
        return float(function(known)) if len(known) else float("nan")

    return Scores(**{f.name: over(f.name) for f in fields(Scores)})
