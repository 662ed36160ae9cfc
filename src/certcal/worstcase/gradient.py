"""The certified calibration error as a function of the bounds that torch can differentiate. docs/exact.md."""

from typing import TYPE_CHECKING

import numpy as np

from certcal.errors import InputError
from certcal.types import ArrayLike, BoolArray, FloatArray
from certcal.worstcase.exact import solve_exact
from certcal.worstcase.problem import Solution, WorstCaseProblem

if TYPE_CHECKING:
    from torch import Tensor


def differentiable_certified_calibration_error(
    lower: "Tensor",
    upper: "Tensor",
    correct: ArrayLike,
    *,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    uncertified: int = 0,
) -> "Tensor":
    """The certified calibration error as a float64 scalar tensor, with its gradient with respect to the bounds.

    N · CCE is a maximum over signs of sums in which every input stands at its lower bound, at its upper bound or at the
    edge of a bin. At the best signs (Danskin) the gradient is ∓1 / N for inputs at a bound and 0 for those at an edge.
    Where two choices are equally bad, or a bound lies on an edge, it is that of one of them.

    Paper: —; the maximum of Eq. (4), docs/exact.md.   Errs: high, as `certified_calibration_error`.

    Args:
        lower, upper: certified bounds as tensors, shape (n,), any floating dtype and device.
        correct, n_bins, edges, uncertified: as for `certified_calibration_error`.

    >>> import torch
    >>> lower = torch.tensor([0.1, 0.5], requires_grad=True)
    >>> upper = torch.tensor([0.6, 0.9], requires_grad=True)
    >>> differentiable_certified_calibration_error(lower, upper, [1, 0], n_bins=3).backward()
    >>> lower.grad.tolist(), upper.grad.tolist()
    ([-0.5, 0.0], [0.0, 0.5])
    """
    import torch

    for name, side in (("lower", lower), ("upper", upper)):
        if not isinstance(side, torch.Tensor) or not side.is_floating_point():
            raise InputError.expected(name, "be a floating-point tensor", type(side).__name__)
    problem = WorstCaseProblem.checked(lower, upper, correct, n_bins=n_bins, edges=edges, uncertified=uncertified)
    value, by_lower, by_upper = value_and_gradient(problem)
    slopes = (torch.from_numpy(by).to(lower.device) for by in (by_lower, by_upper))
    return moved_with(lower, upper, torch.tensor(value, dtype=torch.float64, device=lower.device), *slopes)


def moved_with(lower: "Tensor", upper: "Tensor", value: "Tensor", *slopes: "Tensor") -> "Tensor":
    """The value, with these derivatives with respect to lower and to upper bounds."""
    by_lower, by_upper = slopes
    slope = (by_lower * lower.double() + by_upper * upper.double()).sum()
    moved: Tensor = (slope - slope.detach()) + value  # exactly it: the difference is 0
    return moved


def value_and_gradient(problem: WorstCaseProblem) -> tuple[float, FloatArray, FloatArray]:
    """The certified calibration error and its derivatives with respect to lower and to upper bounds, shape (n,)."""
    solution = solve_exact(problem)
    at_lower, at_upper, sign = slopes(problem, solution)
    slope = -sign / problem.size
    return solution.value, np.where(at_lower, slope, 0.0), np.where(at_upper, slope, 0.0)


def slopes(problem: WorstCaseProblem, solution: Solution) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Which inputs stand at their lower and which at their upper bound at the worst case, and the sign of their bin.

    A correct input in a + bin stands at l if that is the first bin it reaches and at the bin's edge otherwise; in a −
    bin it could not escape and stands at u. An incorrect one mirrors this (docs/exact.md, Lemma 2).
    """
    assert solution.signs is not None
    assert solution.bins is not None
    sign = solution.signs[solution.bins]
    bins = problem.bins.whole
    first, last = bins.assign(problem.lower), bins.assign(problem.upper)
    at_lower = np.where(problem.correct, (sign > 0) & (solution.bins == first), sign > 0)
    at_upper = np.where(problem.correct, sign < 0, (sign < 0) & (solution.bins == last))
    return at_lower, at_upper, sign.astype(np.float64)
