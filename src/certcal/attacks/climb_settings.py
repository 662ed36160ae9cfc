"""How an attack climbs: its settings, the choices they have names for, and why an input may stop."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from torch import Tensor

from certcal.attacks.balls import BALLS
from certcal.errors import InputError
from certcal.scalars import check_choice, check_flag, check_integer, check_number
from certcal.settings import Norm

Predict = Callable[[Tensor], Tensor]  # inputs (n, …) to logits (n, k)
Loss = Callable[[Tensor, Tensor], Tensor]  # logits (n, k) and targets (n, …) to what each input is to gain, (n,)
Goal = Callable[[Tensor, Tensor], Tensor]  # the same to booleans


class Direction(StrEnum):
    """Which way a step goes."""

    GRADIENT = "gradient"  # along the gradient, and as far as it is long: a flat loss makes short steps
    STEEPEST = "steepest"  # along its sign (ℓ∞) or unit vector (ℓ2): all steps are equally long


class OnFlip(StrEnum):
    """What becomes of an update that would change the predicted label."""

    ALLOW = "allow"  # it is taken
    STOP = "stop"  # it is not taken, and the input stops where it is
    SHRINK = "shrink"  # it is not taken, and the next one from there is shorter


class End(StrEnum):
    """Why an input was left where it is."""

    STEPS = "took all its steps"
    LABEL = "the next update would have changed its label"
    FIXED = "no update moves it"
    GOAL = "reached the goal"
    BORDER = "its label leads by less than the margin where it is"


ENDS = tuple(End)


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Multiply an input's step size by `factor` once its loss has not risen for more than `patience` steps.

    Rising means by more than `threshold` relative to the best loss so far.
    """

    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4

    def __post_init__(self) -> None:
        check_number("factor", self.factor, "lie in the open interval (0, 1)", lambda number: 0 < number < 1)
        check_integer("patience", self.patience, minimum=0)
        check_number("threshold", self.threshold, "be a finite number ≥ 0", lambda number: number >= 0)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to climb within a ball. Each input has its own step size, and stops by itself.

    Attributes:
        norm: of the ball, "linf", "l2" or "l1".
        steps: the most steps an input takes.
        step_size: length of the first step, for `direction="steepest"` in units of the inputs; 2.5 epsilon / steps if
            None. For `direction="gradient"`, what the gradient is multiplied with.
        direction: "steepest" or "gradient"; see `Direction`.
        on_flip: "allow", "stop" or "shrink" an update that would change the label; see `OnFlip`.
        shrink: what the step size is multiplied with under "shrink".
        updates: the most updates an input takes, where that is fewer than the steps (under "shrink", some are not).
        plateau: when to reduce the step size; None for never.
        random_start: begin at a random point of the ball instead of its centre.
        seed: of the random start.
        goal: given logits and targets, says which inputs may stop; asked of an input's best iterate so far.
        box: keep inputs within [0, 1] as well.
        margin: by how much the label's logit must lead to count as kept, relative to the largest logit (and at least
            1). The same model rounds differently in other batches; more than 1e-4 is wise in less than float32. An
            input whose label leads by less where it is, is not moved, unless labels may change.
        batch_size: inputs that are attacked together.
    """

    norm: str = Norm.LINF
    steps: int = 40
    step_size: float | None = None
    direction: str = Direction.STEEPEST
    on_flip: str = OnFlip.ALLOW
    shrink: float = 0.5
    updates: int | None = None
    plateau: Plateau | None = None
    random_start: bool = False
    seed: int = 0
    goal: Goal | None = None
    box: bool = True
    margin: float = 1e-4
    batch_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", Norm(check_choice("norm", self.norm, BALLS)))
        for name, kind in (("direction", Direction), ("on_flip", OnFlip)):
            chosen = check_choice(name, getattr(self, name), tuple(kind))
            object.__setattr__(self, name, kind(chosen))
        check_integer("steps", self.steps, minimum=1)
        for name in ("updates", "batch_size"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), minimum=1)
        check_integer("seed", self.seed, minimum=0, maximum=2**63 - 1)
        for name in ("random_start", "box"):
            check_flag(name, getattr(self, name))
        check_number("margin", self.margin, "be a finite number ≥ 0", lambda number: number >= 0)
        check_number("shrink", self.shrink, "lie in the open interval (0, 1)", lambda number: 0 < number < 1)
        if self.step_size is not None:
            check_number("step_size", self.step_size, "be a finite number > 0", lambda number: number > 0)
        elif self.direction == Direction.GRADIENT:
            raise InputError.expected("step_size", "be a number > 0 for direction 'gradient'", None)
        if self.plateau is not None and not isinstance(self.plateau, Plateau):
            raise InputError.expected("plateau", "be a Plateau or None", repr(self.plateau))
        if self.goal is not None and not callable(self.goal):
            raise InputError.expected("goal", "be a function of logits and labels, or None", repr(self.goal))
