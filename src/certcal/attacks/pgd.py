"""Projected gradient ascent: one loop for every norm, loss and rule of stopping."""

import torch
from torch import Tensor

from certcal.attacks.balls import Ball
from certcal.attacks.rows import Found, Rows
from certcal.attacks.settings import Direction, End, Loss, OnFlip, Predict, Settings
from certcal.attacks.victims import as_flags, as_gains
from certcal.errors import InputError

# Seeing whether an update moves an input takes a pass over the batch, and so is not done at every step.
LOOK_EVERY = 5


def climb(
    predict: Predict,
    loss: Loss,
    ball: Ball,
    target: Tensor,
    rate: Tensor,
    settings: Settings,
    start: Tensor | None = None,
    label: Tensor | None = None,
) -> Found:
    """Maximise the loss of each input within its ball, from the centre or from `start`.

    The best iterate is kept, the centre among them, so the loss never ends below that of the input itself. Each input
    has its own step size and stops by itself: what shares its batch changes nothing but the model's rounding.

    `label` is what is to be kept, by default the model's own answer. Where it does not lead by the margin at the
    centre, another batch may see another label there, and the input stays where it is.
    """
    value, gradient, logits = evaluate(predict, loss, ball.center, target)
    kept = logits.argmax(dim=1) if label is None else label
    rows = Rows.at_centre(ball, value, gradient, kept, target, rate)
    found = Found(ball.center.clone(), value, value.clone(), torch.zeros_like(rows.place), torch.zeros_like(rows.place))
    safe = _may_take(rows, logits, settings)
    rows.leave(~safe, End.BORDER, found)
    if start is not None:
        start, target = start[safe], target[safe]
        value, gradient, logits = evaluate(predict, loss, start, target)
        taken = _may_take(rows, logits, settings)
        rows.move(taken, start, value, gradient)
        rows.mark = torch.where(taken, value, rows.mark)
    for step in range(settings.steps):
        ahead = _next_points(rows, settings)
        if step % LOOK_EVERY == 0:
            moves = (ahead - rows.point).abs_().flatten(1).amax(dim=1) > 0  # five times faster than comparing
            rows.leave(~moves, End.FIXED, found)
            ahead = ahead if bool(moves.all()) else ahead[moves]
        if not len(rows):
            break
        last = step == settings.steps - 1 or settings.updates == 1
        answer = evaluate(predict, loss, ahead, rows.target, with_gradient=not last)
        _advance(rows, found, ahead, *answer, settings)
    rows.leave(torch.ones_like(rows.place, dtype=torch.bool), End.STEPS, found)
    return found


def evaluate(
    predict: Predict, loss: Loss, point: Tensor, target: Tensor, *, with_gradient: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss (n,), its gradient (n, …), zeros where none is wanted, and logits (n, k)."""
    with torch.set_grad_enabled(with_gradient):
        at = point.detach().requires_grad_(with_gradient)
        logits = predict(at)
        value = as_gains(loss(logits, target), logits, with_gradient=with_gradient)
        gradient = _gradient(value, at) if with_gradient else torch.zeros_like(at)
    return value.detach(), gradient, logits.detach()


def _gradient(value: Tensor, at: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(value.sum(), at, allow_unused=True)
    if gradient is None:
        raise InputError.expected("model", "let gradients through to its inputs", "none")
    return gradient


def keeps_label(logits: Tensor, label: Tensor, margin: float) -> Tensor:
    """Whether the label leads by a margin that no other rounding of the same model will undo, shape (n,)."""
    own = logits.gather(1, label[:, None])
    rival = logits.scatter(1, label[:, None], -torch.inf).amax(dim=1, keepdim=True)
    scale = logits.abs().amax(dim=1, keepdim=True).clamp(min=1.0)
    return (own - rival >= margin * scale).squeeze(1)


def _next_points(rows: Rows, settings: Settings) -> Tensor:
    steepest = settings.direction == Direction.STEEPEST
    direction = rows.ball.steepest(rows.gradient) if steepest else rows.gradient
    return rows.ball.project(torch.addcmul(rows.point, direction, rows.per_entry(rows.rate)))


def _may_take(rows: Rows, logits: Tensor, settings: Settings) -> Tensor:
    if settings.on_flip == OnFlip.ALLOW:
        return torch.ones_like(rows.place, dtype=torch.bool)
    return keeps_label(logits, rows.label, settings.margin)


def _advance(
    rows: Rows, found: Found, ahead: Tensor, value: Tensor, gradient: Tensor, logits: Tensor, settings: Settings
) -> None:
    """Take the updates that may be taken, and leave the inputs that stop."""
    taken = _may_take(rows, logits, settings)
    if settings.on_flip == OnFlip.STOP and not bool(taken.all()):
        rows.leave(~taken, End.LABEL, found)
        ahead, value, gradient, logits = (part[taken] for part in (ahead, value, gradient, logits))
        taken = taken[taken]
    better = rows.move(taken, ahead, value, gradient)
    rows.updates = rows.updates + taken
    if settings.on_flip == OnFlip.SHRINK:
        rows.rate = torch.where(taken, rows.rate, rows.rate * settings.shrink)
        value = torch.where(taken, value, rows.mark)  # an update that was not taken is no progress
    if settings.plateau is not None:
        rows.wait(value, settings.plateau)
    if settings.goal is not None:
        reached = better & as_flags(settings.goal(logits, rows.target), len(rows))
        rows.leave(reached, End.GOAL, found)
    if settings.updates is not None:
        rows.leave(rows.updates >= settings.updates, End.STEPS, found)
