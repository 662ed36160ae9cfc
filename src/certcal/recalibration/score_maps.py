"""Maps that act inside the expectation: on the score of each noisy draw, before the mean over the noise."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from certcal.certificates import ConfidenceIntervals, StepFunction, after_scores, as_levels
from certcal.errors import CertcalWarning, InputError
from certcal.inputs import as_probabilities
from certcal.recalibration.maps import AnyMap, IdentityMap, RecalibrationMap
from certcal.settings import checks
from certcal.smoothing import threshold_grid
from certcal.types import ArrayLike, FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class ScoreMap(AnyMap):
    """A step function h of one draw's score, which has the value levels[j] on cell j of the threshold grid.

    The confidence it stands for is E h(score), the mean over the noise. Make one with `fit_score_map` or `load_map`.

    >>> ScoreMap([0.25] * 128 + [0.75] * 128).transform([0.1, 0.9]).tolist()
    [0.25, 0.75]
    """

    levels: FloatArray  # (256,) in [0, 1], non-decreasing
    about: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "score"

    def __post_init__(self) -> None:
        levels = as_levels(self.levels).copy()  # whoever gave the array may write to it later
        levels.flags.writeable = False
        object.__setattr__(self, "levels", levels)

    @property
    def stages(self) -> tuple["ScoreMap", RecalibrationMap]:
        """The map itself; nothing outside."""
        return self, IdentityMap()

    def transform(self, score: ArrayLike) -> FloatArray:
        """h of scores of single draws, shape (n,)."""
        scores = as_probabilities("score", score, allow_empty=True)
        return np.asarray(self.levels[np.searchsorted(threshold_grid()[1:-1], scores, side="right")])


@dataclass(frozen=True, eq=False, repr=False)
class FullMap(AnyMap):
    """A map of each draw's score, then a map of their mean: g(E h(score))."""

    inside: ScoreMap
    outside: RecalibrationMap
    about: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "full"

    def __post_init__(self) -> None:
        for name, kind, maker in (("inside", ScoreMap, "fit_score_map"), ("outside", RecalibrationMap, "recalibrate")):
            if not isinstance(getattr(self, name), kind):
                raise InputError.expected(name, f"be a map from `{maker}`", type(getattr(self, name)).__name__)
        first, then = self.inside.about, self.outside.about
        for name in ("sigma", "model", "units"):
            if name in first and name in then and first[name] != then[name]:
                got = f"{then[name]}, not {first[name]}"
                raise InputError.expected("outside", f"be fitted to the {name} of the map inside", got)
        if then.keys() & {"sigma", "temperature", "before"}:  # fitted to bounds, not made by hand
            if self.inside.divisor != self.outside.divisor:
                got = " and ".join(f"{part.divisor or 1.0:g}" for part in self.parts)
                raise InputError.expected("outside", "be fitted at the temperature of the map inside", got)
            if then.keys() & {"sigma", "before"} and then.get("before") != after_scores(self.inside.levels):
                told = "The map outside was not fitted to what the map inside gives. Certificates hold; is it meant?"
                warnings.warn(told, CertcalWarning, stacklevel=4)
        object.__setattr__(self, "about", {**then, **first, **self.about})  # what its parts know

    @property
    def stages(self) -> tuple[ScoreMap, RecalibrationMap]:
        """Both."""
        return self.inside, self.outside


@dataclass(frozen=True, eq=False, repr=False)
class TemperedMap(AnyMap):
    """Logits divided by a temperature, one that the evidence was drawn for, then a map of what comes of them."""

    temperature: float
    then: AnyMap
    about: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "tempered"

    def __post_init__(self) -> None:
        checks.positive("temperature", self.temperature)
        fits = isinstance(self.then, AnyMap) and self.then.divisor in (None, self.temperature)
        if not fits or isinstance(self.then, TemperedMap):
            raise InputError.expected("then", "be a map without a temperature of its own", type(self.then).__name__)

    @property
    def stages(self) -> tuple[StepFunction | None, RecalibrationMap]:
        """Those of the map, after the temperature."""
        return self.then.stages

    @property
    def divisor(self) -> float:
        """What logits are divided by."""
        return self.temperature

    def intervals(self, bounds: ConfidenceIntervals) -> ConfidenceIntervals:
        """Refused: bounds at another temperature follow from draws alone."""
        raise InputError.expected("recalibration", "map confidences: a temperature needs their draws", self.kind)
