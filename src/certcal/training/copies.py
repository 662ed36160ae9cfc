"""Noisy copies of a batch: the smoothed model on a few draws, and what weights minimise on them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, nll_loss

from certcal.attacks import signed_log_odds
from certcal.errors import InputError
from certcal.models import FLOATS, as_outputs, grid_step, through_grid
from certcal.training.step import Step


@dataclass(frozen=True, eq=False)
class Copies:
    """The smoothed model on the noise of one step: each input has draws of its own, and keeps them wherever it moves.

    The adversary searches on the draws that the weights are then updated on. Salman et al. (2019), Sec. 3.3, App. C.
    """

    model: nn.Module
    noise: Tensor  # (n · m, …), the m draws of an input side by side
    draws: int  # m
    grid: float  # step of the grid on which noise and noisy inputs lie

    @classmethod
    def drawn(cls, model: nn.Module, inputs: Tensor, step: Step, draws: int) -> "Copies":
        """Draws of noise for a batch, as many as asked for."""
        if inputs.dtype not in FLOATS:
            raise InputError.expected("inputs", "be float32 or float64", inputs.dtype)
        noise = step.noise(torch.Size((len(inputs) * draws, *inputs.shape[1:])), inputs)
        return cls(model, noise, draws, grid_step(step.sigma))

    def logits(self, inputs: Tensor) -> Tensor:
        """Outputs for all copies of the inputs, shape (n · m, k)."""
        noisy = through_grid(inputs, self.grid).repeat_interleave(self.draws, dim=0) + self.noise
        return as_outputs(self.model(noisy), len(noisy))


def log_mean(logits: Tensor, draws: int) -> Tensor:
    """The log of the mean over draws of the probabilities, shape (n, k): the smoothed model's logits."""
    each = logits.log_softmax(dim=1).reshape(-1, draws, logits.shape[1])
    return each.logsumexp(dim=1) - math.log(draws)


def log_odds(smoothed: Tensor, classes: Tensor) -> Tensor:
    """log p / (1 − p) for the probability p of a class per input, shape (n,).

    Its gradient is that of p up to a positive factor, and neither it nor 1 − p vanishes where the model is sure.
    """
    return signed_log_odds(smoothed, torch.stack([classes, torch.ones_like(classes)], dim=1))


def weight_loss(logits: Tensor, labels: Tensor, draws: int, update: str) -> Tensor:
    """What the weights minimise, given the outputs for all copies.

    "each" is the mean cross-entropy of the copies, as Cohen et al. (2019) and Salman et al. (2019) train; "smoothed" is
    L_CE of the smoothed model as the paper writes it, by Jensen's inequality no larger. Paper: Sec. 4, Eq. (7).
    """
    if update == "each":
        return cross_entropy(logits, labels.repeat_interleave(draws))
    return nll_loss(log_mean(logits, draws), labels)
