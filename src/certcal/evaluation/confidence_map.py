"""What an evaluation needs of a map of confidences, whatever fitted it."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import CertcalWarning
from certcal.smoothing import Evidence
from certcal.types import FloatArray

_SOME, _DISTINCT, _FITTED_TO = 16, 0.99, "fitted_to"
FITTED_HERE = (
    "The map was fitted on these inputs or on many of them. Its certificates hold, but its errors here are too good to "
    "speak of other inputs, and there is no population ECE. Evaluate it on inputs that had no part in the fit."
)


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


def sample_of(confidence: FloatArray) -> dict[str, Any]:
    """Confidences of a few of the inputs that a map is fitted to, as a part of its `about`.

    Estimates from draws differ from input to input, so that `warn_if_fitted_to` knows the inputs again. Nothing where
    several share one, as with shares of votes or rounded tables: other inputs have the same values then.
    """
    inner = confidence[(confidence > 0) & (confidence < 1)]
    known = np.unique(inner)
    places = np.linspace(0, len(known) - 1, _SOME).astype(np.intp)
    telling = len(known) >= max(_SOME, _DISTINCT * len(inner))
    return {_FITTED_TO: known[places].tolist()} if telling else {}


def warn_if_fitted_to(own: ConfidenceMap, these: Evidence | ConfidenceIntervals) -> bool:
    """Whether the map was fitted to these inputs, or to many of them, which is told."""
    if isinstance(these, Evidence) and own.divisor is not None:
        these = these.at_temperature(own.divisor)
    # The identity changes nothing, whatever it was meant to be fitted on.
    some: list[float] = [] if own.kind == "identity" else own.about.get(_FITTED_TO) or []
    found = len(some) > 0 and float(np.isin(some, these.confidence).mean()) >= 0.5
    if found:
        warnings.warn(FITTED_HERE, CertcalWarning, stacklevel=3)
    return found
