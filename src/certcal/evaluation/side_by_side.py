"""Reports side by side: their differences at the same radii, with their uncertainty, and the inputs that changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation.report import Report
from certcal.evaluation.row import row_at
from certcal.scalars import check_integer, guarded
from certcal.smoothing import Counts
from certcal.types import FloatArray

COMPARED = ("accuracy", "certified_accuracy", "ece", "certified_ece", "joint_ece", "brier", "certified_brier")
_SLOW = ("joint_ece",)  # whose differences have no interval: it takes too long a hundred times
RESAMPLED = tuple(name for name in COMPARED if name not in _SLOW)
LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """A metric of a later report less that of the first, at one radius."""

    value: float
    half: float  # half the width of a 95 % bootstrap interval over the inputs; NaN where there is none

    @property
    def is_clear(self) -> bool:
        """Whether the interval around the value does not hold 0."""
        return abs(self.value) > self.half


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Reports on the same radii, the first of which the others are compared with."""

    names: tuple[str, ...]
    reports: tuple[Report, ...]
    differences: tuple[tuple[Mapping[str, Difference], ...], ...]  # by radius, then by later report
    paired: bool  # whether all are about the same inputs

    @property
    def radii(self) -> tuple[float, ...]:
        """The radii of all reports."""
        return tuple(row.radius for row in self.reports[0])

    def changed(self, position: int) -> Counts:
        """Positions of the inputs whose prediction, or whether it is certified, is not the same in all reports."""
        if not self.paired:
            return np.zeros(0, dtype=np.int64)
        first, *others = (report.bounds[position] for report in self.reports)
        differ = [(own.predicted != first.predicted) | (own.certified != first.certified) for own in others]
        return np.flatnonzero(np.any(differ, axis=0))


@guarded
def compare_reports(reports: Mapping[str, Report], *, resamples: int = 200, seed: int = 0) -> SideBySide:
    """Reports with the same radii, bins and population, side by side, with bootstrap intervals of their differences.

    An interval says how much a difference varies with the choice of inputs: all inputs are drawn again with
    replacement, the same ones for every report where they are about the same inputs. It is an estimate and certifies
    nothing; certified values compare upper bounds, not the errors themselves.

    Paper: —; Efron and Tibshirani (1993), Ch. 13.

    Raises: InputError if there are not two reports, or they were asked for different things.
    """
    check_integer("resamples", resamples, minimum=0)
    if len(reports) < 2:
        raise InputError.expected("reports", "be at least two", len(reports))
    names, found = tuple(reports), tuple(reports.values())
    for own in found[1:]:
        _check_alike(found[0], own)
    paired = all(_same_inputs(found[0], own) for own in found[1:])
    differences = tuple(
        _differences(found, position, resamples, np.random.default_rng([seed, position]), paired)
        for position in range(len(found[0]))
    )
    return SideBySide(names, found, differences, paired)


def _check_alike(first: Report, other: Report) -> None:
    asked = {"radii": [row.radius for row in first], "population": first.population, "bins": len(first.bins)}
    got = {"radii": [row.radius for row in other], "population": other.population, "bins": len(other.bins)}
    for name, value in asked.items():
        if got[name] != value:
            raise InputError.expected("reports", f"have the same {name}, {value}", got[name])


def _same_inputs(first: Report, other: Report) -> bool:
    one, two = first.evidence, other.evidence
    if one is None or two is None:  # bounds from elsewhere do not say which inputs they are about
        return False
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("index", "content", "label"))


def _differences(
    reports: Sequence[Report], position: int, resamples: int, rng: np.random.Generator, paired: bool
) -> tuple[Mapping[str, Difference], ...]:
    drawn = np.full((len(reports), resamples, len(RESAMPLED)), np.nan)
    for turn in range(resamples):
        chosen = None
        for place, report in enumerate(reports):
            if chosen is None or not paired:
                chosen = rng.integers(report.inputs, size=report.inputs)
            drawn[place, turn] = _measured(report, report.bounds[position].select(chosen))
    return tuple(
        {
            name: _difference(
                getattr(reports[place][position], name) - getattr(reports[0][position], name),
                drawn[place, :, own] - drawn[0, :, own] if (own := _column(name)) is not None else np.zeros(0),
            )
            for name in COMPARED
        }
        for place in range(1, len(reports))
    )


def _column(name: str) -> int | None:
    return RESAMPLED.index(name) if name in RESAMPLED else None


def _measured(report: Report, bounds: ConfidenceIntervals) -> list[float]:
    own = row_at(bounds, population=report.population, edges=report.bins.edges, delta=report.delta, metrics=RESAMPLED)
    return [float(getattr(own, name)) for name in RESAMPLED]


def _difference(value: float, drawn: FloatArray) -> Difference:
    kept = drawn[np.isfinite(drawn)]
    if not len(kept) or 2 * len(kept) < len(drawn) or not np.isfinite(value):
        return Difference(value, np.nan)
    low, high = np.quantile(kept, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(value, float(high - low) / 2)
