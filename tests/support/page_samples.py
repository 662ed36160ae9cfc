"""Pages to look at and to test with: real evaluations of made-up evidence, in the form that `render_page` takes."""

from dataclasses import replace

import numpy as np

from certcal import evaluate
from certcal.attacks import AceRow, AceTable, Sandwich, SandwichRow, Terms
from certcal.certificates import confidence_bounds_at
from certcal.metrics import reliability_curve
from certcal.recalibration import held_out_scores, trade_off
from certcal.report import attack_data, page_data, recalibration_section
from smoothing_oracles import random_evidence

RADII = (0.0, 0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.18, 0.2, 0.25, 0.3, 0.4, 0.5)
FACTS = [("model", "small-cnn, fingerprint 3fa9c2d1"), ("data", "digits test"), ("noise σ", "0.25"), ("seed", "0")]


def page_sample(
    inputs=200, radii=RADII, population="certified", classes=10, approximate=False, open_at=None, **changed
):
    """Page data of a made-up evaluation; `changed` replaces entries of the result."""
    rng = np.random.default_rng(7)
    evidence = random_evidence(rng, inputs=inputs, draws=20000)
    right = rng.random(inputs) < evidence.confidence**0.8
    evidence = replace(evidence, label=np.where(right, evidence.selected, 1 - evidence.selected))
    asked = ["brier"] if approximate else []
    report = evaluate(evidence, radii=radii, alpha=1e-3, population=population, approximations=asked, open_at=open_at)
    names = [str(k) for k in range(classes)] if classes <= 10 else [f"class number {k}" for k in range(classes)]
    title, created = "digits · small-cnn · σ = 0.25", "2026-11-15 10:30 UTC"
    return page_data(report, title=title, created=created, facts=FACTS, classes=names) | changed


def recalibrated_sample(inputs=200):
    """Page data of a made-up recalibration, with a map for two radii."""
    rng = np.random.default_rng(7)
    evidence = random_evidence(rng, inputs=inputs, draws=20000)
    right = rng.random(inputs) < evidence.confidence
    evidence = replace(evidence, label=np.where(right, evidence.selected, 1 - evidence.selected))
    radii = (0.05, 0.1)
    bounds = confidence_bounds_at(evidence, radii=radii, alpha=1e-3)
    options = {"repeats": 5}
    held = held_out_scores(bounds, clean_weight=0.5, **options)
    curve = trade_off(bounds, clean_weights=[0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0], **options)
    report = evaluate(evidence.select(held.test[0]), radii=RADII, alpha=1e-3, recalibration=held.maps[0])
    section = recalibration_section(held, curve, radii)
    return page_data(
        report, title="recalibrated", created="2026-11-15", facts=FACTS, sections={"recalibration": section}
    )


CERTIFICATES = {
    "alpha": 1e-3,
    "method": "cdf-cp",
    "split_alpha": True,
    "prediction_share": 0.5,
    "runner_up": "complement",
    "n_bins": 15,
}


def attacked_sample(
    *,
    refuted=False,
    families=("sandwich", "ace"),
    limit=None,
    budgets=(2 / 255, 8 / 255),
    stronger=False,
    left_out="",
    **options,
):
    """Page data with a section on attacks whose numbers are made up from the evaluation's own."""
    data = page_sample(**{"radii": (0.0, 0.1, 0.2, 0.3), "inputs": 80} | options)
    rng, inputs = np.random.default_rng(3), limit or data["inputs"]
    rows, before, after = [], [], []
    for row in data["rows"][1:]:
        for adversary, share in (("brier", 0.4), ("reach", 0.7)):
            drawn = rng.uniform(0.5, 1.0, 60)
            right = rng.random(60) < drawn
            curves = reliability_curve(drawn, right), reliability_curve(drawn**2, right)
            before.append(curves[0])
            after.append(curves[1])
            made = {"radius": row["radius"], "adversary": adversary, "inputs": row["certified"], "accuracy": 0.9}
            for score in ("ece", "brier"):
                low, high = row[score], row[f"certified_{score}"]
                made |= {f"clean_{score}": low, f"attacked_{score}": low + share * (high - low)}
                made |= {f"certified_{score}": high, f"limit_{score}": min(1.0, high + 0.1)}
            broken = refuted and adversary == "reach" and row["radius"] == 0.2
            excess = 0.01 if broken else -0.02
            rows.append(SandwichRow(**made, contradictions=9 * broken, allowed=1, excess=excess))
    terms = Terms(**CERTIFICATES, delta=1e-3, draws=1000, attack_draws=32, steps=20, seed=0)
    sandwich = Sandwich(tuple(rows), tuple(before), tuple(after), inputs, terms, data["inputs"])
    pairs = [(0, "", 0.0), *((eta, omega, e) for omega in ("y", "yhat") for eta in (-1, 1) for e in budgets)]
    counts = {"inputs": inputs, "accuracy": 0.9, "brier": 0.1, "mean_confidence": 0.8, "label_changes": 0}
    ace_rows, curves = [], []
    for place, (eta, omega, epsilon) in enumerate(pairs):
        error = {"ece": 0.02 + 0.01 * place, "adaptive_ece": 0.03 + 0.01 * (place * 7 % 9)}
        ace_rows.append(AceRow(eta=eta, omega=omega, epsilon=epsilon, moved=5, stopped_by_label=1, **counts, **error))
        drawn = rng.uniform(0.3, 1.0, 60)
        curves.append(reliability_curve(drawn, rng.random(60) < drawn))
    ace = AceTable(tuple(ace_rows), tuple(curves), stronger, data["inputs"])
    found = {"sandwich": sandwich, "ace": ace}
    kept = [found[name] if name in families else None for name in found]
    radius = data["rows"][data["default_view"]]["radius"]
    return data | {"attack": attack_data(*kept, radius=radius, certificates=CERTIFICATES, left_out=left_out)}, found
