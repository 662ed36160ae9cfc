"""What is sure at thresholds of the confidence: one operating point, or a curve of many."""

from dataclasses import dataclass, field, fields

import numpy as np

from certcal.errors import several
from certcal.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class OperatingPoint:
    """What is sure at one threshold, whatever the attack."""

    threshold: float
    coverage: float  # share of the inputs that are sure to be accepted
    accuracy: float  # least share of right ones among those accepted; NaN if no input can be accepted
    accepted: int  # inputs that this least share is of
    right: int  # right ones among them
    inputs: int
    failures: int = 0  # certificates that may fail
    clean_coverage: float = np.nan  # without attack, where the confidences are known
    clean_accuracy: float = np.nan
    whose: str = ""  # "certified " where inputs without a certificate are left out

    @property
    def risk(self) -> float:
        """The largest share of wrong ones among those accepted."""
        return np.nan if np.isnan(self.accuracy) else (self.accepted - self.right) / max(self.accepted, 1)

    def __str__(self) -> str:
        """The point in words, rounded to the safe side."""
        # Every digit where fewer would name a threshold below the one that is meant.
        short = f"{self.threshold:g}"
        head = f"Accept from {short if float(short) == self.threshold else repr(self.threshold)}: "
        if np.isnan(self.accuracy):
            return f"{head}no input can reach this threshold, so nothing is accepted."
        clean, inputs = "", f"of the {several(self.inputs, f'{self.whose}input')}"
        if not np.isnan(self.clean_accuracy):
            clean = f" (without attack {100 * self.clean_coverage:.1f} % and {100 * self.clean_accuracy:.1f} %)"
        if self.coverage == self.accuracy == 0.0:
            return (
                f"{head}whatever the attack, nothing is guaranteed: neither how many {inputs} are accepted, "
                f"nor how many of those accepted are right{clean}."
            )
        return (
            f"{head}whatever the attack, at least {_percent(self.coverage)} {inputs} are accepted, and at least "
            f"{_percent(self.accuracy)} of those accepted are right{clean}."
        )


@dataclass(frozen=True, eq=False)
class OperatingCurve:
    """Operating points at many thresholds: risk against coverage, without attack and at its worst."""

    threshold: FloatArray  # (t,)
    certain: IntArray  # (t,) inputs that are sure to be accepted
    right: IntArray  # (t,) right ones among `accepted`
    accepted: IntArray  # (t,) inputs that are accepted where accuracy is least
    reachable: BoolArray  # (t,) whether any input can be accepted
    inputs: int
    failures: int = 0
    clean_accepted: IntArray | None = None  # (t,) without attack
    clean_right: IntArray | None = None
    whose: str = ""  # as of a point
    coverage: FloatArray = field(init=False)
    accuracy: FloatArray = field(init=False)
    clean_coverage: FloatArray = field(init=False)
    clean_accuracy: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        # Where nobody wrong can be accepted and nobody right must be, whoever is accepted is right.
        least = np.where(self.accepted > 0, self.right / np.maximum(self.accepted, 1), 1.0)
        shown = {"coverage": self.certain / self.inputs, "accuracy": np.where(self.reachable, least, np.nan)}
        unknown = np.full(len(self.threshold), np.nan)
        accepted = unknown if self.clean_accepted is None else self.clean_accepted
        right = unknown if self.clean_right is None else self.clean_right
        shown["clean_coverage"] = accepted / self.inputs
        shown["clean_accuracy"] = np.where(accepted > 0, right / np.maximum(accepted, 1), np.nan)
        for name, values in shown.items():
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.threshold)

    @property
    def risk(self) -> FloatArray:
        """The largest share of wrong ones among those accepted, shape (t,)."""
        # 1 − accuracy would round twice.
        return np.where(self.reachable, (self.accepted - self.right) / np.maximum(self.accepted, 1), np.nan)

    def __getitem__(self, position: int) -> OperatingPoint:
        own = {one.name: getattr(self, one.name) for one in fields(OperatingPoint)}
        return OperatingPoint(
            **{name: part[position].item() if isinstance(part, np.ndarray) else part for name, part in own.items()}
        )


def _percent(share: float) -> str:
    """A share as it may be promised: rounded down."""
    return f"{np.floor(share * 1000 + 1e-9) / 10:.1f} %"
