"""The HTML report in use: choosing a radius, reading values off, dark mode, a phone, paper."""

import json
import re

import pytest

from browser import open_page, probe
from certcal import evaluate
from certcal.report.html import render_page
from certcal.runs import write_results
from page_samples import page_sample
from smoothing_oracles import random_evidence

LONG = "A_name_without_any_place_to_break_it_" * 4
MAIN = ["guaranteed accuracy", "clean ECE", "guaranteed ECE"]
NAMES = {"title": LONG, "facts": [["model", LONG], [LONG, "short"]], "classes": 1000}


@pytest.fixture(scope="module")
def data():
    return page_sample(approximate=True)


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    made = tmp_path_factory.mktemp("use") / "page.html"
    made.write_text(render_page(data), encoding="utf-8")
    return made


def spot(page, name, x, y=0.5):
    """Window coordinates of a place in a plot, given in parts of its width and height; scrolls there first."""
    plot = page.locator(f"#plot-{name} svg")
    plot.scroll_into_view_if_needed()
    page.wait_for_timeout(50)  # let the scroll event pass: it hides hints
    box = plot.bounding_box()
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def check_shown(page, data, row, *, address=True):
    """Everything on the page is about that row."""
    view, cells = data["views"][row], data["cells"][row]
    assert page.text_content("#answer") == view["answer"]
    assert page.text_content("#about") == view["about"]
    assert page.text_content("#headline") == view["sentence"]
    assert page.text_content("#explanation") == view["explanation"]
    assert page.locator("tr[aria-current]").count() == 1
    assert page.locator("tr[aria-current] th").inner_text() == cells[0]
    assert page.inner_text("#one-radius") == f"At R = {cells[0]}"
    assert page.inner_text("#chosen") == cells[0]
    assert page.locator("#radius").get_attribute("aria-valuetext") == f"R = {cells[0]}"
    place = [column["key"] for column in data["columns"]].index
    for node in page.locator("[data-key]").all():
        assert node.text_content() == cells[place(node.get_attribute("data-key"))]
    assert page.locator("#plot-boxes .marks rect").count() == len(view["boxes"]["lower"])
    filled = sum(count > 0 for count in view["worst"]["count"])
    assert page.locator("#plot-worst .marks circle").count() == filled
    assert page.locator("#plot-ece text.now").text_content() == f"R = {cells[0]}"
    assert page.locator("#top tbody th").all_inner_texts() == [str(top["index"]) for top in view["top"]]
    if address:
        assert float(page.evaluate("location.hash").removeprefix("#R=")) == view["radius"]


def test_a_radius_is_chosen_by_row_buttons_keys_curve_and_address(browser, data, path):
    with open_page(browser, path) as page:
        check_shown(page, data, data["default_view"], address=False)
        page.locator("#table tbody tr").nth(7).locator("th").click()
        check_shown(page, data, 7)
        page.locator("#table tbody tr").nth(2).locator("a").press("Enter")
        check_shown(page, data, 2)
        page.locator("#radius").press("ArrowRight")
        check_shown(page, data, 3)
        page.locator("#larger").click()
        check_shown(page, data, 4)
        page.locator("#radius").press("Home")
        check_shown(page, data, 0)
        assert page.locator("#smaller").is_disabled()
        page.mouse.click(*spot(page, "brier", 0.97))
        check_shown(page, data, 12)
        assert page.locator("#larger").is_disabled()
        page.locator("#plot-accuracy svg").focus()
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "Enter"):
            page.keyboard.press(key)
        check_shown(page, data, 2)
        assert page.evaluate("document.activeElement.parentNode.id") == "plot-accuracy"
        page.evaluate("location.hash = '#R=0.25'")
        page.wait_for_function("document.getElementById('chosen').textContent === '0.25'")
        check_shown(page, data, 9)


@pytest.mark.parametrize(("hash", "row"), [("#R=3e-1", 10), ("#R=0.31", None), ("#R=<b>", None)])
def test_the_address_opens_the_page_at_a_radius_it_has(browser, data, path, hash, row):
    with open_page(browser, path, hash=hash) as page:
        check_shown(page, data, data["default_view"] if row is None else row, address=row is not None)


def hint(page):
    title, *pairs = page.eval_on_selector_all("#tip > p, #tip dt, #tip dd", "nodes => nodes.map(n => n.textContent)")
    return title, dict(zip(pairs[::2], pairs[1::2], strict=True))


