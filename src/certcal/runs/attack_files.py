"""The attack folder of a run: what attacks left there, if it is about the run's evidence."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from certcal.errors import InputError
from certcal.inputs import check_flag
from certcal.metrics.reliability import ReliabilityCurve
from certcal.report import exactly, plot_reliability
from certcal.report.attack_figures import ATTACKED, plot_sandwich, prepare_sandwich_curves
from certcal.report.attack_page import attack_data
from certcal.report.attacks import (
    WANTS,
    AceRecord,
    SandwichRecord,
    ace_tables,
    ace_title,
    holds,
    sandwich_tables,
)
from certcal.report.figures import CORRECT
from certcal.runs.drawing import save_figure
from certcal.runs.folder import RunFolder

FOLDER = "attack"
SANDWICH, ACE = "sandwich", "ace"
_NO_NUMBER = float("nan")
_WHOLE, _SHARES = ("inputs", "contradictions", "allowed"), ("clean", "attacked", "certified", "limit")
_SANDWICH_ROW: dict[str, type] = {
    **dict.fromkeys(_WHOLE, int),
    **dict.fromkeys(("radius", "accuracy", "excess"), float),
    **{f"{name}_{score}": float for name in _SHARES for score in ("ece", "brier")},
    "adversary": str,
}
_ACE_ROW: dict[str, type] = {
    **dict.fromkeys(("eta", "inputs", "label_changes", "moved", "stopped_by_label"), int),
    **dict.fromkeys(("epsilon", "accuracy", "ece", "adaptive_ece", "brier", "mean_confidence"), float),
    "omega": str,
}


@dataclass(frozen=True, eq=False)
class Kept:
    """The families of attacks that a run's folder holds and that are about its evidence."""

    sandwich: SandwichRecord | None
    ace: AceRecord | None
    files: Mapping[str, dict[str, Any]]  # what their JSON files hold
    stale: tuple[str, ...]  # families left out, because the evidence has changed since
    broken: tuple[str, ...] = ()  # families left out, because their file is not as this version writes it

    @property
    def left_out(self) -> str:
        """Which families are left out and why; empty if none is."""
        why = dict.fromkeys(self.stale, "the evidence has changed since")
        why |= {name: f"{FOLDER}/{name}.json is not as this version of certcal writes it" for name in self.broken}
        return "; ".join(f"{name} left out, as {reason}" for name, reason in why.items())

    def __bool__(self) -> bool:
        return bool(self.files)


def kept_attacks(run: RunFolder) -> Kept:
    """What the attack folder holds that fits the evidence."""
    found: dict[str, dict[str, Any]] = {}
    broken = []
    for name in (SANDWICH, ACE):
        try:
            read = read_family(run, name)
        except InputError:
            broken.append(name)
        else:
            found |= {} if read is None else {name: read}
    digest = run.evidence_digest() if found else ""
    files = {name: read for name, read in found.items() if read["made_with"].get("evidence") == digest}
    stale = tuple(name for name in found if name not in files)
    return Kept(
        _sandwich(files[SANDWICH]) if SANDWICH in files else None,
        _ace(files[ACE]) if ACE in files else None,
        files,
        stale,
        tuple(broken),
    )


def read_family(run: RunFolder, name: str) -> dict[str, Any] | None:
    """The JSON file of one family; None if there is none."""
    path = run.path / FOLDER / f"{name}.json"
    if not path.exists():
        return None
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        record = _record(name, read)
        read["made_with"].get("evidence")
        read["rows"] = list(record.rows)
        if isinstance(record, SandwichRecord):
            read["holds"] = record.holds  # from the numbers, whatever was written
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise InputError.expected(
            "run", f"hold a {FOLDER}/{name}.json as certcal writes it (or none)", str(path)
        ) from error
    return dict(read)


def _record(name: str, read: dict[str, Any]) -> SandwichRecord | AceRecord:
    return _sandwich(read) if name == SANDWICH else _ace(read)


def write_family(run: RunFolder, name: str, content: dict[str, Any]) -> None:
    """The tables of one family and then its JSON file: where that is, the others are of the same attack."""
    with run.writing():
        tables = sandwich_tables(_sandwich(content)) if name == SANDWICH else ace_tables(_ace(content))
        for ending, text in tables.items():
            run.write(f"{FOLDER}/{name}.{ending}", text)
        run.write_json(f"{FOLDER}/{name}.json", content)


