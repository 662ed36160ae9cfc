"""Figures drawn from evidence: what stands on their axes, and of which models they are."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from certcal.smoothing import load_evidence
from certcal.studies import Pack, curves, ranked
from certcal.studies.stored import Source
from certcal.worstcase import certified_calibration_error
from places import ROOT

REFERENCE = ROOT / "reference"
EVIDENCE = sorted((REFERENCE / "evidence").glob("digits-*.parquet"))


@pytest.fixture
def models():
    """A few models on the same inputs."""
    return [one for path in EVIDENCE for one in Source.found(path).models("", every=True)]


def panels(draws):
    figure = Figure()
    return [draw(figure.add_subplot(len(draws), 1, place)) for place, draw in enumerate(draws, 1)]


def test_correlations_are_of_all_models_at_each_radius(models, monkeypatch):
    monkeypatch.setattr(ranked, "FEWEST", len(models))
    found = ranked.trade_off_values(models)
    assert 0.25 in found
    assert all(len(values[key]) == len(models) for values in found.values() for key in values)
    pack = {row.entry: row for row in Pack.read(REFERENCE).rows()
            if (row.track, row.radius) == ("paper", 0.25) and row.entry.startswith("digits")}  # fmt: skip
    assert sorted(found[0.25]["CA"]) == pytest.approx(sorted(one.certified_accuracy for one in pack.values()))


def test_the_papers_certificate_takes_draws_as_fixed_as_in_the_pack():
    """Screened evidence counts its looks, by other limits than the paper's: they would stand there in its name."""
    pack = Pack.read(REFERENCE)
    name = "fashion-mnist-s0.25-e0.50-m4-t2-seed0"
    (entry,) = [one for one in pack.entry if one.name == name]
    row = next(row for row in pack.rows() if (row.entry, row.track, row.radius) == (name, "paper", 0.5))
    (model,) = Source.found(pack.file(entry)).models("", every=True)
    found = ranked.trade_off_values([model] * ranked.FEWEST)[0.5]
    assert (found["CCE"][0], found["CBS"][0]) == pytest.approx((row.certified_ece, row.certified_brier))


def test_correlations_name_their_models_at_each_radius_and_hide_no_line(models, monkeypatch):
    monkeypatch.setattr(ranked, "FEWEST", len(models))
    (axes,) = panels(ranked.trade_off([replace(one, seed=7) for one in models]))
    assert axes.get_title() == "digits, seed 7, cdf certificate"
    assert next(one.get_text() for one in axes.get_xticklabels()) == f"0.05\n{len(models)}"
    dashed = {line.get_label() for line in axes.get_lines() if line.get_linestyle() == "--"}
    assert dashed == {"CA and CCE", "ACR and CCE"}


def test_figures_of_admm_are_in_words_with_the_exact_value(models, monkeypatch):
    for solver in (curves.ONE_ADMM, curves.DECE):
        monkeypatch.setitem(solver, "steps", 3)
    evidence = load_evidence(EVIDENCE[0]).select(np.arange(80))
    models = [replace(models[0], read=lambda: evidence)]
    for draw in (curves.lagrangian, curves.constraints, curves.assignment):
        drawn = panels(draw(models))
        titles = [axes.get_title() for axes in drawn]
        assert len(set(titles)) == len(titles)
        assert all(titles)
        assert all(axes.get_xlabel() and axes.get_ylabel() for axes in drawn)
        assert not [text for text in titles if "_" in text or "distance" in text]
        assert "σ = 0.25 = R, 80 inputs" in drawn[0].figure.get_suptitle()
        if draw is curves.constraints:
            assert {axes.get_yscale() for axes in drawn} == {"log"}
            assert drawn[0].get_legend_handles_labels()[1] == ["‖·‖₁", "‖·‖∞"]
    (bounds,) = curves.paper_bounds(evidence, [0.25])
    exact = certified_calibration_error(bounds).value
    errors = [axes for axes in panels(curves.lagrangian(models)) if axes.get_ylabel() == "calibration error"]
    assert len(errors) == 2
    for axes in errors:
        assert axes.get_lines()[-1].get_ydata() == pytest.approx([exact] * 2)
    for draw in (curves.starts, curves.single_admm):
        (axes,) = panels(draw(models))
        assert axes.get_lines()[2].get_ydata() == pytest.approx([exact] * 2)  # at σ / 4, σ / 2, σ
        assert all(bar.get_height() <= exact + 1e-9 for bar in axes.patches[2 :: len(axes.get_xticks())])
        assert max(map(len, axes.get_title().splitlines())) < 40
