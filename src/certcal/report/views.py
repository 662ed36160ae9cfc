"""What figures and pages show of one radius, as arrays: `prepare_*` functions that know nothing of drawing."""

from dataclasses import dataclass

import numpy as np

from certcal.errors import InputError
from certcal.evaluation import Population, Report
from certcal.inputs import check_integer
from certcal.metrics import ReliabilityCurve, reliability_curve
from certcal.types import BoolArray, FloatArray, IntArray
from certcal.worstcase import WorstCaseProblem


@dataclass(frozen=True, eq=False)
class CertifiedBoxes:
    """One vertical box per input, from left to right by the middle of its certified confidences."""

    lower: FloatArray
    upper: FloatArray
    correct: BoolArray
    worst: FloatArray | None
    shown: IntArray  # which inputs these are, as positions in the arrays they were taken from
    inputs: int  # how many there are in all, of which these are shown


@dataclass(frozen=True, eq=False)
class Moves:
    """Where the worst case sends each certified input: from its estimated confidence to its worst one."""

    clean: FloatArray
    worst: FloatArray
    correct: BoolArray
    shown: IntArray
    inputs: int


@dataclass(frozen=True, eq=False)
class Widths:
    """How wide the certified confidence intervals are: counts per width, by correctness."""

    edges: FloatArray
    correct: IntArray
    incorrect: IntArray


@dataclass(frozen=True)
class Contribution:
    """One input's part of the certified calibration error."""

    index: int  # position in the data set
    label: int
    predicted: int
    correct: bool
    confidence: float
    lower: float
    upper: float
    worst: float
    certified_radius: float
    share: float  # signed: these add up to the certified ECE over the whole population


def prepare_certified_boxes(
    problem: WorstCaseProblem, *, worst: FloatArray | None = None, limit: int = 120
) -> CertifiedBoxes:
    """At most `limit` inputs, spread evenly over the whole set ordered by the middle of their bounds.

    Paper: Fig. 1, left.
    """
    shown = _spread(np.argsort(problem.lower + problem.upper, kind="stable"), limit)
    return CertifiedBoxes(
        problem.lower[shown],
        problem.upper[shown],
        problem.correct[shown],
        None if worst is None else worst[shown],
        shown,
        len(problem.lower),
    )


def prepare_reliability(report: Report, position: int) -> tuple[ReliabilityCurve, ReliabilityCurve] | None:
    """The reliability curves of one row: clean, and at its worst case, free inputs included; None if it is empty.

    Paper: Fig. 1.
    """
    worst = report.worst[_checked(report, position)]
    if worst is None:
        return None
    own = report.bounds[position]
    seen = own.certified | (report.population is Population.ALL)
    confidence, correct = worst.confidence, own.correct[own.certified]
    if worst.free is not None:
        confidence = np.concatenate([confidence, np.full(worst.free.count, worst.free.confidence)])
        correct = np.concatenate([correct, np.full(worst.free.count, worst.free.correct)])
    edges = report.bins.edges
    return (
        reliability_curve(own.confidence[seen], own.correct[seen], edges=edges),
        reliability_curve(confidence, correct, edges=edges),
    )


def prepare_boxes(report: Report, position: int, *, limit: int = 120) -> CertifiedBoxes | None:
    """The certified boxes of one row with their worst case; None where nothing is certified.

    Paper: Fig. 1, left.
    """
    worst, own = report.worst[_checked(report, position)], report.bounds[position]
    if worst is None or not own.certified.any():
        return None
    return prepare_certified_boxes(
        WorstCaseProblem.of(own, edges=report.bins.edges), worst=worst.confidence, limit=limit
    )


def prepare_moves(report: Report, position: int, *, limit: int = 300) -> Moves | None:
    """Estimated and worst-case confidences of at most `limit` certified inputs; None where nothing is certified.

    Paper: —; the witness of the exact worst case, docs/exact.md.
    """
    worst, own = report.worst[_checked(report, position)], report.bounds[position]
    if worst is None or not own.certified.any():
        return None
    clean, correct = own.confidence[own.certified], own.correct[own.certified]
    shown = _spread(np.argsort(clean, kind="stable"), limit)
    return Moves(clean[shown], worst.confidence[shown], correct[shown], shown, len(clean))


def prepare_widths(report: Report, position: int, *, cells: int = 25) -> Widths:
    """The widths of the confidence intervals of the certified inputs, counted in cells of equal width on [0, 1].

    Paper: App. C.
    """
    own = report.bounds[_checked(report, position)]
    width, correct = (own.upper - own.lower)[own.certified], own.correct[own.certified]
    edges = np.linspace(0.0, 1.0, check_integer("cells", cells, minimum=1) + 1)
    right, wrong = (np.histogram(width[correct == flag], edges)[0] for flag in (True, False))
    return Widths(edges, right, wrong)


def prepare_contributions(report: Report, position: int, *, limit: int = 20) -> list[Contribution]:
    """The certified inputs whose shares s_m (c − z) / N of the certified ECE are largest, the largest first.

    Paper: Def. 3.4; the shares are those of the exact solution, docs/exact.md.
    """
    worst, own = report.worst[_checked(report, position)], report.bounds[position]
    if worst is None or worst.signs is None or worst.bins is None:
        return []
    kept = np.flatnonzero(own.certified)
    share = worst.signs[worst.bins] * (own.correct[kept] - worst.confidence) / report.rows[position].inputs
    first = np.argsort(-share, kind="stable")[: check_integer("limit", limit, minimum=1)]
    evidence = report.evidence
    return [
        Contribution(
            index=int(evidence.index[n]),
            label=int(evidence.label[n]),
            predicted=int(own.predicted[n]),
            correct=bool(own.correct[n]),
            confidence=float(own.confidence[n]),
            lower=float(own.lower[n]),
            upper=float(own.upper[n]),
            worst=float(worst.confidence[place]),
            certified_radius=float(own.certified_radius[n]),
            share=float(share[place]),
        )
        for place, n in zip(first.tolist(), kept[first].tolist(), strict=True)
    ]


def _spread(order: IntArray, limit: int) -> IntArray:
    """At most `limit` of the ordered positions, evenly spread."""
    count = min(check_integer("limit", limit, minimum=1), len(order))
    return np.asarray(order[np.linspace(0, len(order) - 1, count).round().astype(np.intp)])


def _checked(report: Report, position: int) -> int:
    if not -len(report) <= position < len(report):
        raise InputError.expected("position", f"be that of one of {len(report)} rows", position)
    return position
