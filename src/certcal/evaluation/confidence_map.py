"""What an evaluation needs of a map of confidences, whatever fitted it."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from certcal.certificates import ConfidenceIntervals
from certcal.smoothing import Evidence


@runtime_checkable
class ConfidenceMap(Protocol):
    """A map of confidences that never falls, as `recalibrate` and `fit_score_map` give."""

    @property
    def kind(self) -> str:
        """Which kind of map."""

    @property
    def about(self) -> Mapping[str, Any]:
        """How it was fitted."""

    @property
    def divisor(self) -> float | None:
        """What logits are divided by first; None: what the evidence stands at."""

    def certify(self, evidence: Evidence, *, radii: Iterable[float] | float, **terms: Any) -> list[ConfidenceIntervals]:
        """The certificates of the mapped confidences."""

    def intervals(self, bounds: ConfidenceIntervals) -> ConfidenceIntervals:
        """Given certificates, mapped."""
