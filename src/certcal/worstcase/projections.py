"""Euclidean projections onto the constraint sets of the paper's program. Each docstring is the problem solved.

Paper: App. E.4. Tensors have shape (runs, b, n): the inputs run along the last axis, where memory is
contiguous, so that sums over bins and over inputs are both fast.
"""

import math

import torch
from torch import Tensor


def onto_box(point: Tensor) -> Tensor:
    """argmin ‖q − point‖₂ subject to q ∈ S_b = [0, 1]^{NM}."""
    return point.clamp(0.0, 1.0)


def onto_sphere(point: Tensor) -> Tensor:
    """argmin ‖q − point‖₂ subject to q ∈ S_2, the sphere through the corners of the unit cube, per run.

    S_2 has centre ½·1 and radius √(NM) / 2; together with the box it leaves exactly the binary vectors. All of the
    sphere is nearest to its centre, where two bins make ADMM start: the corner 1 is taken.
    """
    ray = point - 0.5
    length: Tensor = torch.linalg.vector_norm(ray, dim=(1, 2), keepdim=True)
    radius = math.sqrt(point.shape[1] * point.shape[2]) / 2
    return 0.5 + torch.where(length > 0, ray * (radius / length), 0.5)


def onto_bounds(point: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """argmin ‖g − point‖₂ subject to g ∈ S_z, i.e. l' ≤ g ≤ u' entry by entry."""
    return torch.minimum(torch.maximum(point, low), high)


def onto_assignments(point: Tensor, barrier: Tensor) -> Tensor:
    """argmin ‖a − point‖₂ subject to a binary, one bin per input (C'a = 1), none inaccessible (K'a = 0).

    Returned as the chosen bin of each input, shape (runs, n): the accessible bin with the largest entry.
    `barrier` is ∞ where a bin is inaccessible and 0 elsewhere, shape (1, b, n).
    """
    # Along this axis `max` finds indices ten times faster than `argmax`.
    return (point - barrier).max(dim=1).indices
