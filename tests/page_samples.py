"""Pages to look at and to test with, in the form that `render_page` takes.

Rows, bounds and worst cases are those of `evaluate` on random evidence. Made up are names and facts, the joint error
(certified plus 2K/N) and the approximation (0.9 of the certified error); views show the certified inputs only.
"""

import math
from dataclasses import replace

import numpy as np
from scipy import stats

from certcal import evaluate, reliability_curve
from smoothing_oracles import random_evidence

RADII = (0.0, 0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.18, 0.2, 0.25, 0.3, 0.4, 0.5)
COLUMNS = (  # key, label, help, round
    ("radius", "R", "ℓ2 radius within which each input may move", "nearest"),
    ("inputs", "inputs", "inputs the errors in this row are about", "nearest"),
    ("certified", "certified", "inputs whose prediction provably stays the same within R", "nearest"),
    ("certified_accuracy", "certified accuracy", "share of all inputs that are correct and certified at R", "down"),
    ("ece", "clean ECE", "expected calibration error without an attack", "nearest"),
    ("adaptive_ece", "clean AdaECE", "the same with bins of equal count", "nearest"),
    ("brier", "clean Brier", "Brier score of the top label without an attack", "nearest"),
    ("certified_ece", "certified ECE", "the largest ECE within the certificates; exact", "up"),
    ("joint_ece", "jointly certified ECE", "the same when K certificates fail", "up"),
    ("certified_brier", "certified Brier", "the largest Brier score within the certificates", "up"),
    ("mean_width", "mean width", "mean width of the confidence certificates", "up"),
    ("approximate_admm", "ADMM", "the paper's approximation: a lower bound of the worst case", "nearest"),
)
PERCENT = ("certified_accuracy", "ece", "adaptive_ece", "certified_ece", "joint_ece", "approximate_admm")


def page_sample(inputs=200, radii=RADII, population="certified", classes=10, approximate=False, **changed):
    """Page data of a made-up evaluation; `changed` replaces entries of the result."""
    rng = np.random.default_rng(7)
    evidence = random_evidence(rng, inputs=inputs, draws=20000)
    right = rng.random(inputs) < evidence.confidence**0.8
    report = evaluate(replace(evidence, label=right.astype(int)), radii=radii, alpha=1e-3, population=population)
    columns = [column for column in COLUMNS if approximate or column[0] != "approximate_admm"]
    rows = [_row(row, inputs, approximate) for row in report]
    names = [str(k) for k in range(classes)] if classes <= 10 else [f"class number {k}" for k in range(classes)]
    views = [_view(*parts, names) for parts in zip(rows, report.bounds, report.worst, strict=True)]
    default = min(len(rows) - 1, 4)
    return {
        "title": "digits · small-cnn · σ = 0.25",
        "created": "2026-11-15 10:30 UTC",
        "headline": views[default]["sentence"],
        "caveats": [
            "It is about these inputs, and says nothing about inputs that were not certified.",
            "It is about ℓ2 perturbations of each input within R, and about no other change of the world.",
            "It holds for the smoothed model in the recorded precision, not for the network without noise.",
            "Inputs whose prediction may change within R are left out: the claim is about the certified ones.",
        ],
        "facts": [["model", "small-cnn, fingerprint 3fa9c2d1"], ["data", f"digits test, {inputs} inputs"],
                  ["noise σ", "0.25"], ["draws per input", "100 + 20 000"], ["α per input", "0.001"],
                  ["δ for the whole set", "0.001 (K = 3 failed certificates allowed)"], ["certificate", "cdf-cp"],
                  ["bins", "15 of equal width"], ["certcal", "0.2.0, commit abc1234"], ["torch", "2.13.0, cpu"],
                  ["seed", "0"], ["wall time", "41 s"]],
        "population": population,
        "classes": names,
        "columns": [dict(zip(("key", "label", "help", "round"), column, strict=True)) for column in columns],
        "rows": rows,
        "cells": [[_cell(row[key], key, way) for key, _, _, way in columns] for row in rows],
        "average_certified_radius": report.average_certified_radius,
        "inputs": inputs,
        "default_view": default,
        "views": views,
    } | changed  # fmt: skip


