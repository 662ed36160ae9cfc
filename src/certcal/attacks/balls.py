"""Balls around inputs, cut by the box [0, 1]: where an attack may go, in which direction, and where it may start."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certcal.settings import Norm

# Scaling an offset and adding it to its centre rounds each entry by a few parts in 2^24. ℓ2 and ℓ1 balls are drawn in
# by this much, so that the point that is handed out is inside to the last bit.
_SHRINK = {torch.float32: 1 - 2.0**-20, torch.float64: 1 - 2.0**-40}


BALLS = (Norm.LINF, Norm.L2, Norm.L1)  # the norms that attacks know


@dataclass(frozen=True, eq=False)
class Ball:
    """For each of n inputs, the points no further from it than its epsilon and, if boxed, in [0, 1].

    >>> ball = Ball.around(torch.tensor([[0.25, 0.875]]), torch.tensor([0.5]), Norm.LINF, boxed=True)
    >>> ball.project(torch.tensor([[-3.0, 3.0]])).tolist()
    [[0.0, 1.0]]
    """

    norm: Norm
    center: Tensor  # (n, …)
    epsilon: Tensor  # (n, 1, …) float64
    low: Tensor  # the least value of each entry, (n, …) or one number; −∞ if nothing limits it
    high: Tensor

    @classmethod
    def around(cls, center: Tensor, epsilon: Tensor | float, norm: Norm, *, boxed: bool) -> "Ball":
        """The ball of each input; `epsilon` is one number, or one per input, shape (n,)."""
        # Filled on the device: copies from the CPU would wait for it, and cannot be part of a CUDA graph.
        one = epsilon if isinstance(epsilon, Tensor) else center.new_full((), epsilon, dtype=torch.float64)
        each = one.to(center.device, torch.float64).expand(len(center))
        size = each.reshape(-1, *[1] * (center.ndim - 1))
        least, most = (0.0, 1.0) if boxed else (-torch.inf, torch.inf)
        if norm is not Norm.LINF:
            return cls(norm, center, size, center.new_full((), least), center.new_full((), most))
        ends = (_inward(center, center.double() + side, size) for side in (-size, size))
        low, high = (end.clamp(least, most) for end in ends)
        return cls(norm, center, size, low, high)

    def __len__(self) -> int:
        return len(self.center)

    def take(self, rows: Tensor) -> "Ball":
        """The balls of some of the inputs."""
        low, high = (side if side.ndim == 0 else side[rows] for side in (self.low, self.high))
        return Ball(self.norm, self.center[rows], self.epsilon[rows], low, high)

    def per_entry(self, values: Tensor) -> Tensor:
        """One value per input, shaped to meet inputs entry by entry."""
        return values.reshape(self.epsilon.shape)

    def project(self, point: Tensor) -> Tensor:
        """A point of the ball for each point given: the nearest one of the ball, and then of the box."""
        if self.norm is Norm.LINF:
            return torch.clamp(point, self.low, self.high)
        offset = point - self.center
        limit = self.epsilon * _SHRINK[point.dtype]
        if self.norm is Norm.L1:
            offset = _shortened(offset, limit)
        length = _lengths(offset, self.norm)
        scale = torch.where(length > limit, limit / length, 1.0)
        offset = offset * scale.to(point.dtype)
        moved = torch.clamp(self.center + offset, self.low, self.high)
        # Clipping brings an entry closer to its centre; rounding of the sum may have taken it further by one float.
        beyond = (moved - self.center).abs() > offset.abs()
        return torch.where(beyond, torch.nextafter(moved, self.center), moved)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The direction of length 1 in this norm that climbs fastest; 0 where the gradient is 0.

        In ℓ1 that is the steepest entry alone; the steepest hundredth of the entries get along where some are at the
        border of the box.
        """
        if self.norm is Norm.LINF:
            return gradient.sign()
        if self.norm is Norm.L1:
            flat = gradient.flatten(1)
            few = flat.abs().topk(max(flat.shape[1] // 100, 1), dim=1).indices
            return torch.zeros_like(flat).scatter(1, few, flat.gather(1, few).sign() / few.shape[1]).view_as(gradient)
        length = _lengths(gradient).to(gradient.dtype)
        return gradient / torch.where(length > 0, length, 1.0)

    def step(self, point: Tensor, direction: Tensor, rate: Tensor, length: float = 1.0) -> Tensor:
        """The points ahead in given directions (n, …), each by its own rate (n,) times the length, projected."""
        return self.project(torch.addcmul(point, direction, self.per_entry(rate), value=length))

    def at(self, unit: Tensor) -> Tensor:
        """The points at given places of the unit ball, shape (n, …), pulled into the box."""
        return self.project(self.center + unit * self.epsilon.to(unit.dtype))


def random_unit(shape: torch.Size, norm: Norm, seed: int) -> Tensor:
    """Independent uniform points of the unit ball, shape (n, …), the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    if norm is Norm.LINF:
        return torch.rand(shape, generator=generator) * 2 - 1
    normal = torch.randn(shape, generator=generator)
    if norm is Norm.L1:  # shares that are exponential: uniform on the sphere of this norm
        normal = normal.sign() * -torch.log1p(-torch.rand(shape, generator=generator))
    entries = normal[0].numel()
    # The distance to the centre of a uniform point has density proportional to r^(d − 1).
    radius = torch.rand(shape[0], generator=generator) ** (1 / entries)
    return normal / _lengths(normal, norm).float() * radius.reshape(-1, *[1] * (len(shape) - 1))


def _lengths(offset: Tensor, norm: Norm = Norm.L2) -> Tensor:
    """Lengths of the rows in float64, ℓ2 or ℓ1, shape (n, 1, …)."""
    order = 1 if norm is Norm.L1 else 2
    length: Tensor = torch.linalg.vector_norm(offset.flatten(1), order, dim=1, dtype=torch.float64)
    return length.reshape(-1, *[1] * (offset.ndim - 1))


def _shortened(offset: Tensor, limit: Tensor) -> Tensor:
    """The nearest offset of ℓ1 length at most `limit`, shape (n, 1, …): all entries lose the same, down to 0.

    Duchi et al. (2008), Fig. 1.
    """
    size = offset.double().abs().flatten(1)
    most = limit.flatten(1)
    falling, place = size.sort(dim=1, descending=True).values, torch.arange(1, size.shape[1] + 1, device=size.device)
    loss = (falling.cumsum(dim=1) - most) / place
    kept = (falling > loss).sum(dim=1, keepdim=True).clamp(min=1)
    lost = loss.gather(1, kept - 1).clamp(min=0.0)
    return ((size - lost).clamp(min=0.0).view_as(offset) * offset.sign()).to(offset.dtype)


def _inward(center: Tensor, end: Tensor, epsilon: Tensor) -> Tensor:
    """An end of the interval around the centre in the centre's own dtype, not beyond `epsilon`."""
    near = end.to(center.dtype)
    beyond = (near.double() - center.double()).abs() > epsilon
    return torch.where(beyond, torch.nextafter(near, center), near)
