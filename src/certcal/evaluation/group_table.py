"""What is certified of groups at one radius: the groups of a column, and the largest disparities between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from certcal.evaluation.row import Row
from certcal.scalars import exactly
from certcal.worstcase import OperatingCurve, OperatingPoint

GROUP_METRICS = (
    "radius", "inputs", "certified", "accuracy", "certified_accuracy", "joint_accuracy", "ece", "certified_ece",
    "joint_ece", "brier", "certified_brier", "joint_brier",
)  # fmt: skip


@dataclass(frozen=True)
class Group:
    """What is certified of one group at one radius. The joint values of all groups hold together."""

    name: str
    inputs: int  # of the group, certified or not
    row: Row
    failures: int  # certificates of this group that may fail
    point: OperatingPoint | None  # None where the population is empty
    joint_point: OperatingPoint | None
    joint_curve: OperatingCurve | None  # at the thresholds that a page offers

    @property
    def cost(self) -> int:
        """How many points certificates that may fail take off guaranteed values, at most."""
        return math.ceil(100 * self.failures / max(self.row.certified, 1) - 1e-9)

    @property
    def note(self) -> str:
        """What a small group can and cannot show; empty if there is nothing to say."""
        if self.row.certified == 0:
            return f"No input of group {self.name} is certified at R = {exactly(self.row.radius)}."
        if self.failures >= self.row.certified:
            return (
                f"Group {self.name} is too small: all of its {self.row.certified} certificates may fail, so nothing is "
                "guaranteed for it."
            )
        if self.failures >= 0.05 * self.row.certified:
            return (
                f"Group {self.name}: up to {self.failures} of its {self.row.certified} certificates may fail, which "
                f"costs its guaranteed values up to {self.cost} points."
            )
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        own = {name: getattr(self.row, name) for name in GROUP_METRICS if name not in ("radius", "inputs")}
        for name, point in (("certified", self.point), ("joint", self.joint_point)):
            own |= {f"{name}_coverage": getattr(point, "coverage", np.nan)}
            own |= {f"{name}_selective_accuracy": getattr(point, "accuracy", np.nan)}
        return {"name": self.name, "inputs": self.inputs, "failures": self.failures, **own, "note": self.note}


@dataclass(frozen=True)
class Disparity:
    """The largest difference of a metric between two groups of a column, under attack."""

    metric: str
    clean: float  # without attack
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
    caveat: str = ""  # what the guarantees depend on

    @property
    def notes(self) -> list[str]:
        """What small groups can and cannot show, and what the guarantees depend on: at most four sentences."""
        none = [group.name for group in self.groups if group.row.certified == 0]
        small = [group.name for group in self.groups if 0 < group.row.certified <= group.failures]
        cost = [group for group in self.groups if group.note and group.name not in (*none, *small)]
        told = []
        if none:
            told.append(f"No input is certified at R = {exactly(self.radius)} in {_few(none)}.")
        if small:
            told.append(f"All certificates may fail in {_few(small)}: so few guarantee nothing.")
        if cost:
            cost.sort(key=lambda group: -group.failures / group.row.certified)
            each = [f"{group.name} ({group.failures} of {group.row.certified})" for group in cost]
            most = f"Certificates that may fail cost guaranteed values up to {cost[0].cost} points"
            told.append(f"{most}: in {_few(each)}.")
        return [*told, *([self.caveat] if self.caveat else [])]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "column": self.column,
            "radius": self.radius,
            "threshold": self.threshold,
            "groups": [group.as_dict() for group in self.groups],
            "disparities": [vars(own) | {"between": list(own.between)} for own in self.disparities],
            "notes": self.notes,
        }


def _few(names: Sequence[str], most: int = 8) -> str:
    """Names of groups in words; of many, the first."""
    if len(names) > most:
        return f"groups {', '.join(names[:most])} and {len(names) - most} more"
    return f"group {names[0]}" if len(names) == 1 else f"groups {', '.join(names[:-1])} and {names[-1]}"