def _row(row, inputs, approximate):
    out = {key: _plain(value) for key, value in vars(row).items()}
    slack = 2 * stats.binom.ppf(0.999, inputs, 1e-3) / max(row.inputs, 1)
    out["joint_ece"] = None if out["certified_ece"] is None else min(1.0, out["certified_ece"] + slack)
    return out | ({"approximate_admm": out["certified_ece"] and 0.9 * out["certified_ece"]} if approximate else {})


def _plain(value):
    return None if math.isnan(value) else value


def _cell(value, key, way):
    if value is None or isinstance(value, int):
        return "—" if value is None else str(value)
    turn = {"up": math.ceil, "down": math.floor, "nearest": round}[way]
    mille = turn(round(value * 1000, 9))
    return f"{mille / 10:.1f} %" if key in PERCENT else f"{mille / 1000:.3f}"


def _view(row, bounds, worst, names):
    kept = bounds.certified
    view = {"radius": row["radius"], "edges": [m / 15 for m in range(16)], "worst": None}
    lower, upper, correct, clean = (getattr(bounds, key)[kept] for key in ("lower", "upper", "correct", "confidence"))
    index = np.flatnonzero(kept)
    shown = np.argsort(lower + upper)[np.linspace(0, len(index) - 1, min(120, len(index))).round().astype(int)]
    edges = np.linspace(0.0, max(0.1, math.ceil(10 * (upper - lower).max(initial=0.0)) / 10), 21)
    count = [np.histogram((upper - lower)[correct == flag], edges)[0] for flag in (True, False)]
    view["widths"] = {"edges": edges.tolist(), "correct": count[0].tolist(), "incorrect": count[1].tolist()}
    moved = np.full(len(index), np.nan) if worst is None else worst.confidence
    box = {"lower": lower, "upper": upper, "worst": moved, "correct": correct.astype(int), "index": index}
    view["boxes"] = {key: value[shown].tolist() for key, value in box.items()} | {"inputs": len(index)}
    moves = {"clean": clean, "worst": moved, "correct": correct.astype(int), "index": index}
    view["moves"] = {key: value[:300].tolist() for key, value in moves.items()} | {"inputs": len(index)}
    view["clean"] = _bins(clean, correct)
    if worst is None:
        sentence = f"At R = {row['radius']:g} no prediction is certified, so nothing is guaranteed about these inputs."
        return view | {"sentence": sentence, "top": []}
    view["worst"] = _bins(moved, correct) | {"sign": worst.signs.tolist()}
    share = worst.signs[worst.bins] * (correct - moved) / row["inputs"]
    view["top"] = [
        {"index": int(index[i]), "label": names[i % len(names)], "correct": bool(correct[i]),
         "predicted": names[i % len(names) if correct[i] else (i + 3) % len(names)], "confidence": float(clean[i]),
         "lower": float(lower[i]), "upper": float(upper[i]), "worst": float(moved[i]), "share": float(share[i]),
         "certified_radius": float(bounds.certified_radius[kept][i])}
        for i in np.argsort(-share)[:20]
    ]  # fmt: skip
    view["sentence"] = (
        f"With probability at least 99.9 % over the noise draws, the expected calibration error on these {len(index)} "
        f"inputs is at most {_cell(row['joint_ece'], 'joint_ece', 'up')} under any ℓ2 perturbation of each input "
        f"within R = {row['radius']:g}."
    )
    return view


def _bins(confidence, correct):
    if not len(confidence):
        return {"count": [0] * 15, "confidence": [None] * 15, "accuracy": [None] * 15}
    curve = reliability_curve(confidence, correct)
    return {
        "count": curve.count.astype(int).tolist(),
        "confidence": [_plain(value) for value in curve.confidence.tolist()],
        "accuracy": [_plain(value) for value in curve.accuracy.tolist()],
    }
