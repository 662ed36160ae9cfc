"""What an evaluation needs of a map of confidences, whatever fitted it."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals
from certcal.errors import CertcalWarning
from certcal.smoothing import Evidence
from certcal.types import FloatArray

# Two sets may share a few inputs, such as duplicates: two, or a hundredth of the smaller set.
_INPUTS, _COUNT, _MANY, _DUPLICATES, _RARE = "fitted_inputs", "fitted_count", 1024, 2, 0.01
_FITTED_TO, _SOME, _DISTINCT = "fitted_to", 16, 0.99
FITTED_HERE = (
    "The map was fitted on these inputs or on some of them. Its certificates hold, but its errors here are too good to "
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

    @property
    def parts(self) -> "tuple[ConfidenceMap, ...]":
        """Maps that it is made of, each of which was fitted to inputs of its own; none in most."""

    @property
    def stages(self) -> tuple[Any, Any]:
        """The map of each draw's score, if any, and the map of the mean."""

    def certify(self, evidence: Evidence, *, radii: Iterable[float] | float, **terms: Any) -> list[ConfidenceIntervals]:
        """The certificates of the mapped confidences."""

    def intervals(self, bounds: ConfidenceIntervals) -> ConfidenceIntervals:
        """Given certificates, mapped."""


def sample_of(these: Evidence | ConfidenceIntervals | FloatArray) -> dict[str, Any]:
    """Some of the inputs that a map is fitted to, as a part of its `about`, by which `warn_if_fitted_to` knows them.

    By what they hold, where that is known, and by their confidences: estimates from draws differ from input to input.
    Not by what several share, as duplicates do, shares of votes or rounded tables: other inputs have it, too.
    """
    content, confidence = (None, these) if isinstance(these, np.ndarray) else (these.content, these.confidence)
    inner = confidence[(confidence > 0) & (confidence < 1)]
    inputs: dict[str, Any] = {} if content is None else _spread(_INPUTS, content, _MANY)
    if inputs and content is not None:
        inputs[_COUNT] = len(np.unique(content))
    return inputs | _spread(_FITTED_TO, inner, _SOME)


def _spread(name: str, values: NDArray[Any], most: int) -> dict[str, list[Any]]:
    known = np.unique(values)
    places = np.linspace(0, len(known) - 1, min(most, len(known))).astype(np.intp)
    telling = len(known) >= max(_SOME, _DISTINCT * len(values))
    return {name: known[places].tolist()} if telling else {}


def warn_if_fitted_to(own: ConfidenceMap, these: Evidence | ConfidenceIntervals) -> bool:
    """Whether the map, or a part of it, was fitted to these inputs, or to some of them, which is told."""
    found = _was_fitted_to(own, these, own.divisor)
    if found:
        warnings.warn(FITTED_HERE, CertcalWarning, stacklevel=3)
    return found


def warn_of_maps_of(bounds: ConfidenceIntervals) -> bool:
    """Whether a map that these confidences went through was fitted to some of their inputs, which is told."""
    seen = bounds if bounds.unmapped is None else replace(bounds, confidence=bounds.unmapped)
    for one in bounds.mapped_by:
        if isinstance(one, ConfidenceMap):
            if warn_if_fitted_to(one, seen):
                return True
            seen = replace(seen, confidence=one.stages[1].transform(seen.confidence))
    return False


def _was_fitted_to(own: ConfidenceMap, these: Evidence | ConfidenceIntervals, divisor: float | None) -> bool:
    if own.kind == "identity":  # which changes nothing, whatever it was meant to be fitted on
        return False
    if any(_was_fitted_to(part, these, divisor) for part in own.parts):
        return True
    inputs, confidences = (own.about.get(name) or [] for name in (_INPUTS, _FITTED_TO))
    if inputs and these.content is not None:
        # Of many inputs the map knows a share: of those it has in common with these, one sees no more.
        count: int = max(len(inputs), own.about.get(_COUNT, 0))
        common = max(_DUPLICATES, _RARE * min(count, len(these.content)))
        return int(np.isin(inputs, these.content).sum()) > max(1.0, common * len(inputs) / count)
    seen = these.at_temperature(divisor) if isinstance(these, Evidence) and divisor is not None else these
    return len(confidences) > 0 and bool(np.isin(confidences, seen.confidence).mean() >= 0.25)
