"""All that the HTML report shows, as one dictionary of plain numbers and texts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from certcal.evaluation import Contribution, Report, contributions_at, reliability_at
from certcal.files import plain
from certcal.metrics import ReliabilityCurve
from certcal.report.assumptions import ASSUMPTIONS
from certcal.report.tables import cells, columns
from certcal.report.views import CertifiedInputs, prepare_boxes, prepare_moves, prepare_widths
from certcal.report.words import answer, answer_about, caveats, clean_words, explanation, guarantee
from certcal.types import IntArray

_FULL_VIEWS = 8  # radii up to which every view shows as many inputs as it can
_FINE = 1e6  # steps in which bounds of single inputs are rounded outward
DIGITS = 4  # of plotted values; the table and the sentences are exact


def page_data(
    report: Report,
    *,
    title: str,
    created: str,
    facts: Sequence[tuple[str, str]],
    classes: Sequence[str] | None = None,
    sections: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything on the page: sentences, table, and for each radius what its plots are drawn from.

    `sections` are further parts of the page by name, one of `html.SECTIONS` each; one that is None is left out. Radii
    rise on the page, each once; with many of them, fewer inputs are shown at each, so that it stays small.
    """
    report, parts = by_radius(report), {name: part for name, part in (sections or {}).items() if part}
    share = min(1.0, _FULL_VIEWS / len(report))
    default, why = default_view(report), why_first(report)
    if "recalibration" in parts:
        default, why = _place_of(report, parts["recalibration"]["radius"]), "the radius that the map was fitted for"
    return {
        "title": title,
        "created": created,
        "headline": guarantee(report, default),
        "why": why,
        "clean": clean_words(report),
        "caveats": caveats(report),
        "assumptions": [list(row) for row in ASSUMPTIONS] if report.evidence is not None else [],
        "facts": [list(fact) for fact in facts],
        "population": str(report.population),
        "several_bounds": any(row.claims for row in report),  # of the calibration error; the least is stated
        "proven": report.level == 0,  # no certificate can fail, so that nothing is said of it
        "classes": None if classes is None else list(classes),
        "columns": [
            {"key": key, "label": own.label, "help": own.help, "round": str(own.rounding)}
            | ({"main": True} if own.main else {})
            for key, own in columns(report).items()
        ],
        "rows": plain(report.as_dicts()),
        "cells": cells(report),
        "average_certified_radius": report.average_certified_radius,
        "inputs": report.inputs,
        "default_view": default,
        "views": [_view(report, position, classes, share) for position in range(len(report))],
        **parts,
    }


def by_radius(report: Report) -> Report:
    """The same with rising radii, each once."""
    first = {row.radius: position for position, row in reversed(list(enumerate(report.rows)))}
    order = [first[radius] for radius in sorted(first)]
    if order == list(range(len(report))):
        return report
    return replace(
        report,
        rows=tuple(report.rows[n] for n in order),
        bounds=tuple(report.bounds[n] for n in order),
        groups=tuple(report.groups[n] for n in order) if report.groups else (),
    )


def default_view(report: Report) -> int:
    """The radius to show first: as asked for, or the largest at which at least half of the inputs are certified."""
    if report.open_at is not None:
        return _place_of(report, report.open_at)
    halves = [n for n, row in enumerate(report.rows) if 2 * row.certified >= report.inputs]
    return max(halves, key=lambda n: report.rows[n].radius, default=0)


def why_first(report: Report) -> str:
    """Why `default_view` chooses its radius."""
    if report.open_at is not None:
        return "as asked for"
    if 2 * report.rows[default_view(report)].certified < report.inputs:
        return "the first: at none of these radii half of the inputs are certified"
    return "the largest radius at which at least half of the inputs are certified"


def _place_of(report: Report, radius: float) -> int:
    """The row of a radius, if there is one."""
    return next((n for n, row in enumerate(report.rows) if row.radius == radius), 0)


def _view(report: Report, position: int, classes: Sequence[str] | None, share: float) -> dict[str, Any]:
    """What the plots of one radius are drawn from."""
    index = report.bounds[position].index[report.bounds[position].certified]
    boxes = prepare_boxes(report, position, limit=math.ceil(120 * share))
    moves = prepare_moves(report, position, limit=math.ceil(160 * share))
    widths = prepare_widths(report, position)
    scale = 10.0**DIGITS
    return {
        "answer": answer(report, position),
        "about": answer_about(report, position),
        "sentence": guarantee(report, position),
        "explanation": explanation(report, position),
        "radius": report.rows[position].radius,
        "edges": report.bins.edges.tolist(),
        **_reliability(report, position),
        "boxes": {
            "lower": (np.floor(boxes.lower * scale) / scale).tolist(),
            "upper": (np.minimum(np.ceil(boxes.upper * scale), scale) / scale).tolist(),
            **_worst_of(boxes, index),
        },
        "moves": {"clean": plotted(moves.clean), **_worst_of(moves, index)},
        "widths": {name: plain(values) for name, values in vars(widths).items()} | {"edges": plotted(widths.edges)},
        "top": [_top(one, classes) for one in contributions_at(report, position, limit=math.ceil(20 * share))],
    }


def _reliability(report: Report, position: int) -> dict[str, Any]:
    """The curves without attack and at the worst case; empty bins and None where there is nothing."""
    curves, worst, none = reliability_at(report, position), report.worst[position], len(report.bins) * [None]
    if curves is None or worst is None:
        return {"clean": {"count": len(none) * [0], "confidence": none, "accuracy": none}, "worst": None}
    signs = [] if worst.signs is None else worst.signs.tolist()
    return {"clean": curve_data(curves[0]), "worst": curve_data(curves[1]) | {"sign": signs}}


def _worst_of(some: CertifiedInputs, index: IntArray) -> dict[str, Any]:
    """Where some of the inputs are sent, which they are, and of how many."""
    return {
        "worst": plotted(some.worst),
        "correct": some.correct.astype(int).tolist(),
        "index": index[some.shown].tolist(),
        "inputs": some.inputs,
    }


def _top(one: Contribution, classes: Sequence[str] | None) -> dict[str, Any]:
    # A model may know more classes than the data has names for.
    names = dict(enumerate(classes or ()))
    named = {key: names.get(getattr(one, key), str(getattr(one, key))) for key in ("label", "predicted")}
    bounds = {"lower": _below(one.lower), "upper": -_below(-one.upper)}
    return asdict(one) | named | bounds | {key: round(getattr(one, key), 6) for key in ("confidence", "worst")}


def _below(value: float) -> float:
    """The largest multiple of 10^-6 that is not above the value."""
    steps = math.floor(value * _FINE)
    return (steps - (steps / _FINE > value)) / _FINE


def curve_data(curve: ReliabilityCurve) -> dict[str, Any]:
    """A reliability curve as the page draws it."""
    return {"count": [int(count) for count in curve.count]} | {
        name: plotted(getattr(curve, name)) for name in ("confidence", "accuracy")
    }


def plotted(values: Any) -> Any:
    """Numbers with as many digits as a plot shows, as JSON knows them."""
    return plain(np.round(values, DIGITS))
