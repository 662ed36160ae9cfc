"""Reports side by side: their differences at the same radii, with their uncertainty, and the inputs that changed."""

import warnings
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
LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """A metric of a later report less that of the first, at one radius."""

    value: float
    half: float  # half the width of its bootstrap interval, NaN where there is none; a table's hold together at 95 %

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
    remarks: tuple[str, ...] = ()  # on what else is not the same in the runs

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


MAX_RESAMPLES = 100_000


@guarded
def compare_reports(reports: Mapping[str, Report], *, resamples: int = 200, seed: int = 0) -> SideBySide:
    """Reports with the same radii, bins and population, side by side, with bootstrap intervals of their differences.

    An interval says how much a difference varies with the choice of inputs and with their draws: all inputs are drawn
    again with replacement, each with the draws it has, the same ones for every report where they are about the same
    inputs. Draws of different inputs are independent, so this holds their share of the variation too. All intervals
    of a table hold together at the level. They are estimates and certify nothing; certified values compare upper
    bounds, not the errors themselves.

    Paper: —; Efron and Tibshirani (1993), Ch. 13; Westfall and Young (1993), Sec. 2.5, for the joint level.

    Raises: InputError if there are not two reports, or they were asked for different things.
    """
    check_integer("resamples", resamples, minimum=0, maximum=MAX_RESAMPLES)
    if len(reports) < 2:
        raise InputError.expected("reports", "be at least two", len(reports))
    names, found = tuple(reports), tuple(reports.values())
    for own in found[1:]:
        _check_alike(found[0], own)
    paired = all(_same_inputs(found[0], own) for own in found[1:])
    differences = _differences(found, resamples, np.random.default_rng(seed), paired)
    return SideBySide(names, found, differences, paired)


def _check_alike(first: Report, other: Report) -> None:
    asked, got = (
        {
            "norm": str(own.bounds[0].norm),
            "radii": [row.radius for row in own],
            "population": own.population,
            "bins": len(own.bins),
        }
        for own in (first, other)
    )
    for name, value in asked.items():
        if got[name] != value:
            raise InputError.expected("reports", f"have the same {name}, {value}", got[name])


def _same_inputs(first: Report, other: Report) -> bool:
    one, two = first.evidence, other.evidence
    if one is None or two is None:  # bounds from elsewhere do not say which inputs they are about
        return False
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("index", "content", "label"))


def _differences(
    reports: Sequence[Report], resamples: int, rng: np.random.Generator, paired: bool
) -> tuple[tuple[Mapping[str, Difference], ...], ...]:
    """By radius and later report, each metric's difference from the first report and half its interval."""
    first, later = reports[0], reports[1:]
    half = _halves(_drawn(reports, resamples, rng, paired)) if resamples else None

    def apart(position: int, place: int, name: str) -> Difference:
        value = getattr(later[place][position], name) - getattr(first[position], name)
        known = half is not None and np.isfinite(value)
        return Difference(value, float(half[place, position, COMPARED.index(name)]) if known else np.nan)  # type: ignore[index]

    return tuple(
        tuple({name: apart(position, place, name) for name in COMPARED} for place in range(len(later)))
        for position in range(len(first))
    )


def _drawn(reports: Sequence[Report], resamples: int, rng: np.random.Generator, paired: bool) -> FloatArray:
    """Differences from the first report when all inputs are drawn again, shape (resamples, later, radii, metrics).

    The inputs drawn are the same at all radii, so that the differences of one resample belong together.
    """
    found = np.empty((resamples, len(reports), len(reports[0]), len(COMPARED)))
    for turn in range(resamples):
        chosen = None
        for place, report in enumerate(reports):
            if chosen is None or not paired:
                chosen = rng.integers(report.inputs, size=report.inputs)
            found[turn, place] = [_measured(report, own.select(chosen)) for own in report.bounds]
    return found[:, 1:] - found[:, :1]


def _halves(drawn: FloatArray) -> FloatArray:
    """Half the widths of intervals that all hold together at the level, one for each difference; NaN where unknown.

    Each is a multiple of its standard deviation, the same for all: that which the largest of all standardised
    differences stays below. Without it one of a hundred differences would seem clear by chance in every table.
    """
    known = 2 * np.isfinite(drawn).sum(axis=0) >= len(drawn)
    values = np.where(known & np.isfinite(drawn), drawn, np.nan)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of differences that nobody knows
        mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        away = np.where(spread > 0, np.abs(values - mean) / spread, 0.0)
        largest = np.nanmax(away.reshape(len(drawn), -1), axis=1)
    return np.where(known, np.nanquantile(largest, LEVEL) * spread, np.nan)


def _measured(report: Report, bounds: ConfidenceIntervals) -> list[float]:
    own = row_at(bounds, population=report.population, edges=report.bins.edges, delta=report.delta, metrics=COMPARED)
    return [float(getattr(own, name)) for name in COMPARED]
