"""Projected gradient ascent: a walk with steps of one length, and inputs that climb and stop by themselves."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from certcal.attacks.balls import Ball
from certcal.attacks.climb_settings import ENDS, Direction, End, Loss, OnFlip, Plateau, Predict, Settings
from certcal.errors import InputError

Look = Callable[[Tensor, int], tuple[Tensor, Tensor]]  # points (n, …) and step to gradients (n, …) and pushes (n,)
# Seeing whether an update moves an input takes a pass over the batch, and so is not done at every step.
LOOK_EVERY = 5


def walk(ball: Ball, start: Tensor, *, steps: int, length: float, look: Look) -> Tensor:
    """The last of so many points, each one step of the same length further up. Madry et al. (2018), Sec. 2.1.

    At every step `look` gives gradients and, for each input, a push: +1 for up, −1 for down, 0 for neither.
    """
    point = start
    for step in range(steps):
        gradient, push = look(point, step)
        point = ball.step(point, ball.steepest(gradient), push.to(point), length)
    return point


@dataclass(frozen=True, eq=False)
class Found:
    """The best point of each input, shape (n, …), and what is known of the way there, shape (n,)."""

    point: Tensor
    clean: Tensor  # the loss at the input itself
    value: Tensor  # the loss at the point; never below `clean`
    updates: Tensor  # how many were taken
    end: Tensor  # position in ENDS


def climb(
    predict: Predict,
    loss: Loss,
    ball: Ball,
    target: Tensor,
    rate: Tensor,
    settings: Settings,
    *,
    start: Tensor | None = None,
    label: Tensor | None = None,
) -> Found:
    """Maximise the loss of each input within its ball, from the centre or from `start`.

    The best iterate is kept, the centre among them, so the loss never ends below that of the input itself. Each input
    has its own step size and stops by itself: what shares its batch changes nothing but the model's rounding.

    `label` is what is to be kept, by default the model's own answer. Where it does not lead by the margin at the
    centre, another batch may see another label there, and the input stays where it is.
    """
    value, gradient, logits = loss_and_gradient(predict, loss, ball.center, target)
    kept = logits.argmax(dim=1) if label is None else label
    place = torch.arange(len(ball), device=value.device)
    none, centre = torch.zeros_like(place), ball.center
    found = Found(centre.clone(), value, value.clone(), none.clone(), none.clone())
    climbers = _Climbers(
        predict, loss, settings, found, ball, place, target, kept, rate, point=centre, gradient=gradient,
        best_point=centre, best=value, mark=value, waited=none, updates=none,
    )  # fmt: skip
    safe = climbers.may_take(logits)
    climbers.leave(~safe, End.BORDER)
    if start is not None:
        climbers.start_at(start[safe])
    for step in range(settings.steps):
        climbers.advance(step)
        if not len(climbers.place):
            break
    climbers.leave(torch.ones_like(climbers.place, dtype=torch.bool), End.STEPS)
    return found


def keeps_label(logits: Tensor, label: Tensor, margin: float) -> Tensor:
    """Whether the label leads by a margin that no other rounding of the same model will undo, shape (n,)."""
    own = logits.gather(1, label[:, None])
    rival = logits.scatter(1, label[:, None], -torch.inf).amax(dim=1, keepdim=True)
    scale = logits.abs().amax(dim=1, keepdim=True).clamp(min=1.0)
    return (own - rival >= margin * scale).squeeze(1)


@dataclass(eq=False)
class _Climbers:
    """The inputs that are still under way. The ball and all tensors run over them and shrink together."""

    predict: Predict
    loss: Loss
    settings: Settings
    found: Found
    ball: Ball
    place: Tensor  # where the input is in the batch
    target: Tensor
    label: Tensor  # to be kept
    rate: Tensor  # step size
    point: Tensor
    gradient: Tensor
    best_point: Tensor
    best: Tensor
    mark: Tensor  # the loss by which a plateau is told
    waited: Tensor  # steps since it rose
    updates: Tensor

    def start_at(self, start: Tensor) -> None:
        """Begin elsewhere than at the centre, where that keeps the label."""
        value, gradient, logits = loss_and_gradient(self.predict, self.loss, start, self.target)
        taken = self.may_take(logits)
        self._move(taken, start, value, gradient)
        self.mark = torch.where(taken, value, self.mark)

    def advance(self, step: int) -> None:
        """Uphill, each input at its own rate: take the updates that may be taken, and leave the inputs that stop."""
        steepest = self.settings.direction == Direction.STEEPEST
        direction = self.ball.steepest(self.gradient) if steepest else self.gradient
        ahead = self.ball.step(self.point, direction, self.rate)
        if step % LOOK_EVERY == 0:
            moves = (ahead - self.point).abs_().flatten(1).amax(dim=1) > 0  # five times faster than comparing
            self.leave(~moves, End.FIXED)
            ahead = ahead if bool(moves.all()) else ahead[moves]
        if len(self.place):
            last = step == self.settings.steps - 1 or self.settings.updates == 1
            answer = loss_and_gradient(self.predict, self.loss, ahead, self.target, with_gradient=not last)
            self._arrive(ahead, *answer)

    def may_take(self, logits: Tensor) -> Tensor:
        """Whether an update to a point with these logits is allowed, shape (n,)."""
        if self.settings.on_flip == OnFlip.ALLOW:
            return torch.ones_like(self.place, dtype=torch.bool)
        return keeps_label(logits, self.label, self.settings.margin)

    def _arrive(self, ahead: Tensor, value: Tensor, gradient: Tensor, logits: Tensor) -> None:
        settings, taken = self.settings, self.may_take(logits)
        if settings.on_flip == OnFlip.STOP and not bool(taken.all()):
            self.leave(~taken, End.LABEL)
            ahead, value, gradient, logits = (part[taken] for part in (ahead, value, gradient, logits))
            taken = taken[taken]
        better = self._move(taken, ahead, value, gradient)
        self.updates = self.updates + taken
        if settings.on_flip == OnFlip.SHRINK:
            self.rate = torch.where(taken, self.rate, self.rate * settings.shrink)
            value = torch.where(taken, value, self.mark)  # an update that was not taken is no progress
        if settings.plateau is not None:
            self._wait(value, settings.plateau)
        if settings.goal is not None:
            self.leave(better & _flags(settings.goal(logits, self.target), len(self.place)), End.GOAL)
        if settings.updates is not None:
            self.leave(self.updates >= settings.updates, End.STEPS)

    def _move(self, taken: Tensor, point: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        """Go to `point` where that is taken; says where it is the best so far, shape (n,)."""
        if not bool(taken.all()):
            across = self.ball.per_entry(taken)
            point, gradient = torch.where(across, point, self.point), torch.where(across, gradient, self.gradient)
        self.point, self.gradient = point, gradient
        better = taken & (value > self.best)
        if bool(better.all()):
            self.best_point, self.best = point, value
        else:
            self.best_point = torch.where(self.ball.per_entry(better), point, self.best_point)
            self.best = torch.where(better, value, self.best)
        return better

    def _wait(self, value: Tensor, plateau: Plateau) -> None:
        """Reduce the step size of inputs whose loss has stayed on a plateau for too long."""
        rose = value > self.mark + plateau.threshold * self.mark.abs()
        self.mark = torch.where(rose, value, self.mark)
        waited = torch.where(rose, 0, self.waited + 1)
        due = waited > plateau.patience
        self.rate = torch.where(due, self.rate * plateau.factor, self.rate)
        self.waited = torch.where(due, 0, waited)

    def leave(self, leaving: Tensor, end: End) -> None:
        """Record what the leaving inputs have found, and drop them, so that they cost nothing more."""
        if not bool(leaving.any()):
            return
        place, found = self.place[leaving], self.found
        found.point[place] = self.best_point[leaving]
        found.value[place] = self.best[leaving]
        found.updates[place] = self.updates[leaving]
        found.end[place] = ENDS.index(end)
        staying = ~leaving
        for name in (field.name for field in fields(self)):
            if isinstance(value := getattr(self, name), Tensor):
                setattr(self, name, value[staying])
        self.ball = self.ball.take(staying)


def _flags(value: object, rows: int) -> Tensor:
    """What a goal gives: one boolean per input."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool or value.shape != (rows,):
        got = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError.expected("goal", f"give one boolean per input, shape ({rows},)", got)
    return value


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
