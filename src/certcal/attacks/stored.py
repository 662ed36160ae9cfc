"""Attack records as plain data, as JSON keeps it, and back, with every value checked."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

import numpy as np

from certcal.attacks.records import AceRow, AceTable, Moved, Sandwich, SandwichRow, Terms
from certcal.files import plain
from certcal.metrics import ReliabilityCurve
from certcal.scalars import check_flag
from certcal.settings import PREDICTION_SHARE, Adversary, build

T = TypeVar("T")
SANDWICH, ACE = "sandwich", "ace"
CURVES = ("before", "after", "curves")
MOVED = "moved"
_OF_CURVE = ("edges", "count", "confidence", "accuracy", "lower", "upper", "alpha")


def to_plain(record: Sandwich | AceTable) -> dict[str, Any]:
    """A record as JSON keeps it, all but what it was made with."""
    sizes = {"inputs": record.inputs, "of": record.inputs if record.of is None else record.of}
    verdict = {"holds": record.holds} if isinstance(record, Sandwich) else {}
    curves = {name: [*map(_plain_curve, getattr(record, name))] for name in CURVES if hasattr(record, name)}
    moved = getattr(record, MOVED, ())
    pictured = {MOVED: [None if one is None else asdict(one) for one in moved]} if any(moved) else {}
    return sizes | verdict | {"rows": record.as_dicts()} | curves | pictured


def from_plain(name: str, kept: Mapping[str, Any]) -> Sandwich | AceTable:
    """The record of a family, from what `to_plain` gave and the settings in `made_with`.

    Whether rows hold is worked out from their numbers, whatever was written.

    Raises: ValueError, TypeError or LookupError where a value is missing, of another kind or no number.
    """
    return _sandwich(kept) if name == SANDWICH else _ace(kept)


def _sandwich(kept: Mapping[str, Any]) -> Sandwich:
    rows = tuple(_checked(SandwichRow, row) for row in kept["rows"])
    before, after = (tuple(map(_curve, kept[name])) for name in ("before", "after"))
    if not 0 < len(rows) == len(before) == len(after) or any(row.adversary not in tuple(Adversary) for row in rows):
        raise ValueError("rows and curves do not fit")
    older = {"runner_up": "complement", "prediction_share": PREDICTION_SHARE}
    made = {**older, **kept["made_with"]["certificates"], **kept["made_with"]["settings"]}
    if "joint" in made:  # its name in older files
        made["split_alpha"] = made.pop("joint")
    moved = tuple(None if one is None else _checked(Moved, one) for one in kept.get(MOVED, ()))
    if moved and len(moved) != len(rows):
        raise ValueError("rows and moved inputs do not fit")
    return Sandwich(rows, before, after, int(kept["inputs"]), _checked(Terms, made), int(kept["of"]), moved)


def _ace(kept: Mapping[str, Any]) -> AceTable:
    rows = tuple(_checked(AceRow, row) for row in kept["rows"])
    curves = tuple(own for one in kept["curves"] if (own := _curve(one)) is not None)
    attacks = {(row.eta, row.omega, row.epsilon) for row in rows}
    if not 2 <= len(curves) == len(rows) == len(attacks):
        raise ValueError("rows and curves do not fit")
    stronger = check_flag("stronger", kept["made_with"]["settings"]["stronger"])
    return AceTable(rows, curves, stronger, int(kept["of"]))


def _checked(kind: type[T], values: Mapping[str, Any]) -> T:
    """A record with every field from `values`, each of its own type and finite."""
    found = build(kind, {own.name: values[own.name] for own in fields(kind)}, "an attack's file")  # type: ignore[arg-type]
    for name, value in vars(found).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}")
    return found


def _plain_curve(curve: ReliabilityCurve | None) -> Any:
    return None if curve is None else plain({name: getattr(curve, name) for name in _OF_CURVE})


def _curve(kept: Mapping[str, Any] | None) -> ReliabilityCurve | None:
    if kept is None:
        return None
    # NumPy makes NaN of None.
    arrays: dict[str, Any] = {own.name: np.array(kept[own.name], dtype=np.float64) for own in fields(ReliabilityCurve)}
    return ReliabilityCurve(**arrays | {"alpha": float(kept["alpha"])})
