"""One row of a report seen closely: reliability without attack and at the worst case, and who makes up the error."""

from dataclasses import dataclass

import numpy as np

from certcal.evaluation.report import Report
from certcal.metrics import ReliabilityCurve, reliability_curve
from certcal.scalars import check_integer, guarded
from certcal.settings import Population


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


@guarded
def reliability_at(report: Report, position: int) -> tuple[ReliabilityCurve, ReliabilityCurve] | None:
    """The reliability curves of one row: clean, and at its worst case, free inputs included; None if it is empty.

    Paper: Fig. 1.
    """
    worst = report[position].worst
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


@guarded
def contributions_at(report: Report, position: int, *, limit: int = 20) -> list[Contribution]:
    """The certified inputs whose shares s_m (c − z) / N of the certified ECE are largest, the largest first.

    Paper: Def. 3.4; the shares are those of the exact solution, docs/exact.md.
    """
    worst, own = report[position].worst, report.bounds[position]
    if worst is None or worst.signs is None or worst.bins is None:
        return []
    kept = np.flatnonzero(own.certified)
    share = worst.signs[worst.bins] * (own.correct[kept] - worst.confidence) / report.rows[position].inputs
    count = min(check_integer("limit", limit, minimum=1), len(share))
    high = np.flatnonzero(share >= np.partition(share, len(share) - count)[len(share) - count]) if count else kept
    first = high[np.argsort(-share[high], kind="stable")[:count]]
    columns = {
        name: getattr(own, name)
        for name in (
            "index", "label", "predicted", "correct", "confidence", "lower", "upper", "certified_radius",
        )
    }  # fmt: skip
    return [
        Contribution(
            **{name: values[n].item() for name, values in columns.items()},
            worst=float(worst.confidence[place]),
            share=float(share[place]),
        )
        for place, n in zip(first.tolist(), kept[first].tolist(), strict=True)
    ]
