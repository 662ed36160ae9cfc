"""Maps of the confidence that never fall as it rises: what recalibration fits, saves and applies.

A map g leaves predictions alone and turns bounds [l, u] of a confidence into bounds [g(l), g(u)] of the mapped one. It
acts on the *smoothed* confidence: g of the mean over the noise, not the mean of g.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from certcal.certificates import ConfidenceIntervals, StepFunction, confidence_bounds_at
from certcal.errors import CertcalWarning, InputError
from certcal.evaluation import sample_of
from certcal.files import plain
from certcal.inputs import as_bounds, as_probabilities, check_same_length
from certcal.scalars import check_number
from certcal.shown import ShownRows, by_row
from certcal.smoothing import Evidence, threshold_grid
from certcal.types import ArrayLike, FloatArray

DOWN, NEAREST, UP = -1, 0, 1  # which way results are rounded
# Parametric maps take logarithms: confidences closer to 0 or 1 than this are mapped like it.
CLAMP = 2.0**-20


class AnyMap(ShownRows, ABC):
    """What confidences may go through: a map of each draw's score, or of their mean, or one after the other."""

    kind: ClassVar[str]
    about: Mapping[str, Any]  # how it was fitted: plain data, kept when saved

    @property
    @abstractmethod
    def stages(self) -> "tuple[StepFunction | None, RecalibrationMap]":
        """The map of each draw's score, if any, and the map of the mean."""

    def parameters(self) -> dict[str, Any]:
        """What the map is made of, as plain data: the arguments that make it again."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "about"}  # type: ignore[arg-type]
        return {name: part.as_dict() if isinstance(part, AnyMap) else plain(part) for name, part in own.items()}

    def __repr__(self) -> str:
        parts = [
            f"{name}: {len(own)} values" if isinstance(own, list) else f"{name}={own!r}"
            for name, own in self.parameters().items()
            if not isinstance(own, dict)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def as_dicts(self) -> list[dict[str, Any]]:
        """What becomes of 256 values from 0 on: of a draw's score, where the map has a part for it, and of the mean."""
        values, (inside, outside) = threshold_grid()[:-1], self.stages
        score = {} if inside is None else {"score": inside.levels.tolist()}
        return by_row({"before": values.tolist()} | score | {"confidence": outside.transform(values).tolist()})

    def as_dict(self) -> dict[str, Any]:
        """The map as plain data."""
        return {"kind": self.kind, **self.parameters(), "about": dict(self.about)}

    @property
    def parts(self) -> "tuple[AnyMap, ...]":
        """Maps that it is made of."""
        own = (getattr(self, one.name) for one in fields(self))  # type: ignore[arg-type]
        return tuple(part for part in own if isinstance(part, AnyMap))

    @property
    def divisor(self) -> float | None:
        """What logits are divided by before the softmax, where the map was fitted so; None: nothing."""
        return self.about.get("temperature")

    def certify(self, evidence: Evidence, *, radii: Iterable[float] | float, **terms: Any) -> list[ConfidenceIntervals]:
        """The certificates of the mapped confidences at each radius; terms as for `confidence_bounds_at`."""
        if self.divisor is not None:
            evidence = evidence.at_temperature(self.divisor)
        self._check_temperature(evidence.temperature)
        self._check_origin(evidence.header.origin)
        inside, outside = self.stages
        found = confidence_bounds_at(evidence, radii=radii, score_map=inside, **terms)
        return [self._signed(outside._mapped(own), own, ()) for own in found]

    def intervals(self, bounds: ConfidenceIntervals) -> ConfidenceIntervals:
        """The certificates of the recalibrated confidences, at the same radius, level and for the same predictions."""
        inside, outside = self.stages
        if inside is not None:
            raise InputError.expected("recalibration", "map confidences: a map of scores needs their draws", self.kind)
        self._check_temperature(bounds.temperature)
        origin = bounds.origin or {}
        fitted_here = self.about.get("before") == origin.get("before")
        if not fitted_here and any(self._equals(one) for one in bounds.mapped_by):
            raise InputError.expected("recalibration", "be given once", "a map that these bounds went through before")
        self._check_origin(origin)
        return self._signed(outside._mapped(bounds), bounds, bounds.mapped_by)

    def _equals(self, other: Any) -> bool:
        """Whether another map does the same to confidences, however it was fitted."""
        same = isinstance(other, AnyMap) and other.kind == self.kind
        return same and other.parameters() == self.parameters()

    def _signed(
        self, mapped: ConfidenceIntervals, given: ConfidenceIntervals, before: tuple[Any, ...]
    ) -> ConfidenceIntervals:
        """Bounds that this map made of those given, after other maps, and that know them all."""
        if self.kind == "identity":
            return mapped
        origin, (_, outside) = dict(given.origin or {}), self.stages
        if outside.kind != "identity":  # as which bounds after a map of scores alone are known already
            passed = repr((origin.get("before", ""), outside.kind, outside.parameters()))
            origin["before"] = sha256(passed.encode()).hexdigest()
        unmapped = given.confidence if given.unmapped is None else given.unmapped
        return replace(mapped, mapped_by=(*before, self), origin=origin or None, unmapped=unmapped)

    def _check_temperature(self, temperature: float) -> None:
        """Refuse confidences at another temperature than deployment divides the logits by."""
        if temperature != (self.divisor or 1.0):
            wanted = f"be fitted at the temperature {temperature:g} of these confidences, or be a TemperedMap"
            raise InputError.expected("recalibration", wanted, f"one at {self.divisor or 1.0:g}")

    def _check_origin(self, origin: Mapping[str, Any]) -> None:
        """Warn of a map that was fitted to another smoothed model. Certificates hold for any map; few fit any model."""
        if self.kind == "identity":  # which changes nothing
            return
        fitted, told = self.about.get("sigma"), []
        if fitted is not None and (sigma := origin.get("sigma", fitted)) != fitted:
            told.append(f"The map was fitted to sigma = {fitted:g}, not {sigma:g}.")
        if "model" in origin:
            told.append(self.other_model(origin["model"]))
        knows = ("sigma" in self.about or "before" in self.about) and self.stages[0] is None
        if knows and self.about.get("before") != origin.get("before"):
            told.append("The map was fitted after other maps than these confidences went through, or after none.")
        for words in filter(None, told):
            said = "The certificates hold, of that model with this map; is it the map you meant?"
            warnings.warn(f"{words} {said}", CertcalWarning, stacklevel=3)

    def other_model(self, fingerprint: str) -> str:
        """That the map was fitted to another model than this, where it was."""
        fitted = self.about.get("model", fingerprint)
        return "" if fitted == fingerprint else f"The map was fitted to model {fitted[:12]}, not {fingerprint[:12]}."

    def told(self, facts: Mapping[str, Any]) -> Self:
        """The same map that knows more of how it was made."""
        return replace(self, about={**self.about, **facts})  # type: ignore[type-var]