def test_values_are_read_off_by_pointer_and_keys(browser, data, path):
    place = [column["key"] for column in data["columns"]].index
    view = data["views"][data["default_view"]]
    with open_page(browser, path) as page:
        page.mouse.move(*spot(page, "ece", 0.97))
        title, pairs = hint(page)
        assert title == "R = 0.5"
        keys = ("joint_ece", "certified_ece", "approximate_brier", "ece", "ece_all")
        assert list(pairs) == [data["columns"][place(key)]["label"] for key in keys]
        assert list(pairs.values()) == [data["cells"][12][place(key)] for key in keys]
        assert page.locator("#plot-ece .cursor .cross").count() == 1
        assert page.locator("#plot-ece .cursor .halo").count() == 5
        page.mouse.move(5, 5)
        assert page.locator("#tip").is_hidden()
        assert page.locator(".cursor > *").count() == 0
        page.locator("#plot-accuracy svg").focus()
        page.keyboard.press("End")
        assert hint(page)[1]["certified accuracy"] == data["cells"][12][place("certified_accuracy")]
        assert "certified accuracy" in page.text_content("#spoken")
        page.keyboard.press("Escape")
        assert page.locator("#tip").is_hidden()
        for name, count in (("boxes", len(view["boxes"]["lower"])), ("moves", len(view["moves"]["clean"]))):
            page.locator(f"#plot-{name} svg").focus()
            page.keyboard.press("End")
            index = int(hint(page)[0].removeprefix("input "))
            assert index in view[name]["index"]
            assert count > 1
        page.locator("#plot-worst svg").focus()
        page.keyboard.press("Home")
        first = next(m for m, count in enumerate(view["worst"]["count"]) if count)
        assert hint(page)[1]["inputs"] == str(view["worst"]["count"][first])
        page.mouse.move(*spot(page, "widths", 0.4))
        assert hint(page)[0].startswith("width ")


def test_a_touch_shows_values_and_hints_stay_on_the_screen(browser, data, path):
    with open_page(browser, path, width=390, has_touch=True, is_mobile=True) as page:
        page.touchscreen.tap(*spot(page, "boxes", 0.98))
        assert hint(page)[0].startswith("input ")
        box = page.locator("#tip").bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        page.touchscreen.tap(*spot(page, "ece", 0.97))
        check_shown(page, data, 12)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_are_readable(browser, path, scheme):
    other = {"light": "dark", "dark": "light"}[scheme]
    with open_page(browser, path, scheme=scheme) as page:
        for now, then in ((scheme, other), (other, scheme)):  # as the system wants it, then by the button
            assert page.inner_text("#theme") == then.title()
            page.mouse.move(*spot(page, "ece", 0.97))
            found = probe(page, "contrast")
            assert len(found) > 400
            assert min(found)[0] >= 4.5, min(found)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") == (now == "light")
            page.locator("#theme").click()
        assert page.inner_text("#theme") == other.title()


@pytest.mark.parametrize("options", [{}, NAMES, {"population": "all"}, {"radii": (0.0, 5.0), "default_view": 1}])
def test_a_phone_shows_all_without_scrolling_sideways(browser, tmp_path, options):
    path = tmp_path / "page.html"
    path.write_text(render_page(page_sample(**{"radii": (0.0, 0.1, 0.2)} | options)), encoding="utf-8")
    with open_page(browser, path, width=390) as page:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert probe(page, "tooWide") == []
        # With all columns the table scrolls in its own room, and its first column stays.
        assert probe(page, "seen", "#table thead th") == ["R", "certified share", *MAIN]
        page.locator("#all-columns").check()
        room = page.locator(".scroll").first
        assert room.evaluate("node => node.scrollWidth > node.clientWidth")
        room.evaluate("node => { node.scrollLeft = 200 }")
        at = page.locator("#table tbody th").first.bounding_box()["x"]
        assert at == pytest.approx(room.bounding_box()["x"], abs=1)


def test_radii_in_any_order_are_drawn_in_theirs(browser, tmp_path):
    data, path = page_sample(inputs=60, radii=(0.0, 0.1, 0.2), default_view=2), tmp_path / "page.html"
    data |= {key: [data[key][n] for n in (2, 0, 1)] for key in ("rows", "cells", "views")}
    path.write_text(render_page(data), encoding="utf-8")
    with open_page(browser, path) as page:
        assert all(plot["inside"] for plot in probe(page, "plots", ("ece", "brier", "accuracy")).values())
        path_of_line = page.locator("#plot-ece .marks path.line").first.get_attribute("d")
        at = [float(point.split()[0]) for point in re.split("[ML]", path_of_line)[1:]]
        assert len(at) == 3
        assert at == sorted(at)
        for button, radius in (("#larger", "0.2"), ("#smaller", "0.1"), ("#smaller", "0")):
            page.locator(button).click()
            assert page.inner_text("#chosen") == radius
        assert page.locator("#smaller").is_disabled()


