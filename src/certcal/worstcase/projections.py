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

    S_2 has centre ½·1 and radius √(NM) / 2; together with the box it leaves exactly the binary vectors.
    """
    ray = point - 0.5
    length: Tensor = torch.linalg.vector_norm(ray, dim=(1, 2), keepdim=True)
    radius = math.sqrt(point.shape[1] * point.shape[2]) / 2
    return 0.5 + ray * (radius / length)


def onto_bounds(point: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """argmin ‖g − point‖₂ subject to g ∈ S_z, i.e. l' ≤ g ≤ u' entry by entry."""
    return torch.minimum(torch.maximum(point, low), high)


def onto_assignments(point: Tensor, blocked: Tensor) -> Tensor:
    """argmin ‖a − point‖₂ subject to a binary, one bin per input (C'a = 1), none inaccessible (K'a = 0).

    Returned as the chosen bin of each input, shape (runs, n): the accessible bin with the largest entry.
    `blocked` is 1 where a bin is inaccessible and 0 elsewhere, shape (1, b, n).
    """
    # Entries of `point` stay of order 1 (they are clipped), so 1e6 rules a bin out. `max` finds indices ten times
    # faster than `argmax` along this axis.
    return (point - 1e6 * blocked).max(dim=1).indices
