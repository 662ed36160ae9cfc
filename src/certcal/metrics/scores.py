"""Proper scores: Brier and logarithmic, of the top label and of all classes. Paper: Sec. 2.1, "Brier Score"."""

import numpy as np

from certcal.inputs import as_class_probabilities
from certcal.metrics.calibration import as_predictions
from certcal.types import ArrayLike, BoolArray, FloatArray


def top_label_brier_score(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Mean squared difference between confidence and correctness, in [0, 1].

    Paper: Sec. 2.1, TLBS.

    >>> top_label_brier_score([0.5, 1.0], [1, 1])
    0.125
    """
    z, c = as_predictions(confidence, correct)
    return float(np.square(c - z).mean())


def top_label_log_score(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Mean negative log-likelihood of correctness, in nats, in [0, ∞].

    Infinite as soon as one prediction is wrong with confidence 1 or right with confidence 0.

    Paper: —; the logarithmic score of Good (1952) on the event "the prediction is correct".

    >>> round(top_label_log_score([0.5, 0.5], [1, 0]), 6)
    0.693147
    """
    z, c = as_predictions(confidence, correct)
    return float(log_losses(z, c).mean())


def brier_score(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean over inputs of the squared distance between the class probabilities and the one-hot label, in [0, 2].

    The scale is the original one: a sum over classes, not halved and not divided by the number of classes.

    Paper: Sec. 2.1, "Brier Score" (Brier 1950).

    >>> brier_score([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    0.25
    """
    table, classes = as_class_probabilities(probs, labels)
    own = table[np.arange(len(classes)), classes]
    # ‖p − e_y‖² = ‖p‖² − 2 p_y + 1, without building the one-hot matrix.
    return float((np.square(table).sum(axis=1) - 2 * own + 1).mean())


def log_score(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative log-likelihood of the labels, in nats, in [0, ∞].

    Paper: —; Good (1952), the logarithmic score.

    >>> round(log_score([[0.5, 0.5], [0.0, 1.0]], [0, 1]), 6)
    0.346574
    """
    table, classes = as_class_probabilities(probs, labels)
    return float(_negative_log(table[np.arange(len(classes)), classes]).mean())


def log_losses(confidence: FloatArray, correct: BoolArray) -> FloatArray:
    """−log of the probability given to what happened, per input: −log z if correct, −log(1 − z) if not."""
    # log1p keeps the digits of a confidence close to 0 on an incorrect prediction.
    with np.errstate(divide="ignore"):
        return np.where(correct, _negative_log(confidence), -np.log1p(-confidence))


def _negative_log(probability: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(0.0 - np.log(probability))
