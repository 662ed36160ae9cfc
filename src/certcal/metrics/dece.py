"""The differentiable calibration error: the ECE with soft bins. Paper: App. M.1."""

from typing import TYPE_CHECKING, overload

import numpy as np

from certcal.inputs import contiguous
from certcal.metrics.binning import choose_bins
from certcal.metrics.calibration import as_predictions
from certcal.scalars import check_number
from certcal.types import ArrayLike, FloatArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor


@overload
def differentiable_calibration_error(
    confidence: "Tensor",
    correct: ArrayLike,
    *,
    n_bins: int = ...,
    edges: ArrayLike | None = ...,
    temperature: float = ...,
) -> "Tensor": ...
@overload
def differentiable_calibration_error(
    confidence: "Sequence[float] | NDArray[np.floating]",
    correct: ArrayLike,
    *,
    n_bins: int = ...,
    edges: ArrayLike | None = ...,
    temperature: float = ...,
) -> float: ...
def differentiable_calibration_error(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    temperature: float = 1e-2,
) -> "Tensor | float":
    """The calibration error with softmax bin assignments (dECE); it tends to the ECE as the temperature falls to 0.

    A torch tensor gives a float64 scalar tensor through which gradients flow; anything else gives a float.

    Paper: App. M.1.

    >>> round(differentiable_calibration_error([0.95, 0.65], [1, 0], n_bins=10, temperature=1e-6), 6)
    0.35
    """
    import torch

    check_number("temperature", temperature, "lie in [1e-12, 1e6]", lambda value: 1e-12 <= value <= 1e6)
    z, c = as_predictions(confidence, correct)
    bins = choose_bins(n_bins, edges)
    soft = confidence.double() if isinstance(confidence, torch.Tensor) else torch.tensor(contiguous(z))
    slope, offset = (torch.from_numpy(part).to(soft.device) for part in soft_bin_lines(bins.edges))
    gap = torch.tensor(contiguous(c)).to(soft) - soft
    assignment = torch.softmax((soft[:, None] * slope + offset) / temperature, dim=1)  # (n, b)
    error = (assignment.T @ gap).abs().sum() / len(z)
    return error if isinstance(confidence, torch.Tensor) else float(error)


def soft_bin_lines(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slopes w_m = m and offsets b_m = −Σ_{i<m} β_i of the lines whose largest one at z is the bin of z, shapes (b,).

    Lines m and m + 1 cross exactly at the cut-off β_m between the two bins, for any increasing cut-offs.
    """
    cutoffs = edges[1:-1]
    return np.arange(1.0, len(edges)), -np.concatenate([[0.0], np.cumsum(cutoffs)])
