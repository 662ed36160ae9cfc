"""Maps that act inside the expectation: on the score of each noisy draw, before the mean over the noise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from certcal.certificates import ConfidenceIntervals, StepFunction, as_levels
from certcal.errors import InputError
from certcal.evaluation import FITTED
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
        parts = self.inside.about, self.outside.about
        for name in ("sigma", "model"):
            own = {part[name] for part in parts if name in part}
            if len(own) > 1:
                raise InputError.expected("outside", f"be fitted to the {name} of the map inside", sorted(own, key=str))
        # What its parts know, and the inputs of both.
        joined = {name: list(dict.fromkeys(value for part in parts for value in part.get(name) or ()))
                  for name in FITTED if any(part.get(name) for part in parts)}  # fmt: skip
        about = {**self.outside.about, **self.inside.about, **self.about, **joined}
        object.__setattr__(self, "about", about)

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
