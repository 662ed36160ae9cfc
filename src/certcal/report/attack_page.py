"""What the page shows of attacks, as plain numbers and texts."""

import math
from collections.abc import Mapping
from typing import Any

from certcal.evaluation import Rounding
from certcal.metrics import ReliabilityCurve
from certcal.report.attacks import (
    GALIL,
    SANDWICH_COLUMNS,
    WANTS,
    AceRecord,
    SandwichRecord,
    ace_cells,
    ace_heads,
    ace_title,
    sandwich_cells,
    tightness,
    verdict,
)
from certcal.report.tables import exactly, percent

_CURVES = ("radius", "clean_ece", "attacked_ece", "certified_ece", "limit_ece")


def attack_data(
    sandwich: SandwichRecord | None,
    ace: AceRecord | None,
    *,
    radius: float,
    certificates: Mapping[str, Any],
    left_out: str = "",
) -> dict[str, Any]:
    """The page's section on attacks; `left_out` says which are there no more, and why.

    `radius` is where the page opens; `certificates` are the settings of those that the rest of it is about.
    """
    return {
        "left_out": left_out,
        "sandwich": None if sandwich is None else _sandwich(sandwich, radius, certificates),
        "ace": None if ace is None else _ace(ace),
    }


def _sandwich(record: SandwichRecord, radius: float, certificates: Mapping[str, Any]) -> dict[str, Any]:
    best = record.strongest()
    return {
        "holds": record.holds,
        "verdict": verdict(record),
        "about": _about(record, certificates),
        "wants": [(name, WANTS[name]) for name in dict.fromkeys(row["adversary"] for row in record.rows)],
        "columns": [{"key": column.key, "label": column.label, "help": column.help} for column in SANDWICH_COLUMNS],
        "cells": sandwich_cells(record),
        "failing": [place for place, row in enumerate(record.rows) if not row["holds"]],
        "strongest": best,
        "first": best.index(record.nearest(radius)),
        "curves": [{key: record.rows[place][key] for key in _CURVES} for place in best],
        "views": [_view(record, place) for place in best],
    }


def _view(record: SandwichRecord, place: int) -> dict[str, Any]:
    row, before, after = record.rows[place], record.before[place], record.after[place]
    assert before is not None
    assert after is not None
    return {
        "radius": row["radius"],
        "sentence": tightness(record, place),
        "edges": before.edges.tolist(),
        "before": _bins(before),
        "after": _bins(after),
        "errors": [percent(row[key], Rounding.NEAREST) for key in ("clean_ece", "attacked_ece")],
        "where": f"{row['adversary']}, R = {exactly(row['radius'])}",
    }


def _about(record: SandwichRecord, certificates: Mapping[str, Any]) -> str:
    """Which inputs and which certificates; said where they are not the page's own."""
    own, parts = record.certificates, []
    if record.inputs < record.of:
        parts.append(f"{record.inputs:,} of the {record.of:,} inputs were attacked, evenly spread over them.")
    steps, few, many, seed = (record.settings[key] for key in ("steps", "attack_draws", "draws", "seed"))
    parts.append(f"Adversaries took {steps:,} steps on {few:,} draws; {many:,} fresh ones judged (seed {seed}).")
    if any(own[key] != certificates[key] for key in ("alpha", "method", "split_alpha", "n_bins")):
        parts.append(
            f"The certificates here are those of α = {own['alpha']!r}, {own['method']}, {own['n_bins']} bins, as they "
            "were when the attack was made, and not those of the table above."
        )
    return " ".join(parts)


def _ace(record: AceRecord) -> dict[str, Any]:
    first = record.rows[0]
    flips = sum(row["label_changes"] for row in record.rows)
    labels = "Every label stayed as it was" if not flips else f"{flips:,} labels changed"
    return {
        "how": f"{record.how[0].upper()}{record.how[1:]}.",
        "stronger": record.stronger,
        "galil": GALIL if record.galil else "",
        "heads": ace_heads(record),
        "cells": ace_cells(record),
        "labels": f"{labels}, in forward passes of their own, on {first['inputs']:,} inputs.",
        "edges": record.curves[0].edges.tolist(),
        "strongest": record.strongest(),
        "views": [
            {
                "name": ace_title(row, stronger=record.stronger),
                "error": percent(row["ece"], Rounding.NEAREST),
                "bins": _bins(curve),
            }
            for row, curve in zip(record.rows, record.curves, strict=True)
        ],
    }


def _bins(curve: ReliabilityCurve) -> dict[str, list[float | None]]:
    return {
        "count": [int(count) for count in curve.count],
        **{
            name: [None if math.isnan(value) else round(value, 4) for value in getattr(curve, name).tolist()]
            for name in ("confidence", "accuracy")
        },
    }
