"""The largest differences between groups under attack. Proofs: docs/groups.md."""

from collections.abc import Sequence

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.evaluation.group_table import Disparity, Group
from certcal.types import FloatArray
from certcal.worstcase import WorstCaseProblem


def disparities_of(
    groups: Sequence[Group], parts: Sequence[ConfidenceIntervals], population: str
) -> tuple[Disparity, ...]:
    """max over groups g ≠ h of (most of g) − (least of h): attacks on different groups do not disturb each other."""
    found = []
    for metric in ("accuracy", "ece", "brier"):
        spans = [
            [_span(metric, group, own, population, joint=joint) for group, own in zip(groups, parts, strict=True)]
            for joint in (False, True)
        ]
        certified, joint = (_largest(span) for span in spans)
        if certified is not None and joint is not None:
            above, below = joint[1:]
            clean = np.array([getattr(group.row, metric) for group in groups])
            between = groups[above].name, groups[below].name
            found.append(Disparity(metric, float(np.nanmax(clean) - np.nanmin(clean)), certified[0], joint[0], between))
    return tuple(found)


def _largest(spans: Sequence[tuple[float, float]]) -> tuple[float, int, int] | None:
    """The largest difference of a group's most and another one's least, and which two these are."""
    low, high = np.array(spans).T
    known = np.flatnonzero(~np.isnan(low + high))
    if len(known) < 2:
        return None
    tops, bottoms = known[np.argsort(-high[known])[:2]], known[np.argsort(low[known])[:2]]
    pairs = [(g, h) for g in tops for h in bottoms if g != h]
    g, h = max(pairs, key=lambda pair: high[pair[0]] - low[pair[1]])
    return min(float(np.nextafter(high[g] - low[h], 2.0)), 1.0), int(g), int(h)


def _span(metric: str, group: Group, own: ConfidenceIntervals, population: str, *, joint: bool) -> tuple[float, float]:
    """Between which values a metric of a group stays under attack."""
    failures, size = (group.failures if joint else 0), len(own)
    if metric == "accuracy":
        sure = int((own.certified & own.correct).sum())
        free = int((~own.certified).sum()) + failures
        return max(sure - failures, 0) / size, min(sure + free, size) / size
    if group.row.inputs == 0:
        return np.nan, np.nan
    most = getattr(group.row, f"joint_{metric}" if joint else f"certified_{metric}")
    problem = WorstCaseProblem.of(own, population=population)
    least = least_brier(problem, failures) if metric == "brier" else least_ece(problem, failures)
    return least * (1 - 2.0**-40), most


def least_brier(problem: WorstCaseProblem, failures: int) -> float:
    """With everyone at the near end, and those that lose most without loss where certificates fail."""
    losses = np.sort(np.where(problem.correct, np.square(1.0 - problem.upper), np.square(problem.lower)))
    return float(losses[: len(losses) - failures].sum()) / problem.size if failures < len(losses) else 0.0


def least_ece(problem: WorstCaseProblem, failures: int) -> float:
    """At least the distance of mean confidence and accuracy, whatever the bins; a bound from below."""
    free = problem.uncertified + failures

    def distance(gaps: FloatArray) -> float:
        kept = np.sort(gaps)[: max(len(gaps) - failures, 0)]
        return (float(kept.sum()) - free) / problem.size

    return max(distance(problem.correct - problem.upper), distance(problem.lower - problem.correct), 0.0)
