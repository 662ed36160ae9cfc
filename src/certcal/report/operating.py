"""What pages, screens and results show of operating points, in words and as curves, and of further metrics."""

import re
from typing import Any

import numpy as np

from certcal.evaluation import ACCEPTED, ANY_BINNING, FURTHER, WANTED, Report, Rounding, Row, percent
from certcal.files import plain
from certcal.report.content import by_radius
from certcal.scalars import exactly, guarded
from certcal.types import FloatArray
from certcal.worstcase import OperatingPoint

_SHARES = ("coverage", "accuracy")
_ABOVE = {own.label.capitalize() for own in {**ACCEPTED, **WANTED}.values()}  # which the page says with its slider


@guarded
def operating_data(report: Report, position: int) -> dict[str, Any] | None:
    """The operating points of one row, from 0 to 1 in steps of 0.05: clean, certified and joint.

    Paper: —; docs/operating.md.
    """
    shares = _shares(report, position)
    if not shares:
        return None
    shown = np.searchsorted(report.thresholds, np.linspace(0.0, 1.0, 101).round(2)[::5])
    return {name: plain(values[shown]) for name, values in {"threshold": report.thresholds, **shares}.items()}


def _shares(report: Report, position: int) -> dict[str, FloatArray]:
    """Coverage and accuracy of those accepted from each of the report's thresholds; none if the population is empty."""
    certified, joint = (report.operating(position, joint=way) for way in (False, True))
    if certified is None or joint is None:
        return {}
    return {
        **{f"clean_{name}": getattr(certified, f"clean_{name}") for name in _SHARES},
        **{f"certified_{name}": getattr(certified, name) for name in _SHARES},
        **{f"joint_{name}": getattr(joint, name) for name in _SHARES},
    }


def operating_section(report: Report) -> dict[str, Any]:
    """The part of the page about thresholds, and the further metrics below it; radii rise.

    Shares have the four digits that the page draws and says; those under attack are rounded down.
    """
    own = by_radius(report)
    views = []
    for position, row in enumerate(own):
        found: dict[str, Any] = {"further": [line for line in further_lines(row) if line[0] not in _ABOVE]}
        for name, values in _shares(own, position).items():
            clean = name.startswith("clean_")
            found[name] = plain(values.round(4) if clean else np.floor(values * 1e4 + 1e-9) / 1e4)
        views.append(found)
    return {
        "thresholds": plain(report.thresholds),
        "threshold": int(np.searchsorted(report.thresholds, report.threshold)),
        "wanted": f"{100 * (0.95 if report.accept_accuracy is None else report.accept_accuracy):.10g}",
        "delta": report.delta,
        "confident": percent(1 - report.delta, Rounding.DOWN, 1),
        "views": views,
    }


def further_lines(row: Row) -> list[list[str]]:
    """Label, help, clean, certified and guaranteed value of each further metric, rounded to the cautious side."""
    known = {**FURTHER, **WANTED, **ANY_BINNING}
    lines = []
    for name in dict.fromkeys(re.sub("^(certified|joint)_", "", name) for name in row.further):
        parts = [f"{part}{name}" for part in ("", "certified_", "joint_")]
        first = next(known[part] for part in parts if part in known)
        text = [known[part].show(row.further[part]) if part in row.further else "" for part in parts]
        label = first.label.removeprefix("certified ")
        lines.append([label[0].upper() + label[1:], first.help.split(", without")[0], *text])
    return lines


def acceptance(report: Report, position: int) -> str:
    """What is sure at the threshold of a report, at the radius of a row and with which probability; empty if nobody is.

    Where nothing is guaranteed, up to which threshold something is.
    """
    curve = report.operating(position, joint=True)
    if curve is None:
        return ""
    point = curve[int(np.searchsorted(curve.threshold, report.threshold))]
    if point.coverage > 0.0 or point.accuracy > 0.0:
        return _sentence(report, position, point)
    helpful = curve.threshold[(curve.right > 0) & (curve.threshold > 0)].tolist()
    told = (
        f"Something is guaranteed up to a threshold of {max(helpful):g}."
        if helpful
        else "Nor is it at any other threshold."
    )
    return f"{_within(report, position, str(point))} {told}"


def wanted_acceptance(report: Report, position: int) -> str:
    """From which threshold those accepted have the accuracy that is wanted of them, in words; empty if none is."""
    if report.accept_accuracy is None or report[position].inputs == 0:
        return ""
    wanted = f"Wanted: at least {100 * report.accept_accuracy:.10g} % of those accepted are right."
    point = report.least_threshold(position)
    if point is None:
        return f"{wanted} No threshold guarantees it, nor anything else, within R = {exactly(report[position].radius)}."
    if point.accuracy >= report.accept_accuracy:
        said = _sentence(report, position, shown := _tidy(report, position, point))
        rounded = ", rounded up" if shown.threshold > point.threshold else ""
        smallest = f" No smaller threshold guarantees as much{rounded}." if point.threshold else ""
        return f"{wanted} {said}{smallest}"
    most = percent(point.accuracy, Rounding.DOWN, 1)
    return (
        f"{wanted} No threshold guarantees it within R = {exactly(report[position].radius)}: the most is {most}, from "
        f"{exactly(_tidy(report, position, point).threshold)}."
    )


def _sentence(report: Report, position: int, point: OperatingPoint) -> str:
    sure = f" Both hold with {percent(1 - report.delta, Rounding.DOWN, 1)} confidence." if report.level else ""
    return _within(report, position, str(point)) + sure


def _within(report: Report, position: int, text: str) -> str:
    radius = exactly(report[position].radius)
    return text.replace("whatever the attack", f"whatever the attack within R = {radius}")


def _tidy(report: Report, position: int, point: OperatingPoint) -> OperatingPoint:
    """The same point with a threshold of fewer digits, rounded up, at which the very same is guaranteed."""
    ways = [np.ceil(point.threshold * 10.0**digits) / 10.0**digits for digits in range(4, 17)]
    curve = report.operating(position, joint=True, thresholds=np.clip([*ways, point.threshold], point.threshold, 1.0))
    assert curve is not None
    same = (curve.coverage == point.coverage) & (curve.right == point.right) & (curve.accepted == point.accepted)
    return curve[int(same.argmax())]
