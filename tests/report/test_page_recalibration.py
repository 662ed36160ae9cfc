"""The recalibration part of the HTML report: scores over splits, the trade-off and the map, as the data has them."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from browser import launch, open_page
from certcal.certificates import confidence_bounds_at
from certcal.recalibration import (
    FullMap,
    HeldOut,
    HeldOutRow,
    IdentityMap,
    IsotonicMap,
    ScoreMap,
    Scores,
    TemperedMap,
    TradeOff,
    caution_about,
    held_out_scores,
    trade_off,
)
from certcal.report import lead, map_name, recalibration_section, score_rows, splits_shown, warnings
from certcal.report.html import render_page
from page_samples import page_sample, recalibrated_sample
from smoothing_oracles import random_evidence


@pytest.fixture(scope="module")
def data():
    return recalibrated_sample()


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    made = tmp_path_factory.mktemp("page") / "page.html"
    made.write_text(render_page(data), encoding="utf-8")
    return made


def test_the_page_opens_at_the_radius_that_was_fitted(data):
    assert data["rows"][data["default_view"]]["radius"] == 0.1


def test_words_say_that_inputs_are_held_out(data):
    lead = data["recalibration"]["lead"]
    assert lead.startswith("The map (kind: isotonic) was fitted for R = 0.05 and 0.1 on 100 inputs")
    assert "on inputs held out of the fitting" in lead


def test_an_identity_is_not_called_fitted():
    bounds = confidence_bounds_at(
        random_evidence(np.random.default_rng(0), inputs=60, draws=500), radii=[5.0], alpha=0.01
    )
    held = held_out_scores(bounds, repeats=2)
    text = lead(held, (5.0,))
    assert text.startswith("Nothing could be learned, so confidences stay as they are. Expected `bounds` to hold")
    section = recalibration_section(held, trade_off(bounds, repeats=2), (5.0,))
    assert set(section["curve"]["certified_brier"]) == {None}
    assert section["tables"][0]["rows"][0][2] == "—"


def test_the_warning_is_about_the_map_that_is_kept():
    """Means over splits may look fine while the kept map is constant; splits without a map are counted."""
    kept, other = IsotonicMap([0.0, 1.0], [0.6, 0.6]), IsotonicMap([0.0, 1.0], [0.1, 0.9])
    sharp = Scores(0.2, 0.1, 0.1, 0.1, 0.1, auroc=0.9, refinement=0.1, levels=100)
    flat = replace(sharp, auroc=0.5, levels=1)
    maps = (kept, IdentityMap(), other, other)
    rows = [HeldOutRow(n, 0.1, 10, 10, sharp, after) for n, after in enumerate((flat, sharp, sharp, sharp))]
    held = HeldOut(maps, tuple([np.arange(10)] * 4), tuple([np.arange(10)] * 4), tuple(rows))
    assert held.kept == 0
    assert held.mean(0.1)[1].levels > 2
    assert "constant" in warnings(held, 0.1)[0]
    text = lead(held, (0.1,))
    assert "mean before and after, over the 3 of 4 splits that kept a map, always" in text
    assert text.endswith("1 of 4 splits kept no map: there confidences stay as they are.")
    curve = TradeOff(0.1, np.array([0.5]), (sharp,), sharp)
    told = recalibration_section(held, curve, (0.1,))["lead"]
    assert told.endswith("In the trade-off they count as unchanged.")


def test_means_are_over_the_splits_that_kept_a_map():
    """A mean with splits that stay as they are is the score of neither."""
    rising, part = IsotonicMap([0.0, 1.0], [0.1, 0.9]), np.arange(10)

    def held(*maps):
        sharp = Scores(0.4, 0.1, 0.1, 0.1, 0.1, auroc=0.9, refinement=0.1, levels=100)
        afters = [sharp if own.kind == "identity" else replace(sharp, certified_ece=0.1, levels=3) for own in maps]
        rows = [HeldOutRow(n, 0.1, 10, 10, sharp, after) for n, after in enumerate(afters)]
        return HeldOut(maps, (part,) * len(maps), (part,) * len(maps), tuple(rows))

    mixed = held(rising, IdentityMap(), rising)
    rows = {label: values for label, *values in score_rows(mixed, 0.1)}
    assert rows["certified ECE, certified inputs"] == ["40.00 %", "10.00 %", "0.00 %"]
    assert rows["distinct confidences or steps, all inputs"] == ["100", "3", "0"]
    assert splits_shown(mixed) == "the 2 of 3 splits that kept a map"
    assert mixed.mean(0.1)[1].certified_ece == pytest.approx(0.2)  # over all, as before
    assert lead(held(IdentityMap(), rising), (0.1,)).endswith("over the 1 of 2 splits that kept a map.")
    none = held(IdentityMap(), IdentityMap())
    assert score_rows(none, 0.1)[0][1:] == ["40.00 %", "40.00 %", "0.00 %"]
    assert splits_shown(none) == "2 splits"
    assert np.isnan(none.mean(0.1, with_map=True)[1].certified_ece)


def test_a_map_that_most_splits_do_not_have_is_a_guess():
    kept, row = IsotonicMap([0.0, 1.0], [0.1, 0.9]), np.arange(10)
    for without, told in ((2, ""), (3, "The map would not be there in 3 of 4 splits: take it for a guess.")):
        held = HeldOut((kept,) * (4 - without) + (IdentityMap(),) * without, (row,) * 4, (row,) * 4, ())
        assert caution_about(held.map) == told
    assert caution_about(IdentityMap(about={"splits": 4, "splits_without_map": 4})) == caution_about(None) == ""


def test_the_figure_says_what_the_map_is_of(data):
    rising = ScoreMap(np.linspace(0, 1, 256))
    assert data["recalibration"]["map"]["of"] == "confidence"
    for own, then in (
        (rising, ""),
        (FullMap(rising, IsotonicMap([0.0, 1.0], [0.1, 0.9])), "map of the mean (isotonic)"),
    ):
        sharp = Scores(0.2, 0.1, 0.1, 0.1, 0.1, auroc=0.9, refinement=0.1, levels=100)
        held = HeldOut((own,), (np.arange(5),), (np.arange(5),), (HeldOutRow(0, 0.1, 10, 10, sharp, sharp),))
        curve = TradeOff(0.1, np.array([0.5]), (sharp,), sharp)
        section = recalibration_section(held, curve, (0.1,))
        assert section["map"]["of"] == "score"
        assert section["map"]["told"].startswith("From the score of each draw")
        assert then in section["map"]["told"]
        assert "From the score of each draw" in render_page(data | {"recalibration": section})


def test_maps_are_named_with_their_temperature():
    assert map_name(IdentityMap()) == "no map"
    assert map_name(IsotonicMap([0.0, 1.0], [0.1, 0.9])) == "isotonic map"
    assert map_name(TemperedMap(0.25, IdentityMap())) == "no map at temperature 0.25"


def test_a_page_without_a_map_has_no_such_part():
    text = render_page(page_sample())
    assert 'id="recalibration"' not in text
    assert 'id="plot-map"' not in text


def test_a_map_that_tells_nothing_apart_is_called_so(data):
    def told(auroc, levels, wrong=20):
        sharp = Scores(0.2, 0.1, 0.1, 0.1, 0.1, auroc=0.9, refinement=0.1, levels=100)
        row = HeldOutRow(0, 0.1, 10, 10, sharp, replace(sharp, auroc=auroc, levels=levels))
        own = IsotonicMap([0.0, 1.0], [0.1, 0.9], about={"wrong": [wrong]})
        return " ".join(warnings(HeldOut((own,), (np.arange(5),), (np.arange(5),), (row,)), 0.1))

    assert told(0.89, 20) == ""
    assert "far less well" in told(0.6, 3)
    assert "is constant" in told(0.5, 1)
    assert "come to one value, or nearly; AUROC does not see it" in told(0.9, 1)
    assert "come to one value, or nearly: take a larger" in told(np.nan, 1)
    assert "only 1 wrong prediction" in told(0.89, 20, wrong=1)
    assert "only 7 wrong predictions" in told(0.89, 20, wrong=7)
    own = data["recalibration"] | {"warnings": ["It is constant."]}
    assert "It is constant." in render_page(data | {"recalibration": own})


@pytest.mark.browser
def test_scores_trade_off_and_map_are_those_of_the_data(data, path):
    own = data["recalibration"]
    with launch() as browser, open_page(browser, path) as page:
        rows = page.eval_on_selector_all(
            ".scores tbody tr", "rows => rows.map(row => [...row.cells].map(c => c.textContent))"
        )
        wanted = [row for part in own["tables"] for row in part["rows"]]
        assert rows == wanted
        assert page.locator("#plot-tradeoff .marks path.point").count() == len(own["curve"]["clean_weight"]) + 1
        places = page.eval_on_selector_all(
            "#plot-tradeoff .marks path.correct.point", "nodes => nodes.map(node => node.getAttribute('transform'))"
        )
        x, y = zip(*(map(float, re.findall(r"[\d.]+", place)) for place in places), strict=True)
        curve = own["curve"]
        for drawn, values, way in ((x, curve["certified_brier"], 1), (y, curve["brier_all"], -1)):
            order = sorted(range(len(values)), key=lambda n: values[n])
            assert all(way * (drawn[b] - drawn[a]) >= -1e-6 for a, b in pairwise(order))
        page.locator("#plot-tradeoff svg").focus()
        page.keyboard.press("Home")
        assert page.text_content("#tip p") == f"λ = {curve['clean_weight'][0]:g}"
        page.locator("#plot-map svg").focus()
        page.keyboard.press("End")
        assert page.text_content("#tip dd") == f"{own['map']['y'][-1]:.3f}"


@pytest.mark.browser
def test_every_column_of_the_scores_is_there_on_a_phone(path):
    with launch() as browser, open_page(browser, path, width=390) as page:
        page.wait_for_function("document.querySelector('.scores td:nth-child(4)').getClientRects().length > 0")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
