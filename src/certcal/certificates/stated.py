"""What the maker of bounds says of all of them, and how bounds with that become `ConfidenceIntervals`."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from certcal.certificates.intervals import ConfidenceIntervals
from certcal.errors import InputError
from certcal.inputs import as_class_numbers, check_each, check_same_length
from certcal.scalars import check_choice, check_number
from certcal.settings import Domain, Norm, checks
from certcal.smoothing import Counts
from certcal.types import ArrayLike, BoolArray, FloatArray

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
        sums_to_1: bool = False,
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
            confidence=np.clip(at, lower, upper),
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
