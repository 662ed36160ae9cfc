"""What is assumed is said once: on the page, and in the docs, in the same words."""

from dataclasses import replace
from pathlib import Path

from markupsafe import escape

from certcal import evaluate
from certcal.certificates import confidence_bounds
from certcal.report import model_card, page_data, render_page
from certcal.report.assumptions import ASSUMPTIONS, assumptions_table
from smoothing_oracles import random_evidence

DOCS = Path(__file__).parents[2] / "docs" / "certificates.md"


def test_the_docs_have_the_same_table():
    assert assumptions_table() in DOCS.read_text(encoding="utf-8")


def test_a_model_card_has_them(rng):
    report = evaluate(random_evidence(rng, inputs=20, draws=500), radii=[0.1], alpha=0.01)
    assert assumptions_table() in model_card(report, model="a", data="b")


def test_the_page_shows_them_where_draws_are_behind_it(rng):
    report = evaluate(random_evidence(rng, inputs=20, draws=500), radii=[0.1], alpha=0.01)
    page = render_page(page_data(report, title="a", created="now", facts=[]))
    assert all(escape(text) in page for row in ASSUMPTIONS for text in row)
    bounds = confidence_bounds(report.evidence, radius=0.1, alpha=0.01)
    other = evaluate(replace(bounds, method="declared"))
    assert "What is assumed, and what is not" not in render_page(page_data(other, title="a", created="now", facts=[]))
