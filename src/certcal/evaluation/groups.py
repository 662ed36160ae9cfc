"""Certified metrics of groups of inputs, at levels that hold for all groups together. Proofs: docs/groups.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation.row import Row, row_at
from certcal.settings import Population
from certcal.types import FloatArray
from certcal.worstcase import OperatingPoint, WorstCaseProblem, allowed_failures, certified_operating_point

OWN = ("predicted", "label")  # groups that certificates bring along
MOST = 1000
FEW = 20  # groups from which on a column in which most have one input is taken for identifiers
_METRICS = (
    "radius", "inputs", "certified", "accuracy", "certified_accuracy", "joint_accuracy", "ece", "certified_ece",
    "joint_ece", "brier", "certified_brier", "joint_brier",
)  # fmt: skip
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Group:
    """What is certified of one group at one radius. The joint values of all groups hold together."""

    name: str
    inputs: int  # of the group, certified or not
    row: Row
    failures: int  # certificates of this group that may fail
    point: OperatingPoint | None  # None where the population is empty
    joint_point: OperatingPoint | None

    @property
    def note(self) -> str:
        """What a small group can and cannot show; empty if there is nothing to say."""
        if self.row.certified == 0:
            return f"No input of group {self.name} is certified at R = {self.row.radius:g}."
        if self.failures >= self.row.certified:
            return (
                f"Group {self.name} is too small: all of its {self.row.certified} certificates may fail, so nothing is "
                "guaranteed for it."
            )
        if self.failures >= 0.05 * self.row.certified:
            return (
                f"Group {self.name}: up to {self.failures} of its {self.row.certified} certificates may fail, which "
                f"costs its guaranteed values up to {100 * self.failures / self.row.certified:.0f} points."
            )
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        own = {name: getattr(self.row, name) for name in _METRICS if name not in ("radius", "inputs")}
        for name, point in (("certified", self.point), ("joint", self.joint_point)):
            own |= {f"{name}_coverage": getattr(point, "coverage", np.nan)}
            own |= {f"{name}_selective_accuracy": getattr(point, "accuracy", np.nan)}
        return {"name": self.name, "inputs": self.inputs, "failures": self.failures, **own, "note": self.note}


@dataclass(frozen=True)
class Disparity:
    """The largest difference of a metric between two groups of a column, under attack."""

    metric: str
    certified: float  # if every certificate holds
    joint: float  # allowing for those that may fail
    between: tuple[str, str]  # the group that is above, and the one below, of the joint value


@dataclass(frozen=True)
class GroupTable:
    """The groups of one column at one radius, and the largest disparities between them."""

    column: str
    radius: float
    threshold: float
    groups: tuple[Group, ...]
    disparities: tuple[Disparity, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "column": self.column,
            "radius": self.radius,
            "threshold": self.threshold,
            "groups": [group.as_dict() for group in self.groups],
            "disparities": [vars(own) | {"between": list(own.between)} for own in self.disparities],
        }


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
) -> tuple[GroupTable, ...]:
    """The groups of every column at one radius.

    Each of the G groups of all columns gets delta / G. Together, with probability at least 1 − delta, no group has more
    failed certificates than its own `failures`, so all joint values of all groups and their disparities hold at once.

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
        tables.append(GroupTable(column, bounds.radius, threshold, made, between))
    return tuple(tables)


def _group(
    name: str, own: ConfidenceIntervals, threshold: float, population: str, edges: FloatArray, delta: float
) -> Group:
    row = row_at(own, population=population, edges=edges, delta=delta, metrics=_METRICS)
    failures = allowed_failures(own, delta=delta)
    points: list[OperatingPoint | None] = [None, None]
    if row.inputs:
        points = [
            certified_operating_point(own, threshold=threshold, population=population, failures=count)
            for count in (0, failures)
        ]
    return Group(name, len(own), row, failures, *points)


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
            found.append(Disparity(metric, certified[0], joint[0], (groups[above].name, groups[below].name)))
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
    least = _least_brier(problem, failures) if metric == "brier" else _least_ece(problem, failures)
    return least * (1 - 2.0**-40), most


def _least_brier(problem: WorstCaseProblem, failures: int) -> float:
    """With everyone at the near end, and those that lose most without loss where certificates fail."""
    losses = np.sort(np.where(problem.correct, np.square(1.0 - problem.upper), np.square(problem.lower)))
    return float(losses[: len(losses) - failures].sum()) / problem.size if failures < len(losses) else 0.0


def _least_ece(problem: WorstCaseProblem, failures: int) -> float:
    """At least the distance of mean confidence and accuracy, whatever the bins; a bound from below."""
    free = problem.uncertified + failures

    def distance(gaps: FloatArray) -> float:
        kept = np.sort(gaps)[: max(len(gaps) - failures, 0)]
        return (float(kept.sum()) - free) / problem.size

    return max(distance(problem.correct - problem.upper), distance(problem.lower - problem.correct), 0.0)
