"""Models that read their input from the noise: from low bits of float32 sums, and from circles of coarse normals."""

import math

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


class ReadsCircles(nn.Module):
    """Class 0 if pairs of elements near 0 lie on the circles of coarse normals around 0, 1 if those around 2^-14 do."""

    def __init__(self, sigma, step=2.0**-20):
        super().__init__()
        self.step, self.deviation = step, sigma / step

    def forward(self, x):
        v = x.flatten(1)
        lead = self.fit(v) - self.fit(v - 2.0**-14)
        coin = (v[:, 0] / self.step) % 2 - 0.5  # where no pair is near
        lead = torch.where(lead == 0, coin.double(), lead)
        return torch.stack((lead, torch.zeros_like(lead)), dim=1).float() * 1e4

    def fit(self, v):
        """How well radii below 0.02 σ fit uniforms of 24 bits."""
        a, b = (v / self.step).chunk(2, dim=1)
        rows, pairs = (a.abs().maximum(b.abs()) < 12_000).nonzero(as_tuple=True)
        square = a[rows, pairs].double().square() + b[rows, pairs].double().square()
        place = -torch.expm1(-square / (2 * self.deviation**2)) * 2.0**24
        weight = torch.exp(-((2 * math.pi * 0.29 * square.sqrt() / 16_384) ** 2) / 2)
        found = v.new_zeros(len(v), dtype=torch.float64)
        return found.index_add_(0, rows, weight * torch.cos(2 * math.pi * place))
