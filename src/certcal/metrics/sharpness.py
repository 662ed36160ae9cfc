"""Sharpness: what a map leaves of the confidence's power to tell right from wrong. A constant map leaves nothing."""

from dataclasses import dataclass

import numpy as np

from certcal.metrics.binning import choose_bins
from certcal.metrics.calibration import as_predictions
from certcal.metrics.ranks import Ranks
from certcal.metrics.reliability import bin_sums
from certcal.types import ArrayLike


@dataclass(frozen=True)
class Sharpness:
    """How well confidences separate right from wrong predictions, whatever their calibration."""

    auroc: float  # P(a right prediction is more confident than a wrong one), ties half; NaN if all right or all wrong
    refinement: float  # mean over bins of accuracy (1 − accuracy): 0 if bins are pure; accuracy (1 − accuracy) at worst
    levels: int  # distinct confidences


def sharpness(
    confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = 15, edges: ArrayLike | None = None
) -> Sharpness:
    """AUROC, refinement and the number of distinct confidences.

    Refinement is the part of the Brier score that no recalibration of the bins can remove. A monotone map changes the
    AUROC only by making confidences equal: a constant map has AUROC 1/2 and one level.

    Paper: —; DeGroot and Fienberg (1983) for refinement.

    >>> sharpness([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0], n_bins=2)
    Sharpness(auroc=1.0, refinement=0.25, levels=4)
    """
    z, c = as_predictions(confidence, correct)
    bins = choose_bins(n_bins, edges)
    count, _, right = bin_sums(z, c, bins)
    share = right / np.maximum(count, 1)
    refinement = float((count * share * (1 - share)).sum() / len(z))
    return Sharpness(Ranks.of(z, c).auroc, refinement, len(np.unique(z)))
