"""Projected gradient ascent: the one loop by which every attack and every adversary of training climbs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from certcal.attacks.balls import Ball
from certcal.attacks.climb_settings import Loss, Predict
from certcal.errors import InputError

Look = Callable[[Tensor, int], tuple[Tensor, Tensor]]  # points (n, …) and step to gradients (n, …) and pushes (n,)


class Climber(Protocol):
    """Inputs on their way up. The loop steps and projects; these two hooks look before and decide after."""

    point: Tensor  # (n, …)
    ball: Ball

    def heading(self, step: int) -> tuple[Tensor, Tensor, float]:
        """Directions (n, …), a factor for each input (n, 1, …) and one for all: the step is their product."""
        ...

    def arrive(self, ahead: Tensor, step: int) -> bool:
        """Go to the projected points or not; says whether any input is still under way."""
        ...


def ascend(climber: Climber, steps: int) -> None:
    """Take at most so many steps: gradient, step, project. Madry et al. (2018), Sec. 2.1."""
    for step in range(steps):
        direction, rate, length = climber.heading(step)
        ahead = climber.ball.project(torch.addcmul(climber.point, direction, rate, value=length))
        if not climber.arrive(ahead, step):
            break


def walk(ball: Ball, start: Tensor, *, steps: int, length: float, look: Look) -> Tensor:
    """The last of so many points, each one step of the same length further up.

    At every step `look` gives gradients and, for each input, a push: +1 for up, −1 for down, 0 for neither.
    """
    walker = _Walker(ball, start, length, look)
    ascend(walker, steps)
    return walker.point


@dataclass(eq=False)
class _Walker:
    ball: Ball
    point: Tensor
    length: float
    look: Look

    def heading(self, step: int) -> tuple[Tensor, Tensor, float]:
        gradient, push = self.look(self.point, step)
        return self.ball.steepest(gradient), self.ball.per_entry(push.to(self.point)), self.length

    def arrive(self, ahead: Tensor, step: int) -> bool:
        self.point = ahead
        return True


def loss_and_gradient(
    predict: Predict, loss: Loss, point: Tensor, target: Tensor, *, with_gradient: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss (n,), its gradient (n, …), zeros where none is wanted, and logits (n, k)."""
    with torch.set_grad_enabled(with_gradient):
        at = point.detach().requires_grad_(with_gradient)
        logits = predict(at)
        value = _gains(loss(logits, target), logits, with_gradient=with_gradient)
        gradient = _gradient(value, at) if with_gradient else torch.zeros_like(at)
    return value.detach(), gradient, logits.detach()


def _gains(value: object, logits: Tensor, *, with_gradient: bool) -> Tensor:
    """What a loss gives: one number per input, with a gradient if that is wanted."""
    if not isinstance(value, Tensor) or value.shape != logits.shape[:1]:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError.expected("loss", f"give one number per input, shape ({len(logits)},)", got)
    if with_gradient and not value.requires_grad:
        name = "loss" if logits.requires_grad else "model"
        got = "a value without one" + (", as of an ONNX file" if name == "model" else "")
        raise InputError.expected(name, "let gradients through, which attacks follow", got)
    return value


def _gradient(value: Tensor, at: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(value.sum(), at, allow_unused=True)
    if gradient is None:
        raise InputError.expected("model", "let gradients through to its inputs", "none")
    return gradient
