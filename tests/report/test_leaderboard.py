"""The leaderboard in a browser: on a desk no column is cut, on a phone the first numbers are seen at once."""

from dataclasses import replace

import pytest

from browser import open_page
from certcal.report import leaderboard_page
from certcal.studies import Pack, boards_of
from places import ROOT


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """The tree's leaderboard, of one radius of each data set."""

    def of(track):
        return replace(track, standings=[one for one in track.standings if one.radius == 0.5])

    boards = [replace(one, tracks=list(map(of, one.tracks))) for one in boards_of(Pack.read(ROOT / "reference"))]
    path = tmp_path_factory.mktemp("page") / "leaderboard.html"
    path.write_text(leaderboard_page(boards), encoding="utf-8")
    return path


def test_no_column_is_cut_on_a_desk(browser, page_file):
    with open_page(browser, page_file, width=1280) as page:
        page.evaluate("document.querySelectorAll('details').forEach(n => n.open = true)")
        cut = "ns => ns.filter(n => n.scrollWidth > n.clientWidth).length"
        assert page.locator(".wide").count() > 10
        assert page.locator(".wide").evaluate_all(cut) == 0


def test_the_first_numbers_are_seen_on_a_phone(browser, page_file):
    with open_page(browser, page_file, width=390, has_touch=True, is_mobile=True) as page:
        page.evaluate("document.querySelectorAll('details').forEach(n => n.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        ends = "ns => ns.map(n => n.getBoundingClientRect().right)"
        errors = page.locator(".models td:nth-child(3)").evaluate_all(ends)
        assert len(errors) > 100
        assert max(errors) <= 390
