"""A smoothed model as adversaries see it: the mean of its probabilities over a few shared draws of noise."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.balls import Ball
from certcal.attacks.batched import attack_batched
from certcal.attacks.climb_settings import Loss, Predict, Settings
from certcal.blocks import slices
from certcal.models import Noise, Purpose, as_outputs, autocast, device_of, through_grid
from certcal.settings import Norm
from certcal.types import BoolArray, FloatArray, IntArray

# Noisy inputs per forward pass.
COPIES = {"cpu": 512, "cuda": 8192}


@dataclass(frozen=True, eq=False)
class Scene:
    """A smoothed model, the inputs to be attacked and the classes it predicts for them.

    The prediction at an input is fixed: on certified inputs no attack within R changes it. "Confidence" is the smoothed
    probability of that class, estimated from draws that all inputs and all steps share, so that gradients are those of
    one fixed function.
    """

    predict: Predict  # inputs (n, …) to the log of mean probabilities (n, k)
    inputs: Tensor  # (n, …)
    labels: Tensor  # (n,)
    predicted: Tensor  # (n,) class A
    sigma: float
    epsilon: float
    draws: int
    device: torch.device
    settings: Settings
    judge: Callable[[Tensor], FloatArray] | None = None  # confidences from other draws, to choose between points by

    @property
    def correct(self) -> BoolArray:
        """Whether A is the label, shape (n,)."""
        return np.asarray((self.predicted == self.labels).numpy())

    @property
    def ball(self) -> Ball:
        """Where inputs may go."""
        return Ball.around(self.inputs, self.epsilon, Norm(self.settings.norm), boxed=self.settings.box)

    def target(self, signs: IntArray) -> Tensor:
        """Which class's probability to move and which way, as `signed_log_odds` takes it, shape (n, 2)."""
        return torch.stack([self.predicted, torch.from_numpy(signs.astype(np.int64))], dim=1)

    def climb(self, loss: Loss, target: Tensor) -> Tensor:
        """Inputs within epsilon at which the loss is large."""
        settings = replace(self.settings, batch_size=self.per_batch)
        (found,) = attack_batched(
            self.predict, loss, self.inputs, target, epsilons=(self.epsilon,), settings=settings, device=self.device
        )
        return found.inputs

    @property
    def per_batch(self) -> int:
        """How many inputs go through the model together, with all their draws."""
        copies = self.settings.batch_size or COPIES.get(self.device.type, COPIES["cuda"])
        return max(1, copies // self.draws)

    def batches(self) -> Iterator[slice]:
        """The inputs in parts of that many."""
        return slices(len(self.inputs), self.per_batch)

    def seen_confidence(self, inputs: Tensor) -> FloatArray:
        """Confidences on the attack's own draws, float64, shape (n,): what adversaries optimise, and so too extreme."""
        own = self._seen(inputs).gather(1, self.predicted[:, None]).squeeze(1)
        return np.asarray(own.double().exp().clamp(max=1.0).numpy())

    def predictions(self, inputs: Tensor) -> Tensor:
        """The class with the largest probability on the attack's own draws, shape (n,)."""
        return self._seen(inputs).argmax(dim=1)

    def _seen(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([self.predict(inputs[own].to(self.device)).cpu() for own in self.batches()])


def smoothed(model: nn.Module, shape: torch.Size, *, sigma: float, draws: int, seed: int, precision: str) -> Predict:
    """The smoothed model over shared noise, as logits: log of the mean over draws of softmax(model(x + noise)).

    Gradients are backpropagated through all draws. Paper: App. I.3 ("gradients obtained through backpropagation");
    Salman et al. (2019), SmoothAdv, Eq. (6).
    """
    device = device_of(model)
    source = Noise(seed, Purpose.ATTACK, sigma)
    noise = source.copies(torch.zeros(1, *shape, device=device), [0], draws=draws)

    def predict(inputs: Tensor) -> Tensor:
        noisy = (through_grid(inputs, source.step)[:, None] + noise.to(inputs.dtype)).flatten(0, 1)
        with autocast(precision, device):
            logits = as_outputs(model(noisy), len(noisy))
        each = logits.float().log_softmax(dim=1).reshape(len(inputs), draws, -1)
        return each.logsumexp(dim=1) - math.log(draws)

    return predict


def signed_log_odds(logits: Tensor, target: Tensor) -> Tensor:
    """± log z / (1 − z) for the probability z of a class; class and sign are the two columns of `target`, shape (n,).

    It climbs where z does, in the same direction, and its gradient does not vanish as z nears 0 or 1.
    """
    own = target[:, :1]
    others = logits.scatter(1, own, -torch.inf).logsumexp(dim=1)
    return (logits.gather(1, own).squeeze(1) - others) * target[:, 1]
