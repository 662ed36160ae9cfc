"""Functions of one noisy score that never fall, and the limits from which their means are certified at any radius.

Proof: docs/recalibration.md, "Inside the expectation".
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from certcal.certificates.limits import clopper_pearson_limits, dkw_limits
from certcal.certificates.radius import certify_radii
from certcal.certificates.shares import shares_of_alpha
from certcal.errors import InputError
from certcal.inputs import as_probabilities
from certcal.scalars import check_choice
from certcal.settings import PREDICTION_SHARE, Method, RunnerUp, checks
from certcal.smoothing import CELLS, Evidence
from certcal.types import ArrayLike, BoolArray, FloatArray

# Methods whose limits are of P(score ≥ s) at each threshold. The others know the mean of the score itself alone.
_BANDS = {Method.CDF: dkw_limits, Method.CDF_CP: clopper_pearson_limits}


class StepFunction(Protocol):
    """A function of the score that has one value on each cell of the threshold grid and never falls."""

    @property
    def levels(self) -> FloatArray:
        """Its values, shape (256,)."""


class TailLimits:
    """Limits of P(score ≥ s) of every input at every threshold, and who is certified: what score maps are fitted to."""

    def __init__(
        self,
        evidence: Evidence,
        *,
        alpha: float,
        method: str = Method.CDF_CP,
        split_alpha: bool = True,
        prediction_share: float = PREDICTION_SHARE,
        runner_up: str = RunnerUp.COMPLEMENT,
    ) -> None:
        _check_tails(check_choice("method", method, tuple(Method)))
        first, second = shares_of_alpha(alpha, split_alpha=split_alpha, prediction_share=prediction_share)
        self.evidence = evidence
        self._radius = certify_radii(evidence, alpha=first, runner_up=runner_up).radius
        self._limits = _BANDS[Method(method)](evidence, second)

    def certified(self, radius: float) -> BoolArray:
        """Which inputs are certified at a radius, shape (n,)."""
        return np.asarray(self._radius >= checks.radius("radii", radius))

    def at(self, radius: float, rows: BoolArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Lower and upper limits of some inputs within a radius, (rows, 255), in order and some rows at a time."""
        return self._limits.tails(self.evidence.header.shift(radius), rows)


def levels_of(score_map: StepFunction, method: str, temperature: float) -> FloatArray:
    """The values of a map of scores; an `InputError` if it is none, the method cannot certify it, or its scores differ.

    A map keeps the temperature of the scores that it was fitted to, and deployment divides logits by it.
    """
    if not hasattr(score_map, "levels"):
        wanted = "be a map of scores, from `fit_score_map` (others: `evaluate(recalibration=…)`)"
        raise InputError.expected("score_map", wanted, type(score_map).__name__)
    fitted = getattr(score_map, "divisor", None)
    if fitted not in (None, temperature):
        wanted = f"be fitted at the temperature {temperature:g} of the evidence"
        raise InputError.expected("score_map", wanted, f"one for `evidence.at_temperature({fitted:g})`")
    _check_tails(method)
    return as_levels(score_map.levels)


def as_levels(levels: ArrayLike) -> FloatArray:
    """The values of a step function on the cells of the grid: 256 of them in [0, 1] that never fall."""
    values = as_probabilities("levels", levels)
    if len(values) != CELLS:
        raise InputError.expected("levels", f"be {CELLS} values, one for each cell of the grid", len(values))
    if (np.diff(values) < 0).any():
        raise InputError.expected("levels", "never fall", f"a fall at index {int(np.argmax(np.diff(values) < 0)) + 1}")
    return values


def _check_tails(method: str) -> None:
    if method not in _BANDS:
        raise InputError.expected("method", "be 'cdf' or 'cdf-cp' with a map of scores", f"'{method}'")
