"""What every worst-case solver returns: a value, which way it errs, and the confidences that attain it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from certcal.shown import ShownRows, by_row
from certcal.types import FloatArray, IntArray


class Kind(StrEnum):
    """How a solution's value relates to the true worst case over all confidences within the bounds."""

    EXACT = "exact"  # equals it, up to rounding: moved up by `stats["rounding"]`, so that it is never below
    LOWER = "lower"  # attained by the witness, so the worst case is at least this: not a certificate
    UPPER = "upper"  # the worst case is at most this


class Status(StrEnum):
    """How the solver ended, as the sentence a user reads."""

    SOLVED = "solved to global optimality"
    BOUNDED = "bounded from above; the confidences are a feasible point"
    EVALUATED = "evaluated at one feasible point"
    STOPPED = "stopped after the requested number of steps; the best feasible point is returned"


@dataclass(frozen=True, eq=False, repr=False)
class Solution(ShownRows):
    """A worst case over all confidences within their bounds.

    Attributes:
        value: the metric at the worst case, as found.
        kind: whether `value` is the exact worst case or a bound of it from one side.
        confidence: the witness, one worst-case confidence per input within its bounds, shape (n,). Keep it in float64:
            many of its values lie one float below a bin's edge, and rounding moves them across.
        bins: the bin each witness confidence falls into, shape (n,); None for scores without bins.
        signs: +1 where a bin is under-confident at the worst case (accuracy above confidence), −1 where it is
            over-confident, shape (b,); means nothing for a bin left empty. None for scores without bins.
        free: what each uncertified input does at the worst case; None if there are none.
        status: how the solver ended.
        stats: counts, settings and diagnostics of the solver.
    """

    value: float
    kind: Kind
    confidence: FloatArray
    bins: IntArray | None = None
    signs: IntArray | None = None
    free: "FreeInput | None" = None
    status: Status = Status.SOLVED
    stats: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind is Kind.UPPER and self.status is Status.SOLVED:  # of what bounds the problem, not of itself
            object.__setattr__(self, "status", Status.BOUNDED)

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else repr(self)

    def as_dicts(self) -> list[dict[str, Any]]:
        """The worst-case confidence of each input, and the bin it falls into."""
        bins = {} if self.bins is None else {"bin": self.bins.tolist()}
        return by_row({"confidence": self.confidence.tolist()} | bins)

    def __repr__(self) -> str:
        inputs = f"{len(self.confidence)}" + (f"+{self.free.count} uncertified" if self.free else "")
        return f"Solution(value={self.value:.6g}, kind={self.kind}, inputs={inputs}, status={self.status!s})"


@dataclass(frozen=True)
class FreeInput:
    """The worst case of an input of which nothing is known: it may be right or wrong, at any confidence."""

    count: int
    confidence: float
    correct: bool
    bin: int