SIDES = "node => [...node.classList].filter(name => name.startsWith('more-')).sort()"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_table_that_holds_more_than_is_seen_says_so(browser, tmp_path, width):
    data = page_sample(radii=(0.0, 0.1))
    wide = data | {
        "columns": data["columns"] + [data["columns"][-1] | {"key": f"more_{n}"} for n in range(8)],
        "cells": [line + ["0.1234"] * 8 for line in data["cells"]],
    }
    (path := tmp_path / "page.html").write_text(render_page(wide), encoding="utf-8")
    with open_page(browser, path, width=width) as page:
        page.locator("#all-columns").check()
        frame, room = page.locator(".reach").first, page.locator(".scroll").first
        for share, sides in ((0, ["more-right"]), (0.5, ["more-left", "more-right"]), (1, ["more-left"])):
            room.evaluate("(n, share) => { n.scrollLeft = share * (n.scrollWidth - n.clientWidth) }", share)
            page.wait_for_timeout(60)
            assert frame.evaluate(SIDES) == sides
            seen = [frame.evaluate(f"n => getComputedStyle(n, '::{end}').opacity") for end in ("before", "after")]
            assert seen == [str(int("more-left" in sides)), str(int("more-right" in sides))]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_table_that_fits_gives_no_hint_and_uses_the_room_beside_the_text(browser, path):
    with open_page(browser, path, width=1280) as page:
        assert page.locator(".reach").first.evaluate(SIDES) == []
        page.locator("#all-columns").check()
        box, text = page.locator(".reach").first.bounding_box(), page.locator("header").bounding_box()
        assert text["width"] < box["width"] <= 1280 - 48


def test_paper_shows_what_a_reader_needs_in_light_colours(browser, data, path):
    with open_page(browser, path, scheme="dark", width=718) as page:
        assert len(page.pdf(format="A4")) > 20_000
        assert not page.evaluate("document.querySelector('details').open")  # as it was before printing
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert min(found := probe(page, "contrast"))[0] >= 4.5, min(found)
        for hidden in ("#chooser", "#theme", "#tip", "summary", ".tiles", "#top", "#plot-widths", "#table .more"):
            assert not any(node.is_visible() for node in page.locator(hidden).all()), hidden
        for seen in (
            "#headline",
            "#explanation",
            "#table",
            "#plot-ece svg",
            "#plot-worst svg",
            "#plot-boxes svg",
            ".caveats",
            "#facts",
            "footer",
        ):
            assert all(node.is_visible() for node in page.locator(seen).all()), seen
        assert page.evaluate("document.documentElement.scrollWidth") <= 718
        assert page.eval_on_selector_all(".scroll", "rooms => rooms.every(r => r.scrollWidth <= r.clientWidth + 1)")


def test_a_report_of_many_radii_takes_three_sheets_of_paper(browser, path, tmp_path):
    with open_page(browser, path) as page:
        page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "page.pdf").read_bytes())) == 3


@pytest.mark.parametrize("radius", [0.1, 5.0])
def test_verdict_cause_and_next_step_are_on_the_first_screen_and_no_main_column_is_cut(browser, tmp_path, rng, radius):
    report = evaluate(random_evidence(rng, inputs=80, draws=1000), radii=[radius], alpha=0.01)
    path = write_results(report, tmp_path / "run", figures=False)
    for width in (390, 1280):
        with open_page(browser, path, width=width) as page:
            for name in ("#answer", "#cause", "#next"):
                box = page.locator(name).bounding_box()
                assert page.text_content(name).strip()
                assert box["y"] + box["height"] < 844, name
            fits = "rooms => rooms.map(r => r.scrollWidth <= r.clientWidth)"
            assert all(page.eval_on_selector_all(":is(.columns, .advice) > .reach > .scroll", fits))


def test_the_page_of_a_run_shows_its_metrics(browser, tmp_path, rng):
    report = evaluate(random_evidence(rng, inputs=80, draws=1000), radii=[0.0, 0.1, 0.2], alpha=0.01)
    path = write_results(report, tmp_path / "run", figures=False)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    with open_page(browser, path) as page:
        head, *body = page.eval_on_selector_all(
            "#table tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
        )
        assert page.text_content("#headline") == metrics["guarantee"]
    shown = {label: column for label, *column in zip(head, *body, strict=True)}
    for label, key, step in (
        ("R", "radius", 1e-9),
        ("certified", "certified", 1e-9),
        ("certified accuracy", "certified_accuracy", 1e-4),
        ("clean ECE", "ece", 1e-4),
        ("certified ECE", "certified_ece", 1e-4),
        ("guaranteed ECE", "joint_ece", 1e-4),
        ("certified Brier", "certified_brier", 1e-4),
    ):
        numbers = [float(text.removesuffix(" %")) / (100 if "%" in text else 1) for text in shown[label]]
        assert numbers == pytest.approx([row[key] for row in metrics["rows"]], abs=step)
