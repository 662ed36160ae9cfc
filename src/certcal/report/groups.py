"""What pages, screens and tables show of groups."""

from itertools import groupby
from typing import Any

import numpy as np

from certcal.evaluation import GroupTable, Look, Report, Rounding, number, percent
from certcal.report.content import by_radius
from certcal.scalars import exactly
from certcal.types import FloatArray

MOST_CURVES = 300  # groups × radii whose operating points at every threshold a page holds
_CURVES = {"coverage": "coverage", "selective_accuracy": "accuracy"}
_NAMES = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier score"}
_SHARE: dict[str, Any] = {"digits": 1, "percent": True}
_LOW, _HIGH = {"rounding": Rounding.DOWN, **_SHARE}, {"rounding": Rounding.UP, **_SHARE}
_GROUP_COLUMNS = {
    "inputs": Look("inputs"),
    "certified": Look("certified"),
    "joint_accuracy": Look("guaranteed accuracy", **_LOW),
    "certified_ece": Look("certified ECE", **_HIGH),
    "joint_ece": Look("guaranteed ECE", **_HIGH),
    "joint_brier": Look("guaranteed Brier", rounding=Rounding.UP, digits=4),
    "joint_coverage": Look("guaranteed coverage", **_LOW),
    "joint_selective_accuracy": Look("guaranteed accuracy of accepted", **_LOW),
}
_NARROW = ("inputs", "certified", "joint_accuracy", "joint_ece")


def groups_section(report: Report) -> dict[str, Any] | None:
    """The part of the page about groups: per radius and column a heat map in numbers, and notes."""
    if not report.groups:
        return None
    views = [[(_table(table), _curves(table)) for table in tables] for tables in by_radius(report).groups]
    many = len(views) * sum(len(table.groups) for table in report.groups[0]) > MOST_CURVES
    return {
        "columns": [own.label for own in _GROUP_COLUMNS.values()],
        "places": None if many else [list(_GROUP_COLUMNS).index(f"joint_{name}") for name in _CURVES],
        "threshold": exactly(report.threshold),
        "views": [[table if many else table | {"curves": curves} for table, curves in one] for one in views],
    }


def group_cells(table: GroupTable, *, narrow: bool = True) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of a table of groups, for a narrow place or whole, each value rounded to the cautious side."""
    shown = {key: own for key, own in _GROUP_COLUMNS.items() if not narrow or key in _NARROW}
    rows = [group.as_dict() for group in table.groups]
    lines = [[row["name"], *(own.show(row[key]) for key, own in shown.items())] for row in rows]
    return [table.column, *(own.label for own in shown.values())], lines


def _table(table: GroupTable) -> dict[str, Any]:
    rows = [group.as_dict() for group in table.groups]
    shades = [_shades([row[key] for row in rows], own.rounding) for key, own in _GROUP_COLUMNS.items()]
    return {
        "column": table.column,
        "rows": [
            {"name": name, "cells": cells, "shades": [column[place] for column in shades]}
            for place, (name, *cells) in enumerate(group_cells(table, narrow=False)[1])
        ],
        "notes": group_words(table),
    }


def _curves(table: GroupTable) -> list[list[list[Any]] | None]:
    """Of each group coverage and accuracy of those accepted from each threshold, in tenths of a percent.

    Equal neighbours are told once: [value, how often].
    """
    return [
        None if group.joint_curve is None else [_tenths(getattr(group.joint_curve, name)) for name in _CURVES.values()]
        for group in table.groups
    ]


def _tenths(shares: FloatArray) -> list[list[int | None]]:
    tenths = [None if np.isnan(own) else int(own * 1000 + 1e-9) for own in shares.tolist()]
    return [[value, len(list(same))] for value, same in groupby(tenths)]


def group_words(table: GroupTable) -> list[str]:
    """The largest differences between groups, and what small ones can and cannot show."""
    told = [
        f"Largest difference in {_NAMES[own.metric]}: at most {_points(own.joint, Rounding.UP, own.metric)} between "
        f"{own.between[0]} and {own.between[1]} ({_points(own.clean, Rounding.NEAREST, own.metric)} without attack)."
        for own in table.disparities
    ]
    return told + table.notes


def disparity_lines(table: GroupTable) -> list[list[str]]:
    """Of each metric the largest difference between groups: clean, certified, guaranteed, and between which."""
    return [
        [
            _NAMES[own.metric],
            _points(own.clean, Rounding.NEAREST, own.metric),
            _points(own.certified, Rounding.UP, own.metric),
            _points(own.joint, Rounding.UP, own.metric),
            *own.between,
        ]
        for own in table.disparities
    ]


def _points(value: float, rounding: Rounding, metric: str) -> str:
    """A difference of shares in points, and of scores as it is."""
    if metric == "brier":
        return number(value, rounding, 4)
    return percent(value, rounding, 1).replace(" %", " points")


def _shades(values: list[float], rounding: Rounding) -> list[float | None]:
    """How bad each value is among its column, from 0 to 1; differences of a few points stay pale, counts have none."""
    known = np.array(values, dtype=np.float64)
    if rounding is Rounding.NEAREST or np.isnan(known).all():
        return [None for _ in values]
    best, worst = (np.nanmin(known), 1.0) if rounding is Rounding.UP else (np.nanmax(known), 0.0)
    share = np.abs(known - best) / max(np.nanmax(known) - np.nanmin(known), 0.1)
    # What could not be worse is not pale because the others are as bad.
    share = np.where(known == worst, 1.0, share)
    return [None if np.isnan(value) else round(float(value), 3) for value in share]
