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
from certcal.report import lead, map_name, recalibration_section, score_rows, splits_shown, warnings, without_map
from certcal.report.html import render_page
from certcal.report.recalibrated import _better
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
    lead, *more = data["recalibration"]["lead"]
    assert not more
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
    assert "over 4 random splits: mean before and after, always on inputs held out" in text
    curve = TradeOff(0.1, np.array([0.5]), (sharp,), sharp)
    told = recalibration_section(held, curve, (0.1,))["over"]
    assert told.startswith("4 splits, 1 of them without a map")
    assert told.endswith("The table is over the 3 of 4 splits that kept a map. In the trade-off all count.")


def test_the_mean_over_all_splits_stands_before_that_of_those_with_a_map(data):
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
    told = "3 splits, 1 of them without a map, where confidences stay as they are: certified ECE 40.00 % → 20.00 %"
    assert without_map(mixed, (0.1,)) == f"{told} at R = 0.1."
    section = recalibration_section(
        mixed, TradeOff(0.1, np.array([0.5]), (mixed.rows[0].after,), mixed.rows[0].before), (0.1,)
    )
    page = render_page(data | {"recalibration": section})
    assert 0 < page.index(told) < page.index("the 2 of 3 splits that kept a map.") < page.index("<td>40.00 %</td>")
    assert without_map(held(rising, rising), (0.1,)) == without_map(held(IdentityMap()), (0.1,)) == ""
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


def one_split(own, **after):
    """A map with its scores on the inputs held out of its only split, and a trade-off of them."""
    plain = Scores(0.2, 0.1, 0.1, 0.1, 0.1, auroc=0.9, refinement=0.1, levels=100)
    row = HeldOutRow(0, 0.1, 10, 10, plain, replace(plain, **after))
    held = HeldOut((own,), (np.arange(5),), (np.arange(5),), (row,))
    return recalibration_section(held, TradeOff(0.1, np.array([0.5]), (row.after,), plain), (0.1,))


def test_a_caution_stands_once_right_below_the_answer(data):
    told = (
        "This bound holds for these inputs. The map was taught by only 3 wrong predictions among the certified inputs, "
        "so on other inputs it may do much worse."
    )
    guess = IsotonicMap([0.0, 1.0], [0.1, 0.9], about={"certified": [50], "wrong": [3]})
    section = one_split(guess, auroc=0.5)
    assert section["caution"] == told
    assert [said[:25] for said in section["warnings"]] == ["The map tells right from "]
    shown, _ = render_page(data | {"recalibration": section}).split('<script type="application/json"')
    assert shown.count("was taught by only 3") == shown.count(told) == 1
    assert shown.index('id="about"') < shown.index(told) < shown.index('id="headline"')
    assert one_split(replace(guess, about={"certified": [50], "wrong": [20]}))["caution"] == ""
    assert data["recalibration"]["caution"] == ""


def test_only_the_better_of_two_scores_is_bold(data):
    own = IsotonicMap([0.0, 1.0], [0.1, 0.9])
    section = one_split(own, certified_ece=0.1, certified_brier=0.2, auroc=0.8, refinement=0.2, levels=3, ece=np.nan)
    bold = dict(
        zip(
            (row[0].split(",")[0].split(":")[0] for row in section["tables"][0]["rows"]),
            section["tables"][0]["better"],
            strict=True,
        )
    )
    assert bold == {
        "certified ECE": 2,
        "certified Brier score": 1,
        "ECE without an attack": 0,
        "Brier score without an attack": 0,
        "AUROC": 1,
        "refinement": 1,
        "distinct confidences or steps": 0,
    }
    page = render_page(data | {"recalibration": section})
    assert re.findall(r'class="better">([^<]*)<', page) == ["10.00 %", "0.1000", "0.9000", "0.1000"]
    assert one_split(own, auroc=0.95)["tables"][0]["better"][4] == 2
    assert [_better(["ECE", *pair, ""]) for pair in (("—", "1 %"), ("2 %", "—"), ("2 %", "1 %"))] == [0, 0, 2]


def test_the_figure_says_what_the_map_is_of(data):
    rising = ScoreMap(np.linspace(0, 1, 256))
    assert data["recalibration"]["map"]["of"] == "confidence"
    for own, then in (
        (rising, ""),
        (FullMap(rising, IsotonicMap([0.0, 1.0], [0.1, 0.9])), "map of the mean (isotonic)"),
    ):
        section = one_split(own)
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
        bold = "rows => rows.map(row => [...row.cells].findIndex(c => getComputedStyle(c).fontWeight > 500))"
        found = page.eval_on_selector_all(".scores tbody tr", bold)
        assert [max(place, 0) for place in found] == [place for part in own["tables"] for place in part["better"]]
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
