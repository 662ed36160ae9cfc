"""Certified metrics of groups and the largest differences between them, all together. Proofs: docs/groups.md."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation.further import thresholds_with
from certcal.evaluation.group_table import GROUP_METRICS, Disparity, Group, GroupTable
from certcal.evaluation.row import row_at
from certcal.settings import Population
from certcal.types import FloatArray
from certcal.worstcase import WorstCaseProblem, allowed_failures, certified_operating_point, operating_curve

OWN = ("predicted", "label")  # groups that certificates bring along
MOST = 1000
FEW = 20  # groups from which on a column in which most have one input is taken for identifiers
CAVEAT = (
    "These groups are predicted classes of bounds from elsewhere: their guarantees hold only if the classes were "
    "chosen apart from the draws that certify."
)
Columns = Mapping[str, NDArray[Any]]


def as_columns(groups: Any, bounds: ConfidenceIntervals) -> Columns:
    """Groupings by name: from "predicted" and "label", an array, a data frame, or a mapping of names to arrays."""
    if groups is None or (isinstance(groups, tuple) and not groups):
        return {}
    if isinstance(groups, Mapping):
        named = dict(groups)
    elif hasattr(groups, "to_dict") and hasattr(groups, "columns"):
        named = {name: groups[name] for name in groups.columns}
    elif isinstance(groups, str) or (isinstance(groups, list | tuple) and set(map(str, groups)) <= set(OWN)):
        named = {name: name for name in ([groups] if isinstance(groups, str) else groups)}
    else:
        named = {"group": groups}
    return {str(name): _column(str(name), values, bounds) for name, values in named.items()}


def _column(name: str, values: Any, bounds: ConfidenceIntervals) -> NDArray[Any]:
    if isinstance(values, str):
        if values not in OWN:
            raise InputError.expected(
                "groups", "be 'predicted', 'label', an array or a mapping of arrays", repr(values)
            )
        values = bounds.predicted if values == "predicted" else bounds.label
    given = values.tolist() if hasattr(values, "tolist") else values
    try:
        column = np.asarray(given)
    except ValueError as error:
        wanted = f"have one entry for each of {len(bounds)} inputs"
        raise InputError.expected("groups", wanted, f"lists of different lengths in {name!r}") from error
    if column.ndim != 1 or len(column) != len(bounds):
        got = f"{len(column)} in {name!r}" if column.ndim == 1 else f"shape {column.shape} in {name!r}"
        raise InputError.expected("groups", f"have one entry for each of {len(bounds)} inputs", got)
    # NumPy makes the text "nan" of a NaN among texts, as a data frame has where a cell is empty.
    lacking = column.dtype.kind not in "biu" and any(one is None or one != one for one in given)
    if column.dtype == object or lacking:
        raise InputError.expected("groups", "hold a text or number for every input", f"missing ones in {name!r}")
    count = len(np.unique(column))
    if count > MOST or (count > FEW and 2 * count > len(column)):
        wanted = f"have at most {MOST} groups in a column, of two inputs on average"
        raise InputError.expected("groups", wanted, f"{count} in {name!r}; is it an identifier?")
    return column


def group_tables(
    bounds: ConfidenceIntervals,
    columns: Columns,
    *,
    threshold: float,
    population: str = Population.CERTIFIED,
    edges: FloatArray,
    delta: float,
    drawn_apart: bool = True,
) -> tuple[GroupTable, ...]:
    """The groups of every column at one radius.

    Each of the G groups of all columns gets delta / G. Together, with probability at least 1 − delta, no group has more
    failed certificates than its own `failures`, so all joint values of all groups and their disparities hold at once.
    `drawn_apart` says that predicted classes are known not to depend on the draws that certify.

    Paper: —; docs/groups.md.   Errs: accuracies low, errors and disparities high.
    """
    members = {name: np.unique(column, return_inverse=True) for name, column in columns.items()}
    share = delta / max(sum(len(names) for names, _ in members.values()), 1)
    tables = []
    for column, (names, place) in members.items():
        order = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
        parts = {str(name): bounds.select(own) for name, own in zip(names, order, strict=True)}
        made = tuple(_group(name, own, threshold, population, edges, share) for name, own in parts.items())
        between = _disparities(made, list(parts.values()), population)
        by_class = np.array_equal(columns[column], bounds.predicted)
        caveat = CAVEAT if by_class and bounds.level > 0 and not drawn_apart else ""
        tables.append(GroupTable(column, bounds.radius, threshold, made, between, caveat))
    return tuple(tables)


def _group(
    name: str, own: ConfidenceIntervals, threshold: float, population: str, edges: FloatArray, delta: float
) -> Group:
    row = row_at(own, population=population, edges=edges, delta=delta, metrics=GROUP_METRICS)
    failures = allowed_failures(own, delta=delta)
    if not row.inputs:
        return Group(name, len(own), row, failures, None, None, None)
    point = certified_operating_point(own, threshold=threshold, population=population)
    every = thresholds_with(threshold)
    curve = operating_curve(own, thresholds=every, population=population, failures=failures)
    return Group(name, len(own), row, failures, point, curve[int(np.searchsorted(every, threshold))], curve)


def _disparities(
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
