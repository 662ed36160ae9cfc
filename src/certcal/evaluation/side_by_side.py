"""Reports side by side: their differences at the same radii, with their uncertainty, and the inputs that changed."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy import special

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation.report import Report
from certcal.evaluation.row import Row, row_at
from certcal.scalars import check_integer, guarded
from certcal.settings import Population
from certcal.smoothing import Counts
from certcal.types import BoolArray, FloatArray, IntArray

SHARES = ("certified_share", "accuracy", "certified_accuracy")  # of all inputs; more is better
ERRORS = ("ece", "certified_ece", "joint_ece", "brier", "certified_brier")  # of the inputs compared; less is better
COMPARED = (*SHARES, *ERRORS)
LEVEL = 0.95
LEAST_INPUTS = 20  # below which a bootstrap sees too little of how a difference varies, and calls chance clear
LEAST_RESAMPLES, MAX_RESAMPLES = 100, 100_000  # the fewest have five beyond the level


@dataclass(frozen=True)
class Difference:
    """A metric of a later report less that of the first, at one radius."""

    value: float
    half: float  # half the width of its bootstrap interval, NaN where there is none; a table's hold together at 95 %
    better: bool | None = None  # which way, where its interval does not hold 0; None for errors of different inputs
    too_few: bool = False  # whether it is of fewer inputs than can tell; it has no interval then

    @property
    def is_clear(self) -> bool:
        """Whether one of the two is clearly better."""
        return self.better is not None


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Reports on the same radii, the first of which the others are compared with."""

    names: tuple[str, ...]
    reports: tuple[Report, ...]
    rows: tuple[tuple[Row, ...], ...]  # by radius, then by report; errors are of the inputs compared
    differences: tuple[tuple[Mapping[str, Difference], ...], ...]  # by radius, then by later report
    paired: bool  # whether all are about the same inputs
    remarks: tuple[str, ...] = ()  # on what else is not the same in the runs

    @property
    def in_common(self) -> bool:
        """Whether errors are of the inputs that all reports certify: not those of each report's own rows."""
        return self.paired and self.reports[0].population is Population.CERTIFIED

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


def check_resamples(resamples: int) -> int:
    """How often to draw inputs again: often enough to know a spread, or not at all."""
    times = check_integer("resamples", resamples, minimum=0, maximum=MAX_RESAMPLES)
    if 0 < times < LEAST_RESAMPLES:
        raise InputError.expected("resamples", f"be 0 or at least {LEAST_RESAMPLES}", times)
    return times


@guarded
def compare_reports(reports: Mapping[str, Report], *, resamples: int = 200, seed: int = 0) -> SideBySide:
    """Reports with the same radii, bins and population, side by side, with bootstrap intervals of their differences.

    Errors and scores are compared on the same inputs: where reports are about the certified ones, on those that all
    certify at the radius. Each report by itself is about its own, and one that certifies more has harder ones among
    them. Reports about different inputs have their own errors, and none is called better. Inputs are the same by index,
    label and content, in whatever order a report has them.

    An interval says how much a difference varies with the choice of inputs and with their draws: all inputs are drawn
    again with replacement, each with the draws it has, the same ones for every report where they are about the same
    inputs. Draws of different inputs are independent, so this holds their share of the variation too. All intervals
    of a table hold together at the level. They are estimates and certify nothing; certified values compare upper
    bounds, not the errors themselves. Of fewer than 20 inputs no difference has an interval, and none is called better.

    Paper: —; Efron and Tibshirani (1993), Ch. 13; Westfall and Young (1993), Sec. 2.5, for the joint level.

    Raises: InputError if there are not two reports, or they were asked for different things.
    """
    check_resamples(resamples)
    if len(reports) < 2:
        raise InputError.expected("reports", "be at least two", len(reports))
    for pair in combinations(reports.values(), 2):
        _check_alike(*pair)
    names, first = tuple(reports), next(iter(reports.values()))
    found = tuple(_in_order_of(first, own) for own in reports.values())
    paired = all(_same_inputs(found[0], own) for own in found[1:])
    bounds = _compared(found, paired)
    rows = tuple(
        tuple(_row(report, position, own) for report, own in zip(found, beside, strict=True))
        for position, beside in enumerate(bounds)
    )
    inputs, half = _inputs(found, rows), None
    enough = inputs >= LEAST_INPUTS
    if resamples:
        drawn = _drawn(found, bounds, resamples, np.random.default_rng(seed), paired)
        half = _halves(np.where(enough, drawn, np.nan), inputs)
    return SideBySide(names, found, rows, _differences(rows, half, enough, paired), paired)


def _check_alike(first: Report, other: Report) -> None:
    asked, got = (
        {
            "norm": str(own.bounds[0].norm),
            "units": None if own.evidence is None else own.evidence.header.units,  # which bounds do not say
            "radii": [row.radius for row in own],
            "population": own.population,
            "bins": len(own.bins),
        }
        for own in (first, other)
    )
    for name, value in asked.items():
        if got[name] != value and None not in (value, got[name]):
            raise InputError.expected("reports", f"have the same {name}, {value}", got[name])


def _in_order_of(first: Report, other: Report) -> Report:
    """The other report with its inputs in the first's order, if both name the same by index; if not, as it is."""
    one, two = (own.bounds[0] for own in (first, other))
    here, there = np.argsort(one.index), np.argsort(two.index)
    if np.array_equal(one.index, two.index) or not np.array_equal(one.index[here], two.index[there]):
        return other
    rows = there[np.argsort(here)]
    evidence = None if other.evidence is None else other.evidence.select(rows)
    return replace(other, bounds=tuple(own.select(rows) for own in other.bounds), evidence=evidence)


