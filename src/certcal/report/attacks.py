"""What attacks did, for people: the sandwich and the paper's Table 1 as tables, words and a section of the page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from certcal.attacks import AceRow, AceTable, Sandwich
from certcal.errors import several
from certcal.evaluation import Look, Rounding, percent
from certcal.files import csv_of
from certcal.report.content import curve_data
from certcal.report.tables import latex_text, markdown_text
from certcal.scalars import exactly

_UP = Rounding.UP
_PERCENT: dict[str, Any] = {"digits": 2, "percent": True}
_MAY = "an estimate may show at most this if the certificates are sound; one above it refutes them"
SANDWICH_COLUMNS = {
    "radius": Look("R", "how far each input was moved at most, in ℓ2"),
    "adversary": Look("adversary", "what the attack wants"),
    "inputs": Look("inputs", "attacked inputs that are certified at R; everything in the row is about them"),
    "clean_ece": Look("clean ECE", "calibration error without an attack, estimated from fresh draws", **_PERCENT),
    "attacked_ece": Look("attacked ECE", "the same once the inputs were moved: an estimate from below", **_PERCENT),
    "certified_ece": Look("certified ECE", "the largest ECE of any confidences within the certificates",
                          _UP, **_PERCENT),
    "limit_ece": Look("limit, ECE", _MAY, _UP, **_PERCENT),
    "clean_brier": Look("clean Brier", "Brier score of the predicted class, without an attack", digits=4),
    "attacked_brier": Look("attacked Brier", "the same once the inputs were moved: an estimate from below", digits=4),
    "certified_brier": Look("certified Brier", "the largest Brier score within the certificates", _UP, 4),
    "limit_brier": Look("limit, Brier", _MAY, _UP, 4),
    "contradictions": Look("contradict", "inputs that contradict their certificate: seen outside it, beyond chance"),
    "allowed": Look("allowed", "certificates that may fail: as many inputs may contradict theirs"),
    "excess": Look("excess", "how far confidences lie beyond their certificates on average, at the least: "
                   "above 0 it refutes them", Rounding.DOWN, 4),
    "holds": Look("holds", "whether nothing seen contradicts the certificates"),
}  # fmt: skip
_CURVES = ("radius", "inputs", "clean_ece", "attacked_ece", "certified_ece", "limit_ece")
PAPERS = "the paper's attack, which stops at the first step that would change a label"
STRONGER = "an attack stronger than the paper's, which turns back where a step would change a label"
GALIL = (
    "Galil ACE is the original attack of Galil and El-Yaniv (2021): one step that lowers the confidence of right "
    "predictions and raises that of wrong ones."
)
WANTS = {
    "smoothadv": "a large cross-entropy (Salman et al. 2019)",
    "brier": "a large Brier score: each confidence away from its correctness",
    "acce": "a large calibration error, by the paper's Algorithm 2",
    "cce": "each confidence where the exact worst case within the certificates has it",
    "reach": "the largest calibration error among the confidences that gradient ascent reaches",
}


def sandwich_cells(record: Sandwich, keys: Iterable[str] = SANDWICH_COLUMNS) -> list[list[str]]:
    """These columns of the sandwich as text: certified values rounded up, estimates to the nearest."""
    return [[_shown(SANDWICH_COLUMNS[key], getattr(row, key)) for key in keys] for row in record.rows]


def _shown(own: Look, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return value if isinstance(value, str) else own.show(value)


def sandwich_tables(record: Sandwich) -> dict[str, str]:
    """The sandwich as CSV with every digit, as Markdown and as LaTeX, by the ending of the file's name."""
    heads, lines = [own.label for own in SANDWICH_COLUMNS.values()], sandwich_cells(record)
    sides = "".join("l" if key == "adversary" else "r" for key in SANDWICH_COLUMNS)
    return {
        "csv": csv_of(record.as_dicts()),
        "md": markdown_text(heads, lines, sides=sides),
        "tex": latex_text(["$R$", *heads[1:]], lines, sides=sides),
    }


def ace_sentence(record: AceTable) -> str:
    """Which attack it is, and on how many inputs."""
    count = record.inputs
    inputs = several(count) if record.of in (None, count) else f"{count:,} of {several(record.of or count)}"
    return f"{STRONGER if record.stronger else PAPERS}, on {inputs}"


def ace_heads(record: AceTable) -> list[str]:
    """The heads of Table 1: for each budget AdaECE and ECE, then accuracy."""
    pairs = [f"{name}, ε = {exactly(budget)}" for budget in record.epsilons for name in ("AdaECE", "ECE")]
    return ["η", "ω", *pairs, "accuracy"]


def ace_cells(record: AceTable) -> list[list[str]]:
    """The layout of the paper's Table 1: without attack, then one line per configuration."""
    clean, *attacked = record.rows
    count = len(record.epsilons)
    lines = [_ace_line(["unattacked", ""], [clean] * count)]
    for key in dict.fromkeys((row.eta, row.omega) for row in attacked):
        own = [row for row in attacked if (row.eta, row.omega) == key]
        lines.append(_ace_line(ace_name(own[0]), own))
    return lines


