"""How an attack climbs: its settings, the choices they have names for, and why an input may stop."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from torch import Tensor

from certcal.attacks.balls import BALLS
from certcal.errors import InputError
from certcal.settings import Norm, Record, checks, setting

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
class Plateau(Record):
    """Multiply an input's step size by `factor` once its loss has not risen for more than `patience` steps."""

    factor: float = setting(0.1, "what the step size is multiplied with", check=checks.inner_share)
    patience: int = setting(10, "steps without a rise that are waited for", check=checks.whole(0))
    threshold: float = setting(1e-4, "what counts as a rise, of the best loss so far", check=checks.not_negative)


def _plateau(name: str, value: Any) -> Plateau:
    if not isinstance(value, Plateau):
        raise InputError.expected(name, "be a Plateau or None", repr(value))
    return value


def _goal(name: str, value: Any) -> Any:
    if not callable(value):
        raise InputError.expected(name, "be a function of logits and labels, or None", repr(value))
    return value


@dataclass(frozen=True, kw_only=True)
class Settings(Record):
    """How to climb within a ball. Each input has its own step size, and stops by itself."""

    norm: str = setting(Norm.LINF, "of the ball", choices=BALLS)
    steps: int = setting(40, "the most steps an input takes", check=checks.whole(1))
    # With direction "gradient" it is what the gradient is multiplied with.
    step_size: float | None = setting(
        None, "length of the first step, in units of the inputs; 2.5 epsilon / steps if None", check=checks.positive
    )
    direction: str = setting(Direction.STEEPEST, "which way a step goes", choices=Direction)
    on_flip: str = setting(OnFlip.ALLOW, "what becomes of an update that would change the label", choices=OnFlip)
    shrink: float = setting(0.5, 'what the step size is multiplied with under "shrink"', check=checks.inner_share)
    updates: int | None = setting(
        None, 'the most updates an input takes; under "shrink" some steps are none', check=checks.whole(1)
    )
    plateau: Plateau | None = setting(None, "when to reduce the step size; None for never", check=_plateau)  # noqa: RUF009
    random_start: bool = setting(False, "begin at a random point of the ball instead of its centre")
    seed: int = setting(0, "of the random start", check=checks.seed)
    goal: Goal | None = setting(  # noqa: RUF009
        None, "of logits and targets, says which inputs may stop; asked of an input's best iterate so far", check=_goal
    )
    box: bool = setting(True, "keep inputs within [0, 1] as well")
    # The same model rounds differently in other batches; more than 1e-4 is wise in less than float32. An input whose
    # label leads by less where it is, is not moved, unless labels may change.
    margin: float = setting(
        1e-4,
        "by how much the label's logit must lead to count as kept, relative to the largest logit (and at least 1)",
        check=checks.not_negative,
    )
    batch_size: int | None = setting(None, "inputs that are attacked together", check=checks.whole(1))

    def check_together(self) -> None:
        """Refuse to follow the gradient itself without being told how far."""
        if self.step_size is None and self.direction == Direction.GRADIENT:
            raise InputError.expected("step_size", "be a number > 0 for direction 'gradient'", None)
