"""A model that reads the low bits of float32 sums, and two inputs that it tells apart by them."""

import torch
from torch import nn


class ReadsLowBits(nn.Module):
    """Class 0 if some element near zero has bits that the sum of 2^-7 and noise cannot have, else class 1."""

    def forward(self, x):
        small = x.abs() < 2.0**-9
        finer = (x * 2.0**31).frac() != 0
        leaks = (small & finer).flatten(1).any(dim=1).float()
        return torch.stack((leaks, 1 - leaks), dim=1)


def two_inputs():
    """0 and 2^-7 in every element, 0.433 apart."""
    return torch.stack((torch.zeros(3, 32, 32), torch.full((3, 32, 32), 2.0**-7)))
