"""Which way confidences err, and what they are worth to tell right from wrong, which a constant map destroys."""

from dataclasses import dataclass

import numpy as np

from certcal.metrics.binning import choose_bins
from certcal.metrics.calibration import as_predictions
from certcal.metrics.ranks import Ranks
from certcal.metrics.reliability import bin_sums
from certcal.types import ArrayLike, FloatArray


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


@dataclass(frozen=True)
class Miscalibration:
    """Which way confidences err. The first two add up to the ECE."""

    overconfidence: float  # Σ over bins of confidence − accuracy where it is positive, weighted by inputs
    underconfidence: float  # Σ over bins of accuracy − confidence where it is positive
    largest_gap: float  # the largest term of the ECE: share of inputs in a bin × |accuracy − confidence|
    ks: float  # largest |Σ over z ≤ t of (c − z)| / N over t


def miscalibration(
    confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = 15, edges: ArrayLike | None = None
) -> Miscalibration:
    """Over- and under-confidence, the largest weighted bin gap, and the KS calibration error, each in [0, 1].

    Paper: —; Gupta et al. (2021) for the KS error.

    >>> found = miscalibration([0.9, 0.9, 0.2, 0.2], [1, 0, 1, 0], n_bins=2)
    >>> [round(value, 6) for value in (found.overconfidence, found.underconfidence, found.largest_gap, found.ks)]
    [0.2, 0.15, 0.2, 0.15]
    """
    z, c = as_predictions(confidence, correct)
    return miscalibration_of(bin_sums(z, c, choose_bins(n_bins, edges)), Ranks.of(z, c))


def miscalibration_of(sums: tuple[FloatArray, FloatArray, FloatArray], ranks: Ranks) -> Miscalibration:
    """The same from the `bin_sums` and the ranks of the predictions."""
    _, confidences, right = sums
    gap = (right - confidences) / len(ranks)
    return Miscalibration(
        overconfidence=float(np.maximum(-gap, 0.0).sum()),
        underconfidence=float(np.maximum(gap, 0.0).sum()),
        largest_gap=float(np.abs(gap).max()),
        ks=ranks.ks,
    )
