"""Training on the certificate itself: few-draw estimates of certified scores, as functions of the weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from certcal.settings import CertifiedCceSettings, CertifiedSettings
from certcal.training.copies import log_mean, log_odds
from certcal.training.few_draw_bounds import FewDrawBounds, check_finite, shift_of, slack_of, standard_bounds
from certcal.training.step import Step
from certcal.worstcase import differentiable_certified_calibration_error

Score = Callable[[FewDrawBounds, Tensor, Any], Tensor]


def estimate(
    logits: Tensor, labels: Tensor, step: Step, radius: float, settings: CertifiedSettings, score: Score
) -> Tensor:
    """A certified score of the batch at R if its few-draw confidences were the smoothed model's: a scalar.

    The prediction, and with it correctness, is a constant: gradients go through the probability of the predicted class
    and the Standard bounds alone.
    """
    smoothed = log_mean(logits, settings.draws)
    predicted = smoothed.detach().argmax(dim=1)
    odds = log_odds(smoothed, predicted).double()
    check_finite(odds.detach(), "A confidence")
    slack = slack_of(settings.draws, settings.alpha)
    bounds = standard_bounds(odds.sigmoid(), (-odds).sigmoid(), shift=shift_of(radius, step), slack=slack)
    correct = predicted == labels
    if settings.population == "certified":
        keep = bounds.low_quantile.detach() >= 0  # at least one half: no other class can be more probable within R
        bounds, correct = FewDrawBounds(bounds.low_quantile[keep], bounds.high_quantile[keep]), correct[keep]
    return score(bounds, correct, settings) if len(correct) else odds.sum() * 0.0


def brier(bounds: FewDrawBounds, correct: Tensor, settings: CertifiedSettings) -> Tensor:
    """The mean of (1 − l)² where the prediction is right and u² where it is wrong. Paper: Thm. 3.3, Eq. (3)."""
    return torch.where(correct, 1 - bounds.lower, bounds.upper).square().mean()


def log(bounds: FewDrawBounds, correct: Tensor, settings: CertifiedSettings) -> Tensor:
    """The mean of −log l where the prediction is right and −log(1 − u) where it is wrong."""
    best = torch.where(correct, bounds.low_quantile, -bounds.high_quantile)
    score: Tensor = -torch.special.log_ndtr(best).mean()
    return score


def cce(bounds: FewDrawBounds, correct: Tensor, settings: CertifiedCceSettings) -> Tensor:
    """The exact worst case of the calibration error. Paper: Def. 3.4, Eq. (4); docs/exact.md."""
    lower = bounds.lower
    upper = torch.maximum(lower, bounds.upper)
    return differentiable_certified_calibration_error(lower, upper, correct, n_bins=settings.n_bins)