def _same_inputs(first: Report, other: Report) -> bool:
    """Whether inputs have the same numbers and labels, and, where evidence says it, the same content.

    Rows that are only counted may be any inputs: those of two sets with the classes in one order have the same labels.
    """
    one, two = first.bounds[0], other.bounds[0]
    if not (one.indexed and two.indexed):
        return False
    pairs = [(one.index, two.index), (one.label, two.label)]
    if first.evidence is not None and other.evidence is not None:
        pairs.append((first.evidence.content, other.evidence.content))
    return all(np.array_equal(*pair) for pair in pairs)


def _compared(reports: Sequence[Report], paired: bool) -> list[list[ConfidenceIntervals]]:
    """By radius and report, bounds in which only the inputs compared count as certified.

    They stay bounds of all inputs, which is what the certificates that may fail are counted among: of at most K that
    fail in the whole set, at most K fail in any part of it, however it was chosen (docs/guarantee.md).
    """
    at_radius = [list(own) for own in zip(*(report.bounds for report in reports), strict=True)]
    if not (paired and reports[0].population is Population.CERTIFIED):
        return at_radius
    by_all = [np.logical_and.reduce([own.certified for own in beside]) for beside in at_radius]
    return [
        [replace(own, certified=common) for own in beside] for beside, common in zip(at_radius, by_all, strict=True)
    ]


def _row(report: Report, position: int, compared: ConfidenceIntervals) -> Row:
    """The report's row, with the errors of the inputs compared."""
    own, errors = report[position], _errors(report, compared)
    return replace(own, **{name: getattr(errors, name) for name in ("inputs", *ERRORS)})


def _inputs(reports: Sequence[Report], rows: Sequence[Sequence[Row]]) -> IntArray:
    """How many inputs each difference is of, the fewer of two reports' own, shape (later, radii, metrics)."""
    found = [
        [[report.inputs if name in SHARES else beside[place].inputs for name in COMPARED] for beside in rows]
        for place, report in enumerate(reports)
    ]
    return np.minimum(found[1:], found[:1])


def _differences(
    rows: Sequence[Sequence[Row]], half: FloatArray | None, enough: BoolArray, paired: bool
) -> tuple[tuple[Mapping[str, Difference], ...], ...]:
    """By radius and later report, each metric's difference from the first report and half its interval."""

    def apart(position: int, place: int, name: str) -> Difference:
        value = getattr(rows[position][place], name) - getattr(rows[position][0], name)
        where = place - 1, position, COMPARED.index(name)
        if half is None or not np.isfinite(value) or not enough[where]:
            return Difference(value, np.nan, too_few=not enough[where])
        spread = float(half[where])
        clear = abs(value) > spread and (paired or name in SHARES)
        return Difference(value, spread, (value > 0) == (name in SHARES) if clear else None)

    return tuple(
        tuple({name: apart(position, place, name) for name in COMPARED} for place in range(1, len(beside)))
        for position, beside in enumerate(rows)
    )


def _drawn(
    reports: Sequence[Report],
    bounds: Sequence[Sequence[ConfidenceIntervals]],
    resamples: int,
    rng: np.random.Generator,
    paired: bool,
) -> FloatArray:
    """Differences from the first report when all inputs are drawn again, shape (resamples, later, radii, metrics).

    The inputs drawn are the same at all radii, so that the differences of one resample belong together.
    """
    found = np.empty((resamples, len(reports), len(bounds), len(COMPARED)))
    for turn in range(resamples):
        chosen = None
        for place, report in enumerate(reports):
            if chosen is None or not paired:
                chosen = rng.integers(report.inputs, size=report.inputs)
            for position, beside in enumerate(bounds):
                own = report.bounds[position]
                shares = (own.certified, own.correct, own.certified & own.correct)
                found[turn, place, position, : len(SHARES)] = [share[chosen].mean() for share in shares]
                errors = _errors(report, beside[place].select(chosen))
                found[turn, place, position, len(SHARES) :] = [getattr(errors, name) for name in ERRORS]
    return found[:, 1:] - found[:, :1]


def _halves(drawn: FloatArray, inputs: IntArray) -> FloatArray:
    """Half the widths of intervals that all hold together at the level, one for each difference; NaN where unknown.

    Each is a multiple of its standard deviation, the same for all: that which the largest of all standardised
    differences stays below. Without it one of a hundred differences would seem clear by chance in every table.
    Its standard deviation is itself learned, from few inputs and few resamples: each has the multiple of Student's t
    that is exceeded as seldom.
    """
    known = 2 * np.isfinite(drawn).sum(axis=0) >= len(drawn)
    values = np.where(known & np.isfinite(drawn), drawn, np.nan)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of differences that nobody knows
        mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        away = np.where(spread > 0, np.abs(values - mean) / spread, 0.0)
        largest = np.nanmax(away.reshape(len(drawn), -1), axis=1)
    others = np.maximum(inputs - 1, 1)
    freedom = 1 / (1 / others + 1 / len(drawn))
    multiple = np.abs(special.stdtrit(freedom, special.ndtr(-np.nanquantile(largest, LEVEL, method="weibull"))))
    return np.where(known, multiple * np.sqrt(1 + 1 / others) * spread, np.nan)


def _errors(report: Report, bounds: ConfidenceIntervals) -> Row:
    """The errors alone, of the bounds' certified inputs or of all.

    All of delta is spent on failed certificates, also where a report has the best of three claims, each with its part.
    """
    return row_at(
        bounds,
        population=report.population,
        edges=report.bins.edges,
        delta=report.delta,
        metrics=("inputs", *ERRORS),
    )
