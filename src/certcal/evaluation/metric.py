"""How a metric is declared: what it is called, how it is computed, to which side it is rounded, where it is shown."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.metrics import Bins, Miscalibration, Ranks, Sharpness, bin_sums, miscalibration_of, sharpness
from certcal.scalars import exactly
from certcal.settings import Population
from certcal.types import BoolArray, FloatArray, IntArray
from certcal.worstcase import (
    Solution,
    WorstCaseProblem,
    allowed_failures,
    equal_count_calibration_error,
    solve_exact,
)


class Rounding(StrEnum):
    """To which side a shown value may move."""

    UP = "up"  # certified errors
    DOWN = "down"  # certified accuracies, and approximations from below
    NEAREST = "nearest"  # estimates, which claim nothing


_MODES = {Rounding.UP: ROUND_CEILING, Rounding.DOWN: ROUND_FLOOR, Rounding.NEAREST: ROUND_HALF_EVEN}


def percent(value: float, rounding: Rounding, digits: int = 2) -> str:
    """A share as text in percent, rounded to one side."""
    return f"{_rounded(100 * _exact(value, rounding), digits, rounding)} %"


def number(value: float, rounding: Rounding, digits: int = 4) -> str:
    """A number as text, rounded to one side."""
    return _rounded(_exact(value, rounding), digits, rounding)


def _exact(value: float, rounding: Rounding) -> Decimal:
    # What is rounded down is a share k / N, the float nearest to it: 191 / 200 is 95.5 %, though its float lies below.
    # What is rounded up is a bound that the float itself states.
    return Decimal(repr(value)) if rounding is Rounding.DOWN else Decimal(value)


def _rounded(value: Decimal, digits: int, rounding: Rounding) -> str:
    return format(value.quantize(Decimal(1).scaleb(-digits), rounding=_MODES[rounding]), "f")  # never as 1E-7


class Before(StrEnum):
    """Whether a report of recalibrated confidences has the metric without the map, too."""

    NO = "no"
    KEPT = "kept"  # in the rows
    SHOWN = "shown"  # and in the tables


@dataclass(frozen=True, eq=False)
class Look:
    """What a value is called and how it is shown, as in a column of a table."""

    label: str
    help: str = ""
    rounding: Rounding = Rounding.NEAREST
    digits: int | None = None  # after the point; None shows whole numbers and radii as they are
    percent: bool = False
    main: bool = False  # among the few that are shown first

    def show(self, value: float | None) -> str:
        """The value as text, rounded to its side; a dash where there is none."""
        if value is None or math.isnan(value):
            return "—"
        if self.digits is None:
            return exactly(value)
        return (percent if self.percent else number)(value, self.rounding, self.digits)


@dataclass(frozen=True, eq=False, kw_only=True)
class Metric(Look):
    """One metric of the certificates at one radius."""

    of: "Callable[[Measured], float]"
    of_all: bool = False  # of all inputs; one that is not is NaN where the row's population is empty
    with_map: bool = False  # only in reports of recalibrated confidences
    before: Before = Before.NO
    table: bool = True  # whether it is a column of page and tables


def metric(label: str, text: str, of: "Callable[[Measured], float]", how: dict[str, Any]) -> Any:
    """A field of `Row` that is a metric. `how` has further fields of `Metric`."""
    return field(default=np.nan, metadata={"metric": Metric(label, text, of=of, **how)})


def three(
    name: str,
    label: str,
    text: str,
    clean: "Callable[[Measured], float]",
    worst: "Callable[[Measured, int], float]",
    *,
    error: bool = True,
    **how: Any,
) -> dict[str, Metric]:
    """A metric beside those of `Row`: without attack, certified, and allowing for certificates that may fail."""
    side: dict[str, Any] = {"rounding": Rounding.UP if error else Rounding.DOWN, "table": False, **how}
    return {
        name: Metric(label, f"{text}, without an attack", of=clean, table=False, **how),
        f"certified_{name}": Metric(f"certified {label}", f"{text}, at its worst", of=lambda at: worst(at, 0), **side),
        f"joint_{name}": Metric(
            f"joint {label}",
            f"{text}, at its worst, allowing for the certificates of the set that may fail",
            of=lambda at: worst(at, at.failures),
            **side,
        ),
    }


@dataclass(eq=False)
class Measured:
    """What the metrics of one set of certificates are computed from; each part is made when first asked for."""

    bounds: ConfidenceIntervals
    population: Population
    bins: Bins
    delta: float
    share: float = 1.0  # of delta, for certificates that may fail
    threshold: float = 0.8
    accept_accuracy: float | None = None
    _equal_count: dict[int, Solution] = field(default_factory=dict)

    @cached_property
    def certified(self) -> int:
        """How many inputs are certified at R."""
        return int(self.bounds.certified.sum())

    @property
    def inputs(self) -> int:
        """How many inputs the population has."""
        return len(self.bounds) if self.population is Population.ALL else self.certified

    @cached_property
    def clean(self) -> tuple[FloatArray, BoolArray]:
        """Estimated confidences of the population, and which of its predictions are right."""
        return self._of_population("confidence"), self._of_population("correct")

    @cached_property
    def widths(self) -> FloatArray:
        """How wide the confidence intervals of the population are."""
        return np.asarray(self._of_population("upper") - self._of_population("lower"))

    def _of_population(self, name: str) -> Any:
        """A column of the bounds, of the population's inputs."""
        column = getattr(self.bounds, name)
        return column if self.population is Population.ALL else column[self._kept]

    @cached_property
    def _kept(self) -> IntArray:
        """Where the certified inputs are; NumPy takes by positions four times as fast as by flags."""
        return np.flatnonzero(self.bounds.certified)

    @cached_property
    def miscalibration(self) -> Miscalibration:
        """Which way the estimated confidences of the population err."""
        return miscalibration_of(bin_sums(*self.clean, self.bins), self.ranks)

    @cached_property
    def ranks(self) -> Ranks:
        """The estimated confidences of the population in order."""
        return Ranks.of(*self.clean)

    @cached_property
    def problem(self) -> WorstCaseProblem:
        """The worst-case problem of the population."""
        return WorstCaseProblem.of(self.bounds, population=self.population, edges=self.bins.edges)

    @cached_property
    def worst(self) -> Solution:
        """The worst case of the calibration error."""
        return solve_exact(self.problem)

    @cached_property
    def failures(self) -> int:
        """How many certificates may fail, counted among all inputs: the draws that fail one also choose the row's."""
        return allowed_failures(self.bounds, delta=self.delta * self.share)

    def equal_count(self, failures: int) -> Solution:
        """The bound of the calibration error in equally filled bins that move, solved once per number of failures."""
        if failures not in self._equal_count:
            options: dict[str, Any] = {"population": self.population, "n_bins": len(self.bins), "failures": failures}
            self._equal_count[failures] = equal_count_calibration_error(self.bounds, **options)
        return self._equal_count[failures]

    @cached_property
    def sharpness(self) -> Sharpness:
        """How well the confidences of all inputs tell right from wrong."""
        return sharpness(self.bounds.confidence, self.bounds.correct, edges=self.bins.edges)

    @property
    def levels(self) -> int:
        """How many confidences inputs have; after a map of steps, how many steps: within one they hardly differ."""
        if self.bounds.bands is None:
            return self.sharpness.levels
        return len(np.unique(np.searchsorted(self.bounds.bands[:, 0], self.bounds.confidence, side="right")))
