"""Why a guaranteed error is as high as it is, and what would lower it: estimates, from the same evidence.

Nothing here is certified. Draws that were not made are foreseen by counting those that were several times.
"""

from dataclasses import dataclass, replace

import numpy as np

from certcal.certificates import ConfidenceIntervals, confidence_bounds_at
from certcal.evaluation.report import Report
from certcal.evaluation.row import row_at
from certcal.metrics import expected_calibration_error
from certcal.scalars import check_integer, guarded
from certcal.settings import Population, checks
from certcal.smoothing import Evidence, cell_middles
from certcal.worstcase import certified_calibration_error

ENDLESS = 1000  # times the draws: within a tenth of a point of the million that takes five times as long
SHARPER, SOFTER = 0.25, 2.0  # temperatures that are foreseen
BITS = 9  # of counts: few different ones have limits that are quickly found
SPREAD = 200  # inputs that are looked at, evenly spread: five further sets of bounds for all would take longest of all


@dataclass(frozen=True)
class Gap:
    """A guaranteed calibration error at one radius, taken apart; NaN where nothing is certified there."""

    radius: float
    clean: float  # without an attack
    adversary: float  # what moving each input by R adds, with endless draws
    uncertified: float  # what inputs without a certificate add, where they count
    sampling: float  # what the finite number of draws adds, with the certificates that may fail
    guaranteed: float  # the sum
    more_draws: float  # the guaranteed error foreseen with `planned_draws`
    half_radius: float  # the same inputs' guaranteed error at R / 2
    sharper: float  # foreseen with logits divided by 1/4 before smoothing, as if there were two classes
    softer: float  # with logits divided by 2


@guarded
def split_gap(report: Report) -> list[Gap]:
    """Each row's guaranteed calibration error, taken apart. Estimates from 200 inputs; they add up to the guarantee.

    Paper: —; docs/report.md.
    """
    radii = [row.radius for row in report.rows]
    evidence = report.evidence
    if report.recalibration is not None or evidence is None:
        raise ValueError("the effect of a map, or of bounds from elsewhere, is not foreseen")
    every = np.unique(np.linspace(0, len(evidence) - 1, min(len(evidence), SPREAD)).round().astype(np.int64))
    evidence = _coarse(evidence.select(every))
    report = replace(report, bounds=tuple(own.select(every) for own in report.bounds))
    times = max(1, planned_draws(evidence) // int(evidence.draws.max()))
    asked = {"radii": radii, **report.terms}
    more, endless = (confidence_bounds_at(with_more_draws(evidence, one), **asked) for one in (times, ENDLESS))
    nearer = confidence_bounds_at(evidence, **asked | {"radii": [radius / 2 for radius in radii]})
    sharp, soft = (confidence_bounds_at(with_temperature(evidence, t), **asked) for t in (SHARPER, SOFTER))
    return [_gap(report, n, endless[n], [more[n], nearer[n], sharp[n], soft[n]]) for n in range(len(radii))]


def _coarse(evidence: Evidence) -> Evidence:
    """The evidence with counts of nine bits, and as few misses: far finer than what is foreseen, and quicker."""
    draws = evidence.draws[:, None]
    reached = evidence.histogram[:, ::-1].cumsum(axis=1)[:, ::-1]
    mantissa, power = np.frexp(np.minimum(reached, draws - reached))
    few = np.minimum(np.ldexp(np.rint(mantissa * 2**BITS), power - BITS).astype(np.int64), draws // 2)
    return evidence.with_histogram(-np.diff(np.where(reached <= draws // 2, few, draws - few), axis=1, append=0))


def _gap(report: Report, position: int, endless: ConfidenceIntervals, others: list[ConfidenceIntervals]) -> Gap:
    row, own, edges = report.rows[position], report.bounds[position], report.bins.edges
    if row.worst is None or not (own.certified.any() or report.population is Population.ALL):
        return Gap(row.radius, *9 * [float("nan")])
    every = report.population is Population.ALL
    # The same inputs as in the row, so that only the bounds differ; with all inputs, certificates may be gained.
    seen = np.ones(len(own), dtype=np.bool_) if every else own.certified
    bounded = certified_calibration_error(
        np.array(endless.lower[seen]), endless.upper[seen], own.correct[seen], edges=edges
    ).value
    best = certified_calibration_error(endless, population="all", edges=edges).value if every else bounded
    clean = expected_calibration_error(own.confidence[seen], own.correct[seen], edges=edges)

    def foreseen(bounds: ConfidenceIntervals) -> float:
        same = bounds if every else replace(bounds, certified=own.certified)
        return row_at(
            same, population=report.population, edges=edges, delta=report.delta, metrics=("joint_ece",)
        ).joint_ece

    # What was found for the few is what would be gained or lost for all.
    offset = row.joint_ece - foreseen(own)
    return Gap(
        row.radius,
        row.ece,
        bounded - clean,
        best - bounded,
        row.joint_ece - row.ece - (best - clean),
        row.joint_ece,
        *(min(max(foreseen(bounds) + offset, 0.0), 1.0) for bounds in others),
    )


@guarded
def planned_draws(evidence: Evidence) -> int:
    """How many draws to ask for next: those still planned, or ten times those that there are."""
    made, planned = int(evidence.draws.max()), max(evidence.header.stages, default=0)
    return planned if planned > made else 10 * made


@guarded
def with_more_draws(evidence: Evidence, times: int) -> Evidence:
    """The evidence as if each draw had been made so many times: what more draws would show, if they were like these."""
    check_integer("times", times, minimum=1, maximum=10**9)  # counts stay exact in float64
    header = evidence.header
    stages = tuple(sorted({int(n) * times for n in evidence.draws}))  # at planned looks, as if they had been asked for
    names = "draws", "votes", "score_sum", "score_square_sum", "histogram"
    counted = {name: getattr(evidence, name) * times for name in names}
    return replace(evidence, header=replace(header, looks=1, stages=stages), **counted)


def with_temperature(evidence: Evidence, temperature: float) -> Evidence:
    """The evidence as if logits had been divided by a temperature before smoothing and there were two classes.

    With more classes it is an estimate: a score p becomes p^(1/T) / (p^(1/T) + (1 − p)^(1/T)), cell by cell.
    """
    power = 1 / checks.positive("temperature", temperature)
    own, other = cell_middles() ** power, (1 - cell_middles()) ** power
    score = own / (own + other)
    cell = np.searchsorted(evidence.thresholds[1:-1], score, side="right")
    moved = np.zeros_like(evidence.histogram)
    np.add.at(moved.T, cell, evidence.histogram.T)
    return replace(evidence.with_histogram(evidence.histogram, score), histogram=moved)
