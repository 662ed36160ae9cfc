"""The grid to which inputs and noise are rounded, so that float32 holds their sums exactly. docs/noise.md."""

import math
from functools import cache

import torch
from torch import Tensor

from certcal.errors import InputError

FINEST_STEP = 2.0**-20
LARGEST_NOISE, LARGEST_INPUT = 2**22, 3 * 2**22  # in steps. Their sum is 2^24: float32 holds every such whole number.
LARGEST_NORMAL = 8  # deviations; a normal is larger with probability 10^-15


@cache
def grid_step(sigma: float) -> float:
    """The step of the grid for noise of deviation σ: 2⁻²⁰ up to σ = 0.5, and then as fine as float32 sums allow.

    >>> grid_step(0.25) == 2**-20, grid_step(1.0) == 2**-19
    (True, True)
    """
    return 2.0 ** math.ceil(math.log2(max(FINEST_STEP, LARGEST_NORMAL * sigma / LARGEST_NOISE)))


def to_grid(inputs: Tensor, step: float) -> Tensor:
    """Inputs in float32, each element moved to the nearest multiple of `step`.

    Raises: InputError if an element is so large that float32 could not hold its sum with the noise.
    """
    # Doubles are rounded once, as doubles; the grid point is a float32, and halves are floats to the last bit.
    wide = inputs if inputs.dtype == torch.float64 else inputs.float()
    rounded = (wide / step).round_()
    if (rounded.abs() > LARGEST_INPUT).any():
        what = f"lie within ±{LARGEST_INPUT * step:g}, where float32 sums of inputs and noise are exact"
        mend = "scale inputs, sigma and radii alike (--scale std, in Python ImageData.scaled)"
        raise InputError.expected("inputs", what, f"{float(inputs.abs().max()):g}; {mend}")
    return rounded.mul_(step).add_(0.0).float()  # of the two zeros the positive one


def through_grid(inputs: Tensor, step: float) -> Tensor:
    """Inputs moved to the grid, for adversaries: with the gradient of the inputs themselves, in their type.

    Nothing is asked of the device, so that a step of training can be captured.
    """
    still = inputs.detach()
    # Each difference is exact (Sterbenz's lemma, or the element is rounded to 0), so the sum lies on the grid.
    return inputs + ((still / step).round_().mul_(step) - still)


def rounded_normals(shape: torch.Size, sigma: float, like: Tensor, generator: torch.Generator) -> Tensor:
    """Normals of deviation σ from a generator of torch, rounded to the grid, on the device and in the type of a tensor.

    On the grid of `Noise`, and by other numbers, whose law is near its own: for training, which certifies nothing and
    whose steps have generators of their own.
    """
    step = grid_step(sigma)
    return like.new_empty(shape).normal_(0.0, sigma / step, generator=generator).round_().mul_(step)
