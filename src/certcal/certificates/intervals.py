"""The one noun of all certificates: per input, its class stays and its confidence stays between two bounds.

`Stated` makes it of bounds from elsewhere, with what their maker says of all of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from certcal.errors import InputError, several
from certcal.inputs import as_class_numbers, check_each, check_same_length
from certcal.scalars import check_choice, check_number, exactly
from certcal.settings import PREDICTION_SHARE, TERMS, Domain, Norm, RunnerUp, checks
from certcal.shown import ShownRows, by_row
from certcal.smoothing import Counts
from certcal.types import ArrayLike, BoolArray, FloatArray

_PER_INPUT = (
    "lower", "upper", "confidence", "predicted", "correct", "index", "label", "certified", "certified_radius",
)  # fmt: skip


class BoundsOf(np.ndarray[Any, np.dtype[np.float64]]):
    """Bounds that know how many of their inputs are not certified; a part or a copy of them knows nothing.

    With these inputs among the others a worst case would be too small, and look exact.
    """

    uncertified: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceIntervals(ShownRows):
    """Certificates of the n inputs at one radius R: the class stays (C1), its confidence stays in [lower, upper] (C2).

    "Confidence" is the model's probability of the predicted class A, bounded both ways, not the largest probability of
    any class. The model is the smoothed one where the bounds come from noise, and the network itself elsewhere. What
    whoever made the bounds did not say is NaN: `evaluate` asks for it.
    """

    lower: FloatArray  # (n,) bounds of the confidence at every point within R; hold whether or not A is certified
    upper: FloatArray  # (n,)
    confidence: FloatArray  # (n,) at the input itself, in [lower, upper]; an estimate where the model is smoothed
    predicted: Counts  # (n,) class A; of a smoothed model, chosen by the selection draws
    correct: BoolArray  # (n,) whether A is the label
    index: Counts  # (n,) position of the input in its data set
    label: Counts  # (n,) true class
    certified: BoolArray  # (n,) whether certified_radius ≥ R; an abstained input is not
    certified_radius: FloatArray  # (n,) within which A stays the prediction; NaN where that certificate abstains
    radius: float  # R
    alpha: float  # error probability per input: of both certificates if split_alpha, of each if not; 0 if proven
    method: str  # a `Method` for bounds from noise, or how else they were made
    split_alpha: bool = True
    prediction_share: float = PREDICTION_SHARE  # of an alpha that is split
    runner_up: RunnerUp = RunnerUp.COMPLEMENT
    delta_share: float = 1.0  # of delta, that a claim about the population may spend at this look at the draws
    norm: Norm = Norm.L2  # in which R is measured
    domain: Domain = Domain.EVERYWHERE  # where inputs may be moved to
    other: FloatArray | None = None  # (n,) which no confidence exceeds where another class is predicted; None: unknown
    least: float = 0.0  # below which no confidence of any class falls, such as where a map begins
    temperature: float = 1.0  # that the model's logits are divided by, beside what the model does itself
    content: Counts | None = None  # (n,) made from each input's values; None: nobody said what the inputs are
    bands: FloatArray | None = None  # (k, 2) rising ends of what confidences are confined to, by a map; None: nothing
    indexed: bool = True  # whether the index was given; if not, it counts the rows, and says nothing of the inputs
    origin: Mapping[str, Any] | None = None  # sigma, model, units, and digests of maps before; None: from elsewhere
    drawn: Counts | None = None  # (n,) made from which draws an input's bounds rest on; None: from elsewhere
    mapped_by: tuple[Any, ...] = ()  # the maps that confidences went through, in this order
    unmapped: FloatArray | None = None  # (n,) confidences before maps of the mean; None: there was none

    def __post_init__(self) -> None:
        own = np.asarray(self.lower).view(BoundsOf)
        own.uncertified = int(np.size(self.certified) - np.count_nonzero(self.certified))
        object.__setattr__(self, "lower", own)

    def __repr__(self) -> str:
        kept = int(np.count_nonzero(self.certified))
        at = "" if math.isnan(self.radius) else f" at R = {exactly(self.radius)}"
        return f"ConfidenceIntervals({several(len(self))}, {kept} certified{at}, method {self.method})"

    def __len__(self) -> int:
        return len(self.lower)

    def as_dicts(self) -> list[dict[str, Any]]:
        """One row per input, as plain dictionaries."""
        return by_row({name: np.asarray(getattr(self, name)).tolist() for name in _PER_INPUT})

    @property
    def level(self) -> float:
        """With which probability one of an input's two certificates may fail: α, or 2 α in the paper's reading."""
        return self.alpha if self.split_alpha else min(2 * self.alpha, 1.0)

    @property
    def terms(self) -> dict[str, Any]:
        """What `confidence_bounds` was asked, but for the radius."""
        return {name: getattr(self, name) for name in TERMS}

    @property
    def farthest(self) -> FloatArray:
        """How far a confidence within R can be from its correctness, whatever class is predicted there, shape (n,).

        The class may stay, with a confidence in [lower, upper]. If it changes and was right, the new one is wrong, with
        a confidence of at most `other`; if it was wrong, the new one may be right, too.   Errs: high.
        """
        stays = np.where(self.correct, 1.0 - self.lower, self.upper)
        wrong = np.ones(len(self)) if self.other is None else self.other
        right = np.where(self.correct, 0.0, 1.0 - self.least)
        return np.minimum(np.nextafter(np.maximum(np.maximum(stays, wrong), right), np.inf), 1.0)

    def worst_case(self, **options: Any) -> Any:
        """The largest calibration error within these bounds, a `Solution`: `certified_calibration_error` of them."""
        # The worst case stands on the certificates, so that this is the one place that asks upwards, when it is called.
        return import_module("certcal.worstcase").certified_calibration_error(self, **options)

    def select(self, keep: BoolArray | Counts) -> "ConfidenceIntervals":
        """The certificates of some of the inputs, chosen by a mask or by positions."""
        keep = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep  # once, which many columns gain from
        kept = {name: getattr(self, name)[keep] for name in _PER_INPUT}
        known = ("other", "content", "drawn", "unmapped")
        kept |= {name: own[keep] for name in known if (own := getattr(self, name)) is not None}
        return replace(self, **kept)


def check_of_one_model(bounds: Sequence[ConfidenceIntervals]) -> None:
    """Refuse bounds of several models, or after several maps, where they stand for one model at several radii."""
    told = {"sigma": "have one sigma", "model": "be of one model", "units": "be measured in one unit",
            "before": "have gone through the same maps", "temperature": "have one temperature"}  # fmt: skip
    known = [{**(own.origin or {}), "temperature": own.temperature} for own in bounds]
    for name, wanted in told.items():
        first, *others = (own.get(name) for own in known)
        for other in others:
            if other != first:
                got = "others" if name in ("model", "before") else f"{first} and {other}"
                raise InputError.expected("bounds", f"{wanted} at every radius", got)


UNSAID = math.nan  # a radius, level or confidence that nobody stated
SINGLE = 1e-6  # confidences may come from networks that round to single precision


def _unsaid(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


@dataclass(frozen=True)
class Stated:
    """What the maker of the bounds says of all of them."""

    method: str
    radius: float = UNSAID
    norm: str = Norm.DECLARED
    alpha: float = 0.0
    domain: str = Domain.EVERYWHERE

    def __post_init__(self) -> None:
        if not _unsaid(self.radius):
            checks.radius("radius", self.radius)
        if not _unsaid(self.alpha):
            check_number("alpha", self.alpha, "lie in [0, 1); 0 if the bounds are proven", lambda a: 0 <= a < 1)
        object.__setattr__(self, "norm", Norm(check_choice("norm", self.norm, tuple(Norm))))
        object.__setattr__(self, "domain", Domain(check_choice("domain", self.domain, tuple(Domain))))

    def intervals(
        self,
        lower: FloatArray,
        upper: FloatArray,
        *,
        labels: Counts,
        predicted: Counts,
        certified: BoolArray,
        confidence: FloatArray | None,
        index: ArrayLike | None = None,
        certified_radius: FloatArray | None = None,
        sums_to_1: bool = True,
        other: FloatArray | None = None,
        indexed: bool = True,
        **known: Any,
    ) -> ConfidenceIntervals:
        """The certificates, after lengths were compared and the confidence was seen to lie between its bounds.

        Where the confidences of all classes sum to 1, no other class has more than A leaves to it.
        """
        at = np.full(len(lower), UNSAID) if confidence is None else confidence
        check_same_length("confidence", at, "lower", lower)
        check_each(
            "confidence",
            ~((at < lower - SINGLE) | (at > upper + SINGLE)),
            "lie between its bounds",
            lambda row: f"{at[row]:.6g}, which is not in [{lower[row]:.6g}, {upper[row]:.6g}], at index {row}",
        )
        lower, upper = np.fmin(lower, at), np.fmax(upper, at)  # a map that jumps would tell them apart
        if certified_radius is None:
            certified_radius = np.where(certified, self.radius, np.nan)
        if sums_to_1:
            other = np.minimum(1.0 - lower + SINGLE, 1.0)
        places = np.arange(len(lower)) if index is None else as_class_numbers("index", index, inputs=len(lower))
        # Rising positions, as certcal writes them, need no sorting.
        if (places[1:] <= places[:-1]).any() and len(np.unique(places)) < len(places):
            values, counts = np.unique(places, return_counts=True)
            got = f"{values[np.argmax(counts)]} {counts.max()} times (are two radii mixed, without a column 'radius'?)"
            raise InputError.expected("index", "name each input once", got)
        return ConfidenceIntervals(
            lower=lower,
            upper=upper,
            confidence=at,
            predicted=predicted,
            correct=np.asarray(predicted == labels),
            index=places,
            label=labels,
            certified=certified,
            certified_radius=certified_radius,
            radius=float(self.radius),
            alpha=float(self.alpha),
            method=self.method,
            norm=Norm(self.norm),
            domain=Domain(self.domain),
            other=other,
            indexed=indexed and index is not None,
            **known,
        )
