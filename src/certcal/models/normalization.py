"""Normalising inside the model, so that noise and radii stay in the units of inputs in [0, 1]."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.inputs import as_vector
from certcal.models.functions import as_module

Statistics = tuple[Sequence[float], Sequence[float]]


class Normalize(nn.Module):
    """Subtracts the channels' means and divides by their standard deviations.

    Both are buffers: they travel with the checkpoint and count in the model's fingerprint.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", _per_channel("mean", mean))
        self.register_buffer("std", _per_channel("std", std))
        if self.mean.shape != self.std.shape:
            raise InputError.expected("std", f"have as many entries as `mean` ({len(self.mean)})", len(self.std))
        if not bool((self.std > 0).all()):
            raise InputError.expected("std", "be positive", self.std.ravel().tolist())

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs in [0, 1], shape (n, c, h, w), normalised."""
        return (inputs - self.mean) / self.std


class Unscale(nn.Module):
    """A model of inputs as they were, given inputs that were divided by standard deviations: x · std + mean."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], model: Callable[[Tensor], object]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, _per_channel(name, values).reshape(-1))
        self.model = as_module(model)

    def forward(self, inputs: Tensor) -> object:
        sides = (-1, *[1] * (inputs.ndim - 2))
        return self.model(inputs * self.std.reshape(sides) + self.mean.reshape(sides))


def _per_channel(name: str, values: Sequence[float]) -> Tensor:
    vector = torch.from_numpy(as_vector(name, values)).to(torch.float32)
    if not bool(vector.isfinite().all()):
        raise InputError.expected(name, "be finite", vector.tolist())
    return vector.reshape(-1, 1, 1)
