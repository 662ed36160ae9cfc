"""What the page shows of attacks, as plain numbers and texts."""

from collections.abc import Mapping
from typing import Any

from certcal.attacks import AceTable, Sandwich
from certcal.errors import several
from certcal.evaluation import Rounding, percent
from certcal.report.attacks import (
    GALIL,
    SANDWICH_COLUMNS,
    WANTS,
    ace_cells,
    ace_heads,
    ace_sentence,
    ace_title,
    sandwich_cells,
    tightness,
    verdict,
)
from certcal.report.content import curve_data
from certcal.scalars import exactly

_CURVES = ("radius", "inputs", "clean_ece", "attacked_ece", "certified_ece", "limit_ece")


def attack_data(
    sandwich: Sandwich | None,
    ace: AceTable | None,
    *,
    radius: float,
    certificates: Mapping[str, Any],
    left_out: str = "",
) -> dict[str, Any]:
    """The page's section on attacks; `left_out` says which are there no more, and why.

    `radius` is where the page opens; `certificates` are the terms of those that the rest of it is about.
    """
    return {
        "left_out": left_out,
        "sandwich": None if sandwich is None else _sandwich(sandwich, radius, certificates),
        "ace": None if ace is None else _ace(ace),
    }


def _sandwich(record: Sandwich, radius: float, certificates: Mapping[str, Any]) -> dict[str, Any]:
    best = record.strongest()
    return {
        "holds": record.holds,
        "drawn": bool(record.terms.draws),  # under noise, so that attacked values are estimates
        "verdict": verdict(record),
        "about": _about(record, certificates),
        "wants": [(name, WANTS[name]) for name in dict.fromkeys(row.adversary for row in record.rows)],
        "columns": [{"key": key, "label": own.label, "help": own.help} for key, own in SANDWICH_COLUMNS.items()],
        "cells": sandwich_cells(record),
        "failing": [place for place, row in enumerate(record.rows) if not row.holds],
        "strongest": best,
        "first": best.index(record.nearest(radius)),
        "curves": [{key: getattr(record.rows[place], key) for key in _CURVES} for place in best],
        "views": [_view(record, place) for place in best],
    }


def _view(record: Sandwich, place: int) -> dict[str, Any]:
    row, before, after = record.rows[place], record.before[place], record.after[place]
    assert before is not None
    assert after is not None
    return {
        "radius": row.radius,
        "sentence": tightness(record, place),
        "edges": before.edges.tolist(),
        "before": curve_data(before),
        "after": curve_data(after),
        "errors": [percent(error, Rounding.NEAREST) for error in (row.clean_ece, row.attacked_ece)],
        "where": f"{row.adversary}, R = {exactly(row.radius)}",
    }


def _about(record: Sandwich, certificates: Mapping[str, Any]) -> str:
    """Which inputs and which certificates; said where they are not the page's own."""
    own, parts = record.terms, []
    if record.of is not None and record.inputs < record.of:
        parts.append(f"{record.inputs:,} of the {record.of:,} inputs were attacked, evenly spread over them.")
    drawn = f" on {own.attack_draws:,} draws; {own.draws:,} fresh ones judged" if own.draws else " without noise"
    parts.append(f"Adversaries took {own.steps:,} steps{drawn} (seed {own.seed}).")
    if any(getattr(own, key) != value for key, value in certificates.items()):
        parts.append(
            f"The certificates here are those of α = {own.alpha!r}, {own.method}, {own.n_bins} bins, as they "
            "were when the attack was made, and not those of the table above."
        )
    return " ".join(parts)


def _ace(record: AceTable) -> dict[str, Any]:
    how = ace_sentence(record)
    flips = sum(row.label_changes for row in record.rows)
    labels = "Every label stayed as it was" if not flips else f"{flips:,} labels changed"
    return {
        "how": f"{how[0].upper()}{how[1:]}.",
        "stronger": record.stronger,
        "galil": GALIL if record.galil else "",
        "heads": ace_heads(record),
        "cells": ace_cells(record),
        "labels": f"{labels}, in forward passes of their own, on {several(record.inputs)}.",
        "edges": record.curves[0].edges.tolist(),
        "strongest": record.strongest(),
        "views": [
            {
                "name": ace_title(row, stronger=record.stronger),
                "error": percent(row.ece, Rounding.NEAREST),
                "bins": curve_data(curve),
            }
            for row, curve in zip(record.rows, record.curves, strict=True)
        ],
    }
