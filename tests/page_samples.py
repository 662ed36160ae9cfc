"""Pages to look at and to test with: real evaluations of made-up evidence, in the form that `render_page` takes."""

from dataclasses import replace

import numpy as np

from certcal import evaluate
from certcal.certificates import confidence_bounds_at
from certcal.recalibration import held_out_scores, trade_off
from certcal.report import page_data
from certcal.report.recalibrated import recalibration_section
from smoothing_oracles import random_evidence

RADII = (0.0, 0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.18, 0.2, 0.25, 0.3, 0.4, 0.5)
FACTS = [("model", "small-cnn, fingerprint 3fa9c2d1"), ("data", "digits test"), ("noise σ", "0.25"), ("seed", "0")]


def page_sample(inputs=200, radii=RADII, population="certified", classes=10, approximate=False, **changed):
    """Page data of a made-up evaluation; `changed` replaces entries of the result."""
    rng = np.random.default_rng(7)
    evidence = random_evidence(rng, inputs=inputs, draws=20000)
    right = rng.random(inputs) < evidence.confidence**0.8
    evidence = replace(evidence, label=np.where(right, evidence.selected, 1 - evidence.selected))
    asked = ["brier"] if approximate else []
    report = evaluate(evidence, radii=radii, alpha=1e-3, population=population, approximations=asked)
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
    return page_data(report, title="recalibrated", created="2026-11-15", facts=FACTS, recalibration=section)
