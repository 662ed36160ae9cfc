"""What pages and results show of operating points, further metrics and groups."""

from typing import Any

import numpy as np

from certcal.evaluation import ANY_BINNING, FURTHER, GroupTable, Metric, Report, Rounding, Row
from certcal.files import plain
from certcal.report.content import by_radius
from certcal.report.tables import exactly, number, percent
from certcal.scalars import check_integer, guarded
from certcal.worstcase import OperatingCurve

_NAMES = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier score"}
_SHARES = ("coverage", "accuracy")
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


@guarded
def operating_data(report: Report, position: int, *, step: int = 1) -> dict[str, Any] | None:
    """The operating points of one row, from 0 to 1 in steps of `step` hundredths: clean, certified and joint.

    Paper: —; docs/operating.md.
    """
    check_integer("step", step, minimum=1, maximum=100)
    certified, joint = (report.operating(position, joint=way) for way in (False, True))
    if certified is None or joint is None:
        return None
    points = {
        "threshold": certified.threshold,
        **{f"clean_{name}": getattr(certified, f"clean_{name}") for name in _SHARES},
        **{f"certified_{name}": getattr(certified, name) for name in _SHARES},
        **{f"joint_{name}": getattr(joint, name) for name in _SHARES},
    }
    return {name: plain(values[::step]) for name, values in points.items()}


def operating_section(report: Report) -> dict[str, Any]:
    """The part of the page about thresholds, and the further metrics below it; radii rise."""
    own = by_radius(report)
    views = []
    for position in range(len(own)):
        curves = [own.operating(position, joint=way) for way in (False, True)]
        found: dict[str, Any] = {"further": _further(own.rows[position])}
        for name, curve in zip(("certified", "joint"), curves, strict=True):
            if curve is not None:
                found |= _curve(name, curve)
        views.append(found)
    return {
        "threshold": round(100 * report.threshold),
        "delta": report.delta,
        "confident": percent(1 - report.delta, Rounding.DOWN, 1),
        "views": views,
    }


def _curve(name: str, curve: OperatingCurve) -> dict[str, Any]:
    """Shares as the page draws and says them: rounded down to four digits."""
    shares = {f"{name}_{key}": np.floor(getattr(curve, key) * 1e4) / 1e4 for key in _SHARES}
    if name == "certified":
        shares |= {f"clean_{key}": getattr(curve, f"clean_{key}").round(4) for key in _SHARES}
    return {key: plain(values) for key, values in shares.items()}


def further_lines(row: Row) -> list[list[str]]:
    """Label, clean, certified and guaranteed value of each further metric, rounded to the cautious side."""
    return [[label, *values] for label, _, *values in _further(row)]


def _further(row: Row) -> list[list[str]]:
    """Label, help, clean, certified and guaranteed value of each further metric."""
    known = {**FURTHER, **ANY_BINNING}
    lines = []
    for name in dict.fromkeys(name.removeprefix("certified_").removeprefix("joint_") for name in row.further):
        parts = [f"{part}{name}" for part in ("", "certified_", "joint_")]
        first = next(known[part] for part in parts if part in known)
        text = [_written(known[part], row.further[part]) if part in row.further else "" for part in parts]
        label = first.label.removeprefix("certified, ").removeprefix("certified ")
        lines.append([label[0].upper() + label[1:], first.help.split(", without")[0], *text])
    return lines


def _written(metric: Metric, value: float) -> str:
    if np.isnan(value):
        return "—"
    digits = 3 if metric.digits is None else metric.digits
    return (percent if metric.percent else number)(value, metric.rounding, digits)


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


def acceptance(report: Report, position: int) -> str:
    """What is sure at the threshold of a report, at the radius of a row and with which probability; empty if nobody is.

    Where nothing is guaranteed, up to which threshold something is.
    """
    curve = report.operating(position, joint=True, thresholds=[report.threshold])
    if curve is None:
        return ""
    point, radius = curve[0], exactly(report[position].radius)
    text = str(point).replace("whatever the attack", f"whatever the attack within R = {radius}")
    if point.coverage > 0.0 or point.accuracy > 0.0:
        sure = f" Both hold with {percent(1 - report.delta, Rounding.DOWN, 1)} confidence." if report.level else ""
        return f"{text}{sure}"
    every = report.operating(position, joint=True)
    helpful = [] if every is None else every.threshold[(every.right > 0) & (every.threshold > 0)].tolist()
    return text + (f" Up to {max(helpful):g} something is." if helpful else " Nor is it at any other threshold.")


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
