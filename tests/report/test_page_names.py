"""Names on a page are text, whatever they hold."""

import pytest

from browser import open_page
from certcal.report.html import render_page
from page_samples import page_sample

EVIL = "</script ></title><img src=x onerror='document.title=1'><b>{{7*7}}</b> & <!--<script>"


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A page whose names are all attacks."""
    data = page_sample(radii=(0.0, 0.1), title=EVIL, headline=EVIL, caveats=[EVIL], facts=[[EVIL, EVIL]], classes=3)
    data["columns"][3] |= {"label": EVIL, "help": EVIL}
    for view in data["views"]:
        view |= dict.fromkeys(("answer", "about", "sentence", "explanation"), EVIL)
        view["top"] = [row | {"label": EVIL, "predicted": EVIL} for row in view["top"]]
    path = tmp_path_factory.mktemp("evil") / "page.html"
    path.write_text(render_page(data), encoding="utf-8")
    return path


def test_names_are_text_whatever_they_hold(browser, evil):
    with open_page(browser, evil) as page:
        page.locator("th[data-help]").nth(2).hover()
        assert page.inner_text("#tip") == EVIL
        page.locator("#table tbody tr").nth(0).click()
        for place in ("h1", "#answer", "#about", "#headline", "#explanation", ".caveats li"):
            assert page.text_content(place) == EVIL
        assert page.locator("#top td.text").first.text_content() == EVIL
        assert page.title() == f"{EVIL} – certified calibration"
        assert page.locator("img, b:not([data-key])").count() == 0
        assert "49" not in page.inner_text("header")
