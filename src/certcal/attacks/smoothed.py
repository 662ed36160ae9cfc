"""A smoothed model on a few shared draws, as adversaries see it, and on fresh ones, which no attack has seen."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot

from certcal.attacks.balls import Ball
from certcal.attacks.batched import attack_batched, check_numbers
from certcal.attacks.climb_settings import Loss, Predict, Settings
from certcal.blocks import slices
from certcal.means import empirical_bernstein
from certcal.models import (
    Noise,
    Purpose,
    as_inputs,
    as_labels,
    as_outputs,
    autocast,
    count_classes,
    device_of,
    held_still,
    through_grid,
)
from certcal.scalars import check_choice, check_integer
from certcal.settings import Norm, Precision, checks
from certcal.types import ArrayLike, BoolArray, FloatArray, IntArray

# Noisy inputs per forward pass.
COPIES = {"cpu": 512, "cuda": 8192}
CHUNK = 250  # draws of one input that are generated together


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


@dataclass(frozen=True, eq=False)
class SmoothedEstimate:
    """Sums over fresh draws of one class's probability per input, and the votes of all classes."""

    classes: NDArray[np.int64]  # (n,) the class whose probability was summed
    draws: int
    score_sum: FloatArray  # (n,)
    score_square_sum: FloatArray  # (n,)
    votes: NDArray[np.int64]  # (n, k)

    @property
    def confidence(self) -> FloatArray:
        """The estimated smoothed probability of the class, shape (n,)."""
        return np.minimum(self.score_sum / self.draws, 1.0)

    def limits(self, *, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Per input, limits between which the smoothed probability lies with probability at least 1 - alpha.

        Paper: —; Maurer and Pontil (2009).   Errs: outward.
        """
        return empirical_bernstein(self.score_sum, self.score_square_sum, self.draws, alpha=alpha)


def estimate_smoothed(
    model: nn.Module,
    x: ArrayLike,
    classes: ArrayLike,
    *,
    sigma: float,
    draws: int,
    seed: int = 0,
    indices: ArrayLike | None = None,
    precision: str = "float32",
    batch_size: int | None = None,
) -> SmoothedEstimate:
    """The smoothed probability of a class at each input, estimated from draws independent of evidence and attacks.

    The noise of an input depends on the seed and on its index alone, so an input before and after an attack is judged
    under the same noise.

    Paper: App. A.1.

    Args:
        model, sigma, precision: as for `attack_calibration`.
        x: inputs, shape (n, …).
        classes: the class whose probability counts, shape (n,).
        draws: per input.
        seed: of the noise.
        indices: by which the noise of each input is chosen, shape (n,); its positions by default.
        batch_size: noisy copies per forward pass.
    """
    check_integer("draws", draws, minimum=1)
    checks.seed("seed", seed)
    checks.positive("sigma", sigma)
    check_choice("precision", precision, tuple(Precision))
    check_integer("batch_size", 1 if batch_size is None else batch_size, minimum=1)
    with held_still(model):
        inputs = as_inputs(x, model, boxed=False)
        chosen = as_labels(classes, len(inputs), name="classes", classes=count_classes(model, inputs))
        numbers = torch.arange(len(inputs)) if indices is None else as_labels(indices, len(inputs), name="indices")
        estimate = Estimator(model, Noise(seed, Purpose.JUDGING, sigma), draws, precision, batch_size)
        return estimate(inputs, chosen, numbers)


@dataclass(frozen=True)
class Estimator:
    """How to estimate: the model and the noise."""

    model: nn.Module
    noise: Noise
    draws: int
    precision: str
    batch_size: int | None

    @torch.inference_mode()
    def __call__(self, inputs: Tensor, classes: Tensor, indices: Tensor) -> SmoothedEstimate:
        """Estimates at the inputs, shape (n, …), of one class each, under the noise of the given indices."""
        device = device_of(self.model)
        copies = self.batch_size or COPIES.get(device.type, COPIES["cuda"])
        together = max(1, copies // min(self.draws, CHUNK))
        parts = [
            self._sums(inputs[own].to(device), classes[own].to(device), indices[own].tolist())
            for own in slices(len(inputs), together)
        ]
        total, square, votes = (torch.cat(column).cpu() for column in zip(*parts, strict=True))
        check_numbers(total, indices, "The sum of the model's probabilities", "under noise")
        return SmoothedEstimate(classes.numpy(), self.draws, *(sums.numpy() for sums in (total, square, votes)))

    def _sums(self, inputs: Tensor, classes: Tensor, indices: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Σ of the class's probability, Σ of its square, shape (n,), and votes, shape (n, k), for a few inputs."""
        total = square = torch.zeros((), dtype=torch.float64, device=inputs.device)
        votes = torch.zeros((), dtype=torch.int64, device=inputs.device)
        for begin in range(0, self.draws, CHUNK):
            rows, size = len(inputs), min(CHUNK, self.draws - begin)
            noisy = self.noise.copies(inputs, indices, first=begin, draws=size)
            with autocast(self.precision, inputs.device):
                logits = as_outputs(self.model(noisy), rows * size)
            probs = logits.float().softmax(dim=1).reshape(rows, size, -1)
            score = probs.gather(2, classes[:, None, None].expand(rows, size, 1)).squeeze(2).double()
            total, square = total + score.sum(dim=1), square + score.square().sum(dim=1)
            votes = votes + one_hot(probs.argmax(dim=2), probs.shape[2]).sum(dim=1)
        return total, square, votes