def curve_as_dict(curve: ReliabilityCurve | None) -> dict[str, Any] | None:
    """A reliability curve as plain data."""
    if curve is None:
        return None
    values = {one.name: getattr(curve, one.name) for one in fields(curve)}
    return {name: _plain(value.tolist()) if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _plain(values: list[float]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values]


def _curve(kept: dict[str, Any] | None) -> ReliabilityCurve | None:
    if kept is None:
        return None
    arrays = {
        one.name: np.array([_NO_NUMBER if value is None else value for value in kept[one.name]], dtype=np.float64)
        for one in fields(ReliabilityCurve)
        if one.name != "alpha"
    }
    return ReliabilityCurve(**arrays, alpha=float(kept["alpha"]))


def _sandwich(read: dict[str, Any]) -> SandwichRecord:
    before, after = (tuple(map(_curve, read[name])) for name in ("before", "after"))
    rows = tuple(row | {"holds": holds(row)} for row in _rows(read, _SANDWICH_ROW))
    made_with, sizes = read["made_with"], (int(read["inputs"]), int(read["of"]))
    if not len(rows) == len(before) == len(after) or any(row["adversary"] not in WANTS for row in rows):
        raise ValueError("rows and curves do not fit")
    certificates, settings = dict(made_with["certificates"]), dict(made_with["settings"])
    if "joint" in certificates:  # its name in older files
        certificates["split_alpha"] = certificates.pop("joint")
    _check(certificates, {"alpha": float, "delta": float, "method": str, "split_alpha": bool, "n_bins": int})
    _check(settings, dict.fromkeys(("draws", "attack_draws", "steps", "seed"), int))
    return SandwichRecord(rows, before, after, *sizes, certificates, settings)


def _ace(read: dict[str, Any]) -> AceRecord:
    curves = tuple(own for kept in read["curves"] if (own := _curve(kept)) is not None)
    rows = _rows(read, _ACE_ROW)
    keys = [(row["eta"], row["omega"], row["epsilon"]) for row in rows]
    if len(curves) < 2 or len(curves) != len(rows) or len(set(keys)) < len(keys):
        raise ValueError("rows and curves do not fit")
    stronger = read["made_with"]["settings"]["stronger"]
    return AceRecord(rows, curves, check_flag("stronger", stronger), int(read["of"]))


def _rows(read: dict[str, Any], keys: Mapping[str, type]) -> tuple[dict[str, Any], ...]:
    """The rows of a file, each with every value, of its kind."""
    rows = tuple(dict(row) for row in read["rows"])
    if not rows:
        raise ValueError("no rows")
    for row in rows:
        _check(row, keys)
    return rows


def _check(values: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    for key, kind in kinds.items():
        value: Any = values[key]
        wanted: Any = (int, float) if kind is float else kind
        flag = isinstance(value, bool) and kind is not bool
        if flag or not isinstance(value, wanted) or (kind is float and not math.isfinite(float(value))):
            raise ValueError(f"{key} is {value!r}")


def attack_metrics(kept: Kept) -> dict[str, Any] | None:
    """What metrics.json says about attacks: rows and settings, without curves; None if there are none."""
    hidden = ("before", "after", "curves")
    brief = {name: {key: own for key, own in read.items() if key not in hidden} for name, read in kept.files.items()}
    return brief or None


def attack_page(kept: Kept, radius: float, certificates: dict[str, Any]) -> dict[str, Any] | None:
    """What a page that opens at a radius shows of attacks; None if there are none."""
    if not kept and not kept.left_out:
        return None
    return attack_data(kept.sandwich, kept.ace, radius=radius, certificates=certificates, left_out=kept.left_out)


def write_attack_figures(run: RunFolder, kept: Kept, radius: float) -> None:
    """The sandwich, reliability before and after at the radius closest to that given, and the paper's five diagrams."""
    if kept.sandwich is not None:
        curves = prepare_sandwich_curves(kept.sandwich)
        save_figure(run, "sandwich", lambda ax: plot_sandwich(curves, ax=ax))
        place = kept.sandwich.nearest(radius)
        _reliability_pair(run, kept.sandwich, place)
    if kept.ace is not None:
        own = kept.ace
        worst = own.rows[own.strongest()]["epsilon"]
        shown = [n for n, row in enumerate(own.rows) if n == 0 or row["epsilon"] == worst]
        titles = [ace_title(row, stronger=own.stronger) for row in own.rows]
        save_figure(run, "ace_reliability", *(_diagram(own.curves[n], titles[n], n > 0) for n in shown))


def _reliability_pair(run: RunFolder, record: SandwichRecord, place: int) -> None:
    row, before, after = record.rows[place], record.before[place], record.after[place]
    if before is None or after is None:
        return
    where = f"{row['adversary']}, R = {exactly(row['radius'])}"
    save_figure(run, "attack_reliability", _diagram(before, "no attack", False), _diagram(after, where, True))


def _diagram(curve: ReliabilityCurve, title: str, attacked: bool) -> Any:
    colour = ATTACKED if attacked else CORRECT
    named = f"{title}: ECE {100 * curve.error:.1f} %"
    return lambda ax: plot_reliability(curve, ax=ax, title=named, colour=colour, interval=not attacked)