def ace_name(row: AceRow) -> list[str]:
    """η and ω as the paper writes them."""
    if row.eta == 0:
        return ["Galil ACE", ""] if row.omega else ["unattacked", ""]
    return [f"{row.eta:+d}".replace("-", "−"), "y" if row.omega == "y" else "ŷ"]


def ace_title(row: AceRow, *, stronger: bool = False) -> str:
    """One attack in a few words."""
    eta, omega = ace_name(row)
    if not row.epsilon and not omega and not row.omega:
        return "no attack"
    name = f"{'stronger ' * stronger}({eta}, {omega})-ACE" if omega else eta
    return f"{name}, ε = {exactly(row.epsilon)}"


def _ace_line(name: list[str], own: Sequence[AceRow]) -> list[str]:
    near = Rounding.NEAREST
    errors = [percent(value, near) for row in own for value in (row.adaptive_ece, row.ece)]
    # Labels are kept, so that all budgets have one accuracy; where they do not, all of them are shown.
    return [*name, *errors, " / ".join(dict.fromkeys(percent(row.accuracy, near) for row in own))]


def ace_tables(record: AceTable) -> dict[str, str]:
    """Table 1 as Markdown and LaTeX, and every number of every attack as CSV, by the ending of the file's name."""
    heads, lines = ace_heads(record), ace_cells(record)
    latex = {"η": r"$\eta$", "ω": r"$\omega$"}
    named = [latex.get(head, head.replace("ε", r"$\epsilon$")) for head in heads]
    symbols = [[cell.replace("−", "$-$").replace("ŷ", r"$\hat{y}$") for cell in line] for line in lines]
    sort = "ll" + "r" * (len(heads) - 2)
    return {
        "csv": csv_of(record.as_dicts()),
        "md": markdown_text(heads, lines, sides=sort) + (f"\nThis is {STRONGER}.\n" if record.stronger else ""),
        "tex": (f"% {STRONGER}\n" if record.stronger else "") + latex_text(named, symbols, sides=sort),
    }


def verdict(record: Sandwich) -> str:
    """Whether the attacks speak against the certificates, in words."""
    chance = f"{100 * record.terms.delta:g} %"
    failing = [row for row in record.rows if not row.holds]
    if not failing and not record.terms.draws:
        return (
            "Nothing that was seen under attack contradicts the bounds. Had they been unsound, an attack might have "
            "shown it. No noise and so no chance was involved."
        )
    if not failing:
        return _by_chance(record) + (
            "Nothing that was seen under attack contradicts the certificates. Had they been unsound, an attack might "
            f"have shown it; sound ones would have been contradicted by chance with probability at most {chance}."
        )
    blame = "that the evidence was drawn with" if record.terms.draws else "that the bounds are of"
    alone = f" Chance alone does this with probability at most {chance}." if record.terms.draws else ""
    where = ", ".join(dict.fromkeys(f"R = {exactly(row.radius)} ({row.adversary})" for row in failing))
    return (
        f"The attacks contradict the certificates at {where}. Do not rely on the guarantee: either the certificates "
        f"are unsound, or model, data or precision are not those {blame}.{alone}"
    )


def _by_chance(record: Sandwich) -> str:
    """What stands in the way of a contradiction, if something does."""
    said, draws = "", record.terms.draws
    if any(row.attacked_ece > row.certified_ece for row in record.rows):
        said = "Attacked values above certified ones are within what so few draws and inputs do by chance. "
    # The half-width 7 L / (3 (m − 1)) of an input's limits, whatever is seen, at its share of delta; docs/attacks.md.
    log_term = math.log(32 * len(record.rows) * max(record.inputs, 1) / record.terms.delta)
    if 7 * log_term >= 3 * (draws - 1):
        said += f"With {draws:,} fresh draw{'s' * (draws > 1)} no single input could contradict its certificate. "
    return said


def tightness(record: Sandwich, place: int) -> str:
    """What the strongest attack at a radius made of the room that the certificate leaves."""
    row, near = record.rows[place], Rounding.NEAREST
    room, gained = row.certified_ece - row.clean_ece, row.attacked_ece - row.clean_ece
    share = f", {max(0.0, 100 * gained / room):.0f} % of the way" if room > 0 else ""
    seen = "an estimated " if record.terms.draws else ""
    rightly = "It is" if row.inputs == 1 else "All of them are"
    right = f" {rightly} predicted rightly, so that every adversary lowers confidences." * (row.accuracy == 1)
    return (
        f"At R = {exactly(row.radius)} the strongest attack ({row.adversary}) raises the ECE of the "
        f"{several(row.inputs, 'certified input')} from {percent(row.clean_ece, near)} to {seen}"
        f"{percent(row.attacked_ece, near)}{share} to the certified {percent(row.certified_ece, _UP)}.{right}"
    )


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
