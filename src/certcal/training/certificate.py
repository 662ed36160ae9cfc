"""The Standard certificate at few draws, without abstaining, and certified scores by it, as torch differentiates them.

Few draws certify nothing. These are estimates of the bounds that many draws would give, to steer training by.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from certcal.errors import TrainingError
from certcal.settings import CertifiedCceSettings, CertifiedSettings
from certcal.training.captured import on_host
from certcal.training.copies import log_mean, log_odds
from certcal.training.step import Step
from certcal.worstcase import WorstCaseProblem, moved_with, value_and_gradient

# The smallest probability whose quantile, and the slope of it, float64 holds.
_LEAST = 1e-250


@dataclass(frozen=True, eq=False)
class FewDrawBounds:
    """Φ⁻¹ of the least and the greatest confidence within R, float64, shape (n,) each."""

    low_quantile: Tensor
    high_quantile: Tensor

    @property
    def lower(self) -> Tensor:
        """The least confidence, shape (n,)."""
        lower: Tensor = torch.special.ndtr(self.low_quantile)
        return lower

    @property
    def upper(self) -> Tensor:
        """The greatest confidence, shape (n,)."""
        upper: Tensor = torch.special.ndtr(self.high_quantile)
        return upper


def standard_bounds(
    confidence: Tensor, rest: Tensor, *, shift: float, draws: int = 1, alpha: float | None = None
) -> FewDrawBounds:
    """Φ(Φ⁻¹(p ∓ slack) ∓ R / σ), as quantiles, for confidences p and their complements, shape (n,).

    The slack is how far Hoeffding's two-sided limits are from the mean of so many draws; 0 if no alpha is given.

    Paper: App. A.1, Eq. (standard bounds), Sec. 4 ("based on very few Monte Carlo samples").

    >>> half = torch.tensor([0.5], dtype=torch.float64)
    >>> bounds = standard_bounds(half, half, shift=1.0)
    >>> round(bounds.lower.item(), 4), round(bounds.upper.item(), 4)
    (0.1587, 0.8413)
    """
    slack = 0.0 if alpha is None else math.sqrt(math.log(2 / alpha) / (2 * draws))
    low = quantile(confidence - slack, rest + slack) - shift
    high = quantile(confidence + slack, rest - slack) + shift
    return FewDrawBounds(low, high)


def quantile(probability: Tensor, rest: Tensor) -> Tensor:
    """Φ⁻¹ of a probability whose complement is `rest`, from the smaller of the two, which has more digits."""
    small = probability < rest
    tail = torch.where(small, probability, rest).double().clamp(min=_LEAST)
    size: Tensor = torch.special.ndtri(tail)
    return torch.where(small, size, -size)


def shift_of(radius: float, step: Step) -> float:
    """R / σ; without noise everything is within reach."""
    if radius == 0.0:
        return 0.0
    return radius / step.sigma if step.sigma > 0 else math.inf


def check_finite(values: Tensor, what: str) -> None:
    """Refuse what is no number: the model has diverged. While a step is captured there are no numbers to look at."""
    if values.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    if not bool(values.isfinite().all()):
        bad = values[~values.isfinite()].flatten()[0].item()
        raise TrainingError(f"{what} is {bad}: training has diverged; try a smaller learning rate.")


Score = Callable[[FewDrawBounds, Tensor, Tensor, Any], Tensor]  # bounds, which are right, which count, settings


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
    how: dict[str, Any] = {"shift": shift_of(radius, step), "draws": settings.draws, "alpha": settings.alpha}
    bounds = standard_bounds(odds.sigmoid(), (-odds).sigmoid(), **how)
    correct = predicted == labels
    counts = torch.ones_like(correct)
    if settings.population == "certified":
        counts = bounds.low_quantile.detach() >= 0  # at least one half: no other class can be more probable within R
    return score(bounds, correct, counts, settings)


def brier(bounds: FewDrawBounds, correct: Tensor, counts: Tensor, settings: CertifiedSettings) -> Tensor:
    """The mean of (1 − l)² where the prediction is right and u² where it is wrong. Paper: Thm. 3.3, Eq. (3)."""
    return _mean(torch.where(correct, 1 - bounds.lower, bounds.upper).square(), counts)


def log(bounds: FewDrawBounds, correct: Tensor, counts: Tensor, settings: CertifiedSettings) -> Tensor:
    """The mean of −log l where the prediction is right and −log(1 − u) where it is wrong."""
    best = torch.where(correct, bounds.low_quantile, -bounds.high_quantile)
    return _mean(-torch.special.log_ndtr(best), counts)


def cce(bounds: FewDrawBounds, correct: Tensor, counts: Tensor, settings: CertifiedCceSettings) -> Tensor:
    """The exact worst case of the calibration error. Paper: Def. 3.4, Eq. (4); docs/exact.md."""
    lower = bounds.lower
    upper = torch.maximum(lower, bounds.upper)

    def solved() -> tuple[Tensor, ...]:
        kept = [side.detach()[counts] for side in (lower, upper, correct)]
        if not len(kept[0]):
            return lower.new_zeros(()), torch.zeros_like(lower), torch.zeros_like(lower)
        value, *slopes = value_and_gradient(WorstCaseProblem.checked(*kept, n_bins=settings.n_bins))
        spread = (torch.zeros_like(lower).masked_scatter(counts, torch.from_numpy(one).to(lower)) for one in slopes)
        return lower.new_tensor(value), *spread

    return moved_with(lower, upper, *on_host(solved))


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    """Over those that count; 0 if none does. It asks the device for no number, so a step with it can be captured."""
    return torch.where(counts, values, 0.0).sum() / counts.sum().clamp(min=1)
