"""What an objective is told at a step of training, and what it has to be."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from certcal.models import rounded_normals
from certcal.settings import checks

SHUFFLE, AUGMENT, NOISE, MODEL, VALIDATION = range(5)  # what random numbers are for, as `place_seed` takes it


@dataclass(frozen=True)
class Step:
    """The state of the schedules at one step. Every random number of the step comes from the generator."""

    sigma: float  # of the noise, after its warm-up
    epsilon: float  # radius of the adversary, after its warm-up; 0: no adversary
    generator: torch.Generator  # on the device of the batch

    def __post_init__(self) -> None:
        for name in ("sigma", "epsilon"):
            checks.not_negative(name, getattr(self, name))

    def noise(self, shape: torch.Size, like: Tensor) -> Tensor:
        """Gaussian noise of this step on the grid of evidence, on the device and in the type of a tensor."""
        return rounded_normals(shape, self.sigma, like, self.generator)


class Objective(Protocol):
    """A loss over a batch, to be minimised over the weights of the model."""

    def __call__(self, model: nn.Module, inputs: Tensor, labels: Tensor, step: Step) -> Tensor:
        """The loss, a scalar with gradients; inputs (n, …) in [0, 1], labels (n,). Leaves no gradients behind."""
        ...
