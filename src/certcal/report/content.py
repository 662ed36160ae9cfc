"""All that the HTML report shows, as one dictionary of plain numbers and texts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from certcal.evaluation import Report
from certcal.files import plain
from certcal.metrics import ReliabilityCurve
from certcal.report.tables import cells, columns
from certcal.report.views import (
    prepare_boxes,
    prepare_contributions,
    prepare_moves,
    prepare_reliability,
    prepare_widths,
)
from certcal.report.words import caveats, explanation, guarantee

_FULL_VIEWS = 26  # radii up to which every view shows as many inputs as it can
_DIGITS = 4  # of plotted values; the table and the sentences are exact


def page_data(
    report: Report,
    *,
    title: str,
    created: str,
    facts: Sequence[tuple[str, str]],
    classes: Sequence[str] | None = None,
    recalibration: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything on the page: sentences, table, and for each radius what its plots are drawn from.

    `recalibration` is from `recalibration_section`. Radii rise on the page, each once; with many of them, fewer inputs
    are shown at each, so that it stays small.
    """
    report = by_radius(report)
    share = min(1.0, _FULL_VIEWS / len(report))
    default = default_view(report) if recalibration is None else _place_of(report, recalibration["radius"])
    return {
        "title": title,
        "created": created,
        "headline": guarantee(report, default),
        "caveats": caveats(report),
        "facts": [list(fact) for fact in facts],
        "population": str(report.population),
        "classes": None if classes is None else list(classes),
        "columns": [
            {"key": column.key, "label": column.label, "help": column.help, "round": str(column.rounding)}
            for column in columns(report)
        ],
        "rows": plain(report.as_dicts()),
        "cells": cells(report),
        "average_certified_radius": report.average_certified_radius,
        "inputs": report.inputs,
        "default_view": default,
        "recalibration": None if recalibration is None else dict(recalibration),
        "views": [_view(report, position, classes, share) for position in range(len(report))],
    }


def by_radius(report: Report) -> Report:
    """The same with rising radii, each once."""
    first = {row.radius: position for position, row in reversed(list(enumerate(report.rows)))}
    order = [first[radius] for radius in sorted(first)]
    return replace(report, rows=tuple(report.rows[n] for n in order), bounds=tuple(report.bounds[n] for n in order))


def default_view(report: Report) -> int:
    """The radius to show first: the largest at which at least half of the inputs are certified."""
    halves = [n for n, row in enumerate(report.rows) if 2 * row.certified >= report.inputs]
    return max(halves, key=lambda n: report.rows[n].radius, default=0)


def _place_of(report: Report, radius: float) -> int:
    """The row of a radius, if there is one."""
    return next((n for n, row in enumerate(report.rows) if row.radius == radius), default_view(report))


def _view(report: Report, position: int, classes: Sequence[str] | None, share: float) -> dict[str, Any]:
    curves, worst = prepare_reliability(report, position), report.worst[position]
    boxes = prepare_boxes(report, position, limit=math.ceil(120 * share))
    moves = prepare_moves(report, position, limit=math.ceil(300 * share))
    widths = prepare_widths(report, position)
    index = report.evidence.index[report.bounds[position].certified]
    empty: list[float] = []
    view: dict[str, Any] = {
        "sentence": guarantee(report, position),
        "explanation": explanation(report, position),
        "radius": report.rows[position].radius,
        "edges": report.bins.edges.tolist(),
        "clean": _no_curve(len(report.bins)) if curves is None else _curve(curves[0]),
        "worst": None if curves is None or worst is None else _curve(curves[1]) | {"sign": _signs(worst.signs)},
        "boxes": {"lower": empty, "upper": empty, "worst": empty, "correct": empty, "index": empty, "inputs": 0},
        "moves": {"clean": empty, "worst": empty, "correct": empty, "index": empty, "inputs": 0},
        "widths": {
            "edges": _numbers(widths.edges),
            "correct": widths.correct.tolist(),
            "incorrect": widths.incorrect.tolist(),
        },
        "top": [_top(one, classes) for one in prepare_contributions(report, position, limit=math.ceil(20 * share))],
    }
    if boxes is not None and boxes.worst is not None:
        scale = 10.0**_DIGITS
        view["boxes"] = {
            "lower": (np.floor(boxes.lower * scale) / scale).tolist(),
            "upper": (np.minimum(np.ceil(boxes.upper * scale), scale) / scale).tolist(),
            "worst": _numbers(boxes.worst),
            "correct": boxes.correct.astype(int).tolist(),
            "index": index[boxes.shown].tolist(),
            "inputs": boxes.inputs,
        }
    if moves is not None:
        view["moves"] = {
            "clean": _numbers(moves.clean),
            "worst": _numbers(moves.worst),
            "correct": moves.correct.astype(int).tolist(),
            "index": index[moves.shown].tolist(),
            "inputs": moves.inputs,
        }
    return view


def _curve(curve: ReliabilityCurve) -> dict[str, list[float | None]]:
    return {
        "count": [int(count) for count in curve.count],
        "confidence": _numbers(curve.confidence),
        "accuracy": _numbers(curve.accuracy),
    }


def _no_curve(size: int) -> dict[str, list[float | None]]:
    return {"count": [0] * size, "confidence": [None] * size, "accuracy": [None] * size}


def _signs(signs: Any) -> list[int]:
    return [] if signs is None else signs.tolist()


def _top(one: Any, classes: Sequence[str] | None) -> dict[str, Any]:
    values = asdict(one)
    return values | {key: _class_name(values[key], classes) for key in ("label", "predicted")}


def _class_name(index: int, classes: Sequence[str] | None) -> str:
    """A model may know more classes than the data has names for."""
    return classes[index] if classes is not None and index < len(classes) else str(index)


def _numbers(values: Any) -> Any:
    return plain(np.round(values, _DIGITS))
