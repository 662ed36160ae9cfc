"""The reliability curve: per bin, how confident, how often right, and how sure we are of the latter."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from certcal.metrics.binning import Bins, choose_bins, sum_by_bin
from certcal.metrics.calibration import as_predictions
from certcal.proportions import clopper_pearson
from certcal.scalars import check_level
from certcal.types import ArrayLike, BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """One entry per bin, shape (b,); an empty bin has count 0, NaN means and limits 0 and 1."""

    edges: FloatArray  # (b + 1,)
    count: FloatArray
    confidence: FloatArray  # mean confidence in the bin
    accuracy: FloatArray  # share of correct predictions in the bin
    alpha: float

    @property
    def lower(self) -> FloatArray:
        """Lower Clopper–Pearson limits of the bins' true accuracies, each bin on its own."""
        return self._limits[0]

    @property
    def upper(self) -> FloatArray:
        """Upper ones."""
        return self._limits[1]

    @cached_property
    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """Found when they are asked for: a page shows none."""
        right = np.rint(np.nan_to_num(self.accuracy) * self.count)  # whole numbers, as they were before the division
        return clopper_pearson(right, self.count, alpha=self.alpha)

    @property
    def error(self) -> float:
        """The expected calibration error of these bins."""
        gap = np.abs(self.accuracy - self.confidence)
        return float(np.nansum(self.count * gap) / self.count.sum())


def reliability_curve(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    alpha: float = 0.05,
) -> ReliabilityCurve:
    """Confidence, accuracy, count and a (1 − alpha) interval for the accuracy of every bin.

    The Clopper–Pearson interval holds for each bin by itself; divide alpha by the number of bins for a joint claim.

    Paper: App. B.2, reliability diagrams.

    >>> curve = reliability_curve([0.2, 0.7, 0.8], [0, 1, 1], n_bins=2)
    >>> curve.count.tolist(), curve.accuracy.tolist()
    ([1.0, 2.0], [0.0, 1.0])
    """
    check_level("alpha", alpha)
    z, c = as_predictions(confidence, correct)
    return curve_from_sums(*bin_sums(z, c, bins := choose_bins(n_bins, edges)), bins=bins, alpha=alpha)


def bin_sums(confidence: FloatArray, correct: BoolArray, bins: Bins) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Per bin: how many inputs, the sum of their confidences, how many are correct. They add up over batches."""
    index = bins.assign(confidence)
    return (
        np.bincount(index, minlength=len(bins)).astype(np.float64),
        sum_by_bin(index, confidence, len(bins)),
        sum_by_bin(index, correct, len(bins)),
    )


def curve_from_sums(
    count: FloatArray, confidence_sum: FloatArray, correct_sum: FloatArray, *, bins: Bins, alpha: float
) -> ReliabilityCurve:
    """The reliability curve that given per-bin sums describe."""
    with np.errstate(invalid="ignore"):
        confidence, accuracy = confidence_sum / count, correct_sum / count
    return ReliabilityCurve(bins.edges, count, confidence, accuracy, alpha)
