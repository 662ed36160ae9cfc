"""Calibration errors of confidences against correctness: ECE and its equal-count variant. Paper: Eq. (1)."""

import numpy as np

from certcal.blocks import over_blocks
from certcal.errors import InputError
from certcal.inputs import (
    are_binary,
    as_class_probabilities,
    as_correctness,
    as_probabilities,
    as_vector,
    check_same_length,
    to_numpy,
)
from certcal.metrics.binning import BinRule, Bins, choose_bins, sum_by_bin
from certcal.scalars import check_choice
from certcal.types import ArrayLike, BoolArray, FloatArray


def expected_calibration_error(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    rule: str = BinRule.PAPER,
) -> float:
    """The expected calibration error (ECE) in [0, 1].

    The mean over inputs of |accuracy − confidence| per bin, bins weighted by how many inputs they hold. Bins are
    [lo, hi) with the last one closed. `rule="torchmetrics"` or `"guo"` reproduces those codes' bins instead.

    Paper: Sec. 2.1, Eq. (1).

    Args:
        confidence: probability of the predicted class, shape (n,).
        correct: whether the prediction is right, shape (n,), booleans or 0 and 1.
        n_bins: number of equal-width bins.
        edges: bin edges rising from 0 to 1, instead of equal widths.
        rule: "paper", "torchmetrics" (confidence 1 gets its own bin) or "guo" ((lo, hi], confidence 0 dropped).

    >>> round(expected_calibration_error([0.9, 0.9, 0.6, 0.6], [1, 1, 1, 0], n_bins=10), 6)
    0.1
    """
    chosen = BinRule(check_choice("rule", rule, tuple(BinRule)))
    if edges is None:
        bins = Bins.equal_width(
            n_bins, rule=chosen, single="float64" not in str(getattr(confidence, "dtype", "float64"))
        )
    elif chosen is BinRule.PAPER:
        bins = choose_bins(n_bins, edges)
    else:
        raise InputError.expected("rule", "be 'paper' when `edges` are given", repr(rule))
    sums, inputs = _gap_sums(confidence, correct, bins)
    return float(np.abs(sums).sum() / inputs)


def adaptive_calibration_error(confidence: ArrayLike, correct: ArrayLike, *, n_bins: int = 15) -> float:
    """The calibration error over bins of equal count (AdaECE) in [0, 1].

    Equal confidences always share a bin, so the value depends neither on the order of the inputs nor on how ties are
    broken, and it is defined for saturated confidences and for fewer inputs than bins.

    Paper: Sec. 2.1, Eq. (1) with equal-count bins.

    >>> round(adaptive_calibration_error([0.9, 0.9, 0.6, 0.6], [1, 1, 1, 0], n_bins=2), 6)
    0.1
    """
    z, c = as_predictions(confidence, correct)
    sums, inputs = _gap_sums(z, c, Bins.equal_count(z, n_bins))
    return float(np.abs(sums).sum() / inputs)


def equal_count_edges(confidence: ArrayLike, *, n_bins: int = 15) -> FloatArray:
    """The edges `adaptive_calibration_error` uses on these confidences.

    Frozen on clean data, they turn `certified_calibration_error(..., edges=...)` into a certified equal-count error.

    Paper: App. L names the adaptive bins as future work.

    >>> equal_count_edges([0.2, 0.4, 0.4, 1.0], n_bins=3).round(3).tolist()
    [0.0, 0.3, 0.7, 1.0]
    """
    return Bins.equal_count(confidence, n_bins).edges


def as_predictions(confidence: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Matching confidences in [0, 1] and boolean correctness."""
    z, c = as_probabilities("confidence", confidence), as_correctness("correct", correct)
    check_same_length("correct", c, "confidence", z)
    return z, c


def _gap_sums(confidence: ArrayLike, correct: ArrayLike, bins: Bins) -> tuple[FloatArray, int]:
    """Σ (c_n − z_n) over the inputs of each bin, shape (b,), and how many inputs there are.

    Each block is checked while it is in the cache; what is wrong with it, if anything is, `as_predictions` says.
    """
    given, said = as_vector("confidence", confidence), as_vector("correct", correct)

    def gaps(block: slice) -> FloatArray | None:
        z, known = given[block].astype(np.float64, copy=False), said[block]
        if not (z.min() >= 0.0 and z.max() <= 1.0 and are_binary(known)):  # a NaN makes both extremes NaN
            return None
        index, gap = bins.assign_block(z), known.astype(np.float64)
        gap -= z
        if bins.rule is BinRule.GUO:
            index, gap = index[index >= 0], gap[index >= 0]
        return sum_by_bin(index, gap, len(bins))

    sums = np.zeros(len(bins))
    for own in over_blocks(len(given), gaps) if len(given) == len(said) else (None,):
        if own is None:
            as_predictions(confidence, correct)
            raise AssertionError("predictions that are not sound were taken")
        sums += own
    return sums, len(given)


def top_label(probs: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Confidence and correctness of each prediction: what metrics of `(confidence, correct)` take.

    The prediction is the class with the largest probability, the first of them in a tie.

    Paper: Sec. 2.1.

    Args:
        probs: class probabilities, shape (n, k); or those of class 1 of two, shape (n,).
        labels: the class of each input, shape (n,).

    >>> expected_calibration_error(*top_label([[0.75, 0.25], [0.5, 0.5]], [0, 0]))
    0.375
    """
    given = to_numpy("probs", probs)
    if given.ndim == 1:
        second = as_probabilities("probs", given)
        given = np.column_stack([1 - second, second])
    table, classes = as_class_probabilities(given, labels)
    chosen = table.argmax(axis=1)
    return table[np.arange(len(table)), chosen], chosen == classes
