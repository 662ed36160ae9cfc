"""How far a confidence may move: the Standard certificate at few draws, without abstaining, as torch differentiates it.

Few draws certify nothing. These are estimates of the bounds that many draws would give, to steer training by.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from certcal.errors import TrainingError
from certcal.training.step import Step

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


def standard_bounds(confidence: Tensor, rest: Tensor, *, shift: float, slack: float = 0.0) -> FewDrawBounds:
    """Φ(Φ⁻¹(p ∓ slack) ∓ R / σ), as quantiles, for confidences p and their complements, shape (n,).

    Paper: App. A.1, Eq. (standard bounds), Sec. 4 ("based on very few Monte Carlo samples").

    >>> half = torch.tensor([0.5], dtype=torch.float64)
    >>> bounds = standard_bounds(half, half, shift=1.0)
    >>> round(bounds.lower.item(), 4), round(bounds.upper.item(), 4)
    (0.1587, 0.8413)
    """
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


def slack_of(draws: int, alpha: float | None) -> float:
    """How far Hoeffding's two-sided limits are from the mean of so many draws; 0 if no limits are wanted."""
    return 0.0 if alpha is None else math.sqrt(math.log(2 / alpha) / (2 * draws))


def check_finite(values: Tensor, what: str) -> None:
    """Refuse what is no number: the model has diverged. While a step is captured there are no numbers to look at."""
    if values.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    if not bool(values.isfinite().all()):
        bad = values[~values.isfinite()].flatten()[0].item()
        raise TrainingError(f"{what} is {bad}: training has diverged; try a smaller learning rate.")
