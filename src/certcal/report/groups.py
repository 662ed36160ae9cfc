"""What pages, screens and tables show of groups."""

from typing import Any

import numpy as np

from certcal.evaluation import GroupTable, Report, Rounding
from certcal.report.tables import number, percent

_NAMES = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier score"}
_GROUP_COLUMNS = (
    ("inputs", "inputs", None, Rounding.NEAREST),
    ("certified", "certified", None, Rounding.NEAREST),
    ("joint_accuracy", "guaranteed accuracy", "low", Rounding.DOWN),
    ("certified_ece", "certified ECE", "high", Rounding.UP),
    ("joint_ece", "guaranteed ECE", "high", Rounding.UP),
    ("joint_brier", "guaranteed Brier", "high", Rounding.UP),
    ("joint_coverage", "guaranteed coverage", "low", Rounding.DOWN),
    ("joint_selective_accuracy", "guaranteed accuracy of accepted", "low", Rounding.DOWN),
)


def groups_section(report: Report) -> dict[str, Any] | None:
    """The part of the page about groups: per radius and column a heat map in numbers, and the largest disparities."""
    if not report.groups:
        return None
    first = {row.radius: position for position, row in reversed(list(enumerate(report.rows)))}
    views = [[_table(table) for table in report.groups[first[radius]]] for radius in sorted(first)]
    return {
        "columns": [label for _, label, _, _ in _GROUP_COLUMNS],
        "threshold": f"{report.threshold:g}",
        "views": views,
    }


def group_cells(table: GroupTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of a table of groups for a narrow place, each value rounded to the cautious side."""
    return group_lines(table, "inputs", "certified", "joint_accuracy", "joint_ece")


def group_lines(table: GroupTable, *keys: str) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of a table of groups with these columns, or all of them."""
    shown = [one for one in _GROUP_COLUMNS if not keys or one[0] in keys]
    lines = [
        [group.name, *(_cell(group.as_dict()[key], rounding, key) for key, _, _, rounding in shown)]
        for group in table.groups
    ]
    return [table.column, *(label for _, label, _, _ in shown)], lines


def _table(table: GroupTable) -> dict[str, Any]:
    rows = [group.as_dict() for group in table.groups]
    shades = {key: _shades([row[key] for row in rows], bad) for key, _, bad, _ in _GROUP_COLUMNS if bad}
    return {
        "column": table.column,
        "rows": [
            {
                "name": row["name"],
                "cells": [_cell(row[key], rounding, key) for key, _, _, rounding in _GROUP_COLUMNS],
                "shades": [shades[key][place] if key in shades else None for key, *_ in _GROUP_COLUMNS],
            }
            for place, row in enumerate(rows)
        ],
        "disparities": _disparities(table),
        "notes": _notes(table),
    }


def group_words(table: GroupTable) -> list[str]:
    """The largest differences between groups, and what small ones can and cannot show."""
    return [*(f"Largest difference in {own}." for own in _disparities(table)), *_notes(table)]


def _disparities(table: GroupTable) -> list[str]:
    return [
        f"{_NAMES[own.metric]}: at most {_cell(own.joint, Rounding.UP, own.metric).replace(' %', ' points')} between "
        f"{own.between[0]} and {own.between[1]}"
        for own in table.disparities
    ]


def _notes(table: GroupTable) -> list[str]:
    return [group.note for group in table.groups if group.note]


def _cell(value: float, rounding: Rounding, key: str) -> str:
    if isinstance(value, int):
        return str(value)
    if np.isnan(value):
        return "—"
    return number(value, rounding, 4) if "brier" in key else percent(value, rounding, 1)


def _shades(values: list[float], bad: str) -> list[float | None]:
    """How bad each value is among its column, from 0 to 1; differences of a few points stay pale."""
    known = np.array(values, dtype=np.float64)
    if np.isnan(known).all():
        return [None for _ in values]
    best = np.nanmin(known) if bad == "high" else np.nanmax(known)
    share = np.abs(known - best) / max(np.nanmax(known) - np.nanmin(known), 0.1)
    # What could not be worse is not pale because the others are as bad.
    share = np.where(known == (1.0 if bad == "high" else 0.0), 1.0, share)
    return [None if np.isnan(value) else round(float(value), 3) for value in share]