def temperature_facts(temperature: float) -> dict[str, float]:
    """What a map must keep of the temperature that it was fitted at: nothing where logits stay as they are."""
    return {} if temperature == 1.0 else {"temperature": temperature}


def facts_of(evidence: Evidence) -> dict[str, Any]:
    """Which smoothed model a map is fitted to, in which units: what deployment has to match; and some of the inputs."""
    return evidence.header.origin | sample_of(evidence)


class RecalibrationMap(AnyMap):
    """A non-decreasing map from [0, 1] to [0, 1]. Make one with `recalibrate` or `load_map`."""

    @property
    def stages(self) -> "tuple[StepFunction | None, RecalibrationMap]":
        """Nothing inside; the map itself."""
        return None, self

    def transform(self, confidence: ArrayLike) -> FloatArray:
        """The recalibrated confidences, shape (n,)."""
        return self._rounded(as_probabilities("confidence", confidence, allow_empty=True), NEAREST)

    def bounds(self, lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Bounds of the recalibrated confidences, rounded outward: any confidence in [l, u] is mapped into them."""
        low, high = as_bounds(lower, upper, allow_empty=True)
        return self._rounded(low, DOWN), self._rounded(high, UP)

    @property
    def bands(self) -> FloatArray | None:
        """Ends of the bands that all its values lie in, (k, 2); None where it has values of many kinds."""
        return None

    def _mapped(self, bounds: ConfidenceIntervals) -> ConfidenceIntervals:
        """The certificates after the map."""
        lower, upper = self.bounds(bounds.lower, bounds.upper)
        confidence = np.clip(self.transform(bounds.confidence), lower, upper)
        # Another class's confidence goes through the same map.
        other = None if bounds.other is None else self.bounds(bounds.other, bounds.other)[1]
        least = float(self.bounds([bounds.least], [bounds.least])[0][0])
        mapped: dict[str, Any] = {"lower": lower, "upper": upper, "confidence": confidence, "bands": self.bands}
        return replace(bounds, **mapped, other=other, least=least)

    @abstractmethod
    def _rounded(self, confidence: FloatArray, direction: int) -> FloatArray:
        """The map, with results moved in `direction` past their rounding error."""


@dataclass(frozen=True, repr=False)
class IdentityMap(RecalibrationMap):
    """Leaves confidences as they are; where no map can be fitted, `about["reason"]` says why."""

    about: Mapping[str, Any] = field(default_factory=dict, compare=False)
    kind: ClassVar[str] = "identity"

    def _mapped(self, bounds: ConfidenceIntervals) -> ConfidenceIntervals:
        return bounds

    def _rounded(self, confidence: FloatArray, direction: int) -> FloatArray:
        return confidence.copy()


@dataclass(frozen=True, eq=False, repr=False)
class IsotonicMap(RecalibrationMap):
    """Straight lines between knots, constant before the first and after the last. Knots rise, values never fall.

    >>> IsotonicMap(x=[0.2, 0.6], y=[0.1, 0.5]).transform([0.0, 0.4, 0.9]).tolist()
    [0.1, 0.30000000000000004, 0.5]
    """

    x: FloatArray  # (k,) knots, strictly increasing in [0, 1]
    y: FloatArray  # (k,) their values, non-decreasing in [0, 1]
    about: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        # Copies: whoever gave the arrays may write to them later, and a map must not fall.
        x, y = as_probabilities("x", self.x).copy(), as_probabilities("y", self.y).copy()
        check_same_length("y", y, "x", x)
        if not ((np.diff(x) > 0).all() and (np.diff(y) >= 0).all()):
            raise InputError.expected("x and y", "rise from knot to knot", "knots or values that fall")
        for values in (x, y):
            values.flags.writeable = False
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)

    def _rounded(self, confidence: FloatArray, direction: int) -> FloatArray:
        # Every step is monotone in floating point, and clipping to the segment's ends makes the whole so. On a flat
        # segment the result is its value exactly, whichever way it is rounded: an ulp could cross the edge of a bin.
        left = np.searchsorted(self.x, confidence, side="right") - 1
        right = np.clip(left + 1, 0, len(self.x) - 1)
        left = np.maximum(left, 0)
        x, y, rise = self.x[left], self.y[left], self.y[right] - self.y[left]
        run = np.where(right > left, self.x[right] - x, 1.0)
        share = np.clip((confidence - x) / run, 0.0, 1.0)
        # Four roundings of numbers below 1.
        return np.clip(y + rise * share + direction * 2.0**-50, y, self.y[right])


@dataclass(frozen=True, repr=False)
class BetaMap(RecalibrationMap):
    """σ(a log z − b log(1 − z) + c) with a, b ≥ 0 and σ the logistic function; z is kept 2⁻²⁰ away from 0 and 1.

    Kull, Silva Filho and Flach (2017). With a = b = 1 / T and c = 0 it is temperature scaling of the binary log-odds.

    >>> BetaMap(a=0.5, b=0.5, c=0.0).transform([0.5, 0.9]).round(6).tolist()
    [0.5, 0.75]
    """

    a: float
    b: float
    c: float
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)
    kind: ClassVar[str] = "beta"

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            check_number(name, getattr(self, name), "lie in [0, 1e4]", lambda value: 0 <= value <= 1e4)
        check_number("c", self.c, "lie in [-1e4, 1e4]", lambda value: -1e4 <= value <= 1e4)

    def _rounded(self, confidence: FloatArray, direction: int) -> FloatArray:
        z = np.clip(confidence, CLAMP, 1.0 - CLAMP)
        # SciPy's logarithms: NumPy's have other last bits on other processors, which a fit that jumps would magnify.
        odds = self.a * scipy.special.xlogy(1.0, z) - self.b * scipy.special.log1p(-z)
        value: FloatArray = scipy.special.expit(odds + self.c)
        # The exponent errs by a few units of rounding of its three terms. Each is at most |exponent| plus terms of at
        # most a, b and |c|, and σ' |exponent| < 1, so twice the error is far below this.
        margin = 2.0**-47 * (1.0 + self.a + self.b + abs(self.c))
        return np.clip(value + direction * margin, 0.0, 1.0)


@dataclass(frozen=True, repr=False)
class TemperatureMap(RecalibrationMap):
    """σ(log(z / (1 − z)) / T): the binary log-odds of the confidence divided by a temperature T > 0.

    T > 1 moves confidences towards 1/2. It acts on the confidence of the predicted class, not on logits.

    >>> TemperatureMap(temperature=2.0).transform([0.5, 0.9]).round(6).tolist()
    [0.5, 0.75]
    """

    temperature: float
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)
    kind: ClassVar[str] = "temperature"

    def __post_init__(self) -> None:
        requirement = "lie in [1e-4, 1e4]"
        check_number("temperature", self.temperature, requirement, lambda value: 1e-4 <= value <= 1e4)

    def _rounded(self, confidence: FloatArray, direction: int) -> FloatArray:
        inverse = 1.0 / self.temperature
        return BetaMap(inverse, inverse, 0.0)._rounded(confidence, direction)
