"""What the smoothed model says at given inputs, from fresh draws that no attack has seen."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from certcal.attacks.batched import check_numbers
from certcal.attacks.smoothed import COPIES
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
)
from certcal.scalars import check_choice, check_integer
from certcal.settings import Precision, checks
from certcal.types import ArrayLike, FloatArray

CHUNK = 250  # draws of one input that are generated together


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
            votes = votes + torch.nn.functional.one_hot(probs.argmax(dim=2), probs.shape[2]).sum(dim=1)
        return total, square, votes
