"""The recalibration part of the HTML report: scores over splits, the trade-off and the map, as the data has them."""

import re
from itertools import pairwise

import pytest

from browser import launch, open_page
from certcal.report.html import render_page
from certcal.report.recalibrated import warning
from page_samples import page_sample, recalibrated_sample


@pytest.fixture(scope="module")
def data():
    return recalibrated_sample()


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    made = tmp_path_factory.mktemp("page") / "page.html"
    made.write_text(render_page(data), encoding="utf-8")
    return made


def test_words_say_that_inputs_are_held_out(data):
    lead = data["recalibration"]["lead"]
    assert lead.startswith("The map (kind: isotonic) was fitted for R = 0.05 and R = 0.1 on 100 inputs")
    assert "on inputs held out of the fitting" in lead


def test_a_page_without_a_map_has_no_such_part():
    text = render_page(page_sample())
    assert 'id="recalibration"' not in text
    assert 'id="plot-map"' not in text


def test_a_map_that_tells_nothing_apart_is_called_so(data):
    class Known:
        def __init__(self, auroc, levels):
            self.auroc, self.levels = auroc, levels

    assert warning(Known(0.9, 100), Known(0.89, 20)) is None
    assert "far less well" in warning(Known(0.9, 100), Known(0.6, 3))
    assert "is constant" in warning(Known(0.9, 100), Known(0.5, 1))
    own = data["recalibration"] | {"warning": "It is constant."}
    assert "It is constant." in render_page(data | {"recalibration": own})


def test_scores_trade_off_and_map_are_those_of_the_data(data, path):
    own = data["recalibration"]
    with launch() as browser, open_page(browser, path) as page:
        rows = page.eval_on_selector_all(
            ".scores tbody tr", "rows => rows.map(row => [...row.cells].map(c => c.textContent))"
        )
        wanted = [
            [row[key] for key in ("label", "before", "after", "spread")]
            for part in own["tables"]
            for row in part["rows"]
        ]
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
