"""Inputs under way: their state in a batch that shrinks as they stop."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from certcal.attacks.balls import Ball
from certcal.attacks.settings import ENDS, End, Plateau


@dataclass(frozen=True, eq=False)
class Found:
    """The best point of each input, shape (n, …), and what is known of the way there, shape (n,)."""

    point: Tensor
    clean: Tensor  # the loss at the input itself
    value: Tensor  # the loss at the point; never below `clean`
    updates: Tensor  # how many were taken
    end: Tensor  # position in ENDS


@dataclass(eq=False)
class Rows:
    """The inputs that are still under way. All fields run over them and shrink together."""

    place: Tensor  # where the input is in the batch
    target: Tensor
    label: Tensor  # the prediction at the input itself
    rate: Tensor  # step size
    point: Tensor
    gradient: Tensor
    best_point: Tensor
    best: Tensor
    mark: Tensor  # the loss by which a plateau is told
    waited: Tensor  # steps since it rose
    updates: Tensor
    ball: Ball

    @classmethod
    def at_centre(
        cls, ball: Ball, value: Tensor, gradient: Tensor, label: Tensor, target: Tensor, rate: Tensor
    ) -> "Rows":
        """All inputs of a batch, at the centres of their balls."""
        place = torch.arange(len(ball), device=value.device)
        none, centre = torch.zeros_like(place), ball.center
        return cls(place, target, label, rate, centre, gradient, centre, value, value, none, none, ball)

    def __len__(self) -> int:
        return len(self.place)

    def per_entry(self, values: Tensor) -> Tensor:
        """One value per input, shaped to meet inputs entry by entry."""
        return values.reshape(self.ball.epsilon.shape)

    def move(self, taken: Tensor, point: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        """Go to `point` where that is taken; says where it is the best so far, shape (n,)."""
        if not bool(taken.all()):
            across = self.per_entry(taken)
            point, gradient = torch.where(across, point, self.point), torch.where(across, gradient, self.gradient)
        self.point, self.gradient = point, gradient
        better = taken & (value > self.best)
        if bool(better.all()):
            self.best_point, self.best = point, value
        else:
            self.best_point = torch.where(self.per_entry(better), point, self.best_point)
            self.best = torch.where(better, value, self.best)
        return better

    def wait(self, value: Tensor, plateau: Plateau) -> None:
        """Reduce the step size of inputs whose loss has stayed on a plateau for too long."""
        rose = value > self.mark + plateau.threshold * self.mark.abs()
        self.mark = torch.where(rose, value, self.mark)
        waited = torch.where(rose, 0, self.waited + 1)
        due = waited > plateau.patience
        self.rate = torch.where(due, self.rate * plateau.factor, self.rate)
        self.waited = torch.where(due, 0, waited)

    def leave(self, leaving: Tensor, end: End, found: Found) -> None:
        """Record what the leaving inputs have found, and drop them, so that they cost nothing more."""
        if not bool(leaving.any()):
            return
        place = self.place[leaving]
        found.point[place] = self.best_point[leaving]
        found.value[place] = self.best[leaving]
        found.updates[place] = self.updates[leaving]
        found.end[place] = ENDS.index(end)
        staying = ~leaving
        for name in (field.name for field in fields(self) if field.name != "ball"):
            setattr(self, name, getattr(self, name)[staying])
        self.ball = self.ball.take(staying)
