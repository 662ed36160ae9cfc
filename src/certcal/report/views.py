"""What figures and pages show of the certified inputs at one radius, as arrays that know nothing of drawing."""

from dataclasses import dataclass

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.evaluation import Report
from certcal.inputs import as_probabilities, check_same_length
from certcal.scalars import check_integer, guarded
from certcal.types import BoolArray, FloatArray, IntArray
from certcal.worstcase import WorstCaseProblem


@dataclass(frozen=True, eq=False)
class CertifiedInputs:
    """Some certified inputs, from left to right: their bounds, and where the worst case sends them."""

    lower: FloatArray
    upper: FloatArray
    correct: BoolArray
    clean: FloatArray | None  # estimated confidences, where they are known
    worst: FloatArray | None
    shown: IntArray  # which inputs these are, as positions in the arrays they were taken from
    inputs: int  # how many there are in all, of which these are shown


@dataclass(frozen=True, eq=False)
class Widths:
    """How wide the certified confidence intervals are: counts per width, by correctness."""

    edges: FloatArray
    correct: IntArray
    incorrect: IntArray


@guarded
def prepare_certified_boxes(
    bounds: WorstCaseProblem | ConfidenceIntervals, *, worst: FloatArray | None = None, limit: int = 120
) -> CertifiedInputs:
    """At most `limit` inputs, spread evenly over the whole set ordered by the middle of their bounds.

    Paper: Fig. 1, left.
    """
    if worst is not None:
        worst = as_probabilities("worst", worst, allow_empty=True)
        check_same_length("worst", worst, "bounds", bounds.lower)
    return _spread(bounds, worst, bounds.lower + bounds.upper, limit)


@guarded
def prepare_boxes(report: Report, position: int, *, limit: int = 120) -> CertifiedInputs:
    """The certified inputs of one row with their worst case, by the middle of their bounds.

    Paper: Fig. 1, left.
    """
    own, kept, worst = _certified(report, position)
    return _spread(own, worst, own.lower[kept] + own.upper[kept], limit, kept)


@guarded
def prepare_moves(report: Report, position: int, *, limit: int = 300) -> CertifiedInputs:
    """The certified inputs of one row with their worst case, by their estimated confidence.

    Paper: —; the witness of the exact worst case, docs/exact.md.
    """
    own, kept, worst = _certified(report, position)
    return _spread(own, worst, own.confidence[kept], limit, kept)


@guarded
def prepare_widths(report: Report, position: int) -> Widths:
    """The widths of the confidence intervals of the certified inputs, counted in 25 cells of equal width on [0, 1].

    Paper: App. C.
    """
    own, kept, _ = _certified(report, position)
    edges = np.linspace(0.0, 1.0, 26)
    width, correct = own.upper[kept] - own.lower[kept], own.correct[kept]
    right, wrong = (np.histogram(width[correct == flag], edges)[0] for flag in (True, False))
    return Widths(edges, right, wrong)


def _certified(report: Report, position: int) -> tuple[ConfidenceIntervals, IntArray, FloatArray]:
    """The bounds of a row, where the certified inputs are in them, and their confidences at the worst case."""
    worst, own = report[position].worst, report.bounds[position]
    return own, np.flatnonzero(own.certified), np.empty(0) if worst is None else worst.confidence


def _spread(
    bounds: WorstCaseProblem | ConfidenceIntervals,
    worst: FloatArray | None,
    order: FloatArray,
    limit: int,
    kept: IntArray | None = None,
) -> CertifiedInputs:
    """At most `limit` inputs, evenly spread in this order over the whole set, or over those `kept` of the bounds."""
    count = min(check_integer("limit", limit, minimum=1), len(order))
    shown = _stably_sorted_at(order, np.linspace(0, len(order) - 1, count).round().astype(np.intp))
    at = shown if kept is None else kept[shown]
    clean = bounds.confidence[at] if isinstance(bounds, ConfidenceIntervals) else None
    return CertifiedInputs(
        bounds.lower[at],
        bounds.upper[at],
        bounds.correct[at],
        clean,
        None if worst is None else worst[shown],
        shown,
        len(order),
    )


def _stably_sorted_at(order: FloatArray, ranks: IntArray) -> IntArray:
    """`np.argsort(order, kind="stable")[ranks]`, where sorting the values alone is five times as fast."""
    values = np.sort(order)
    wanted = values[ranks]
    near = np.searchsorted(wanted, order).clip(max=max(len(wanted) - 1, 0))
    equal = np.flatnonzero(wanted[near] == order) if len(wanted) else ranks
    equal = equal[np.argsort(order[equal], kind="stable")]
    place = np.searchsorted(order[equal], wanted) + ranks - np.searchsorted(values, wanted)
    return np.asarray(equal[place])
