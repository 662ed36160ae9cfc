"""The HTML report in a real browser: what it shows is what the data says, on any screen, and nothing else happens."""

import json
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest

from browser import launch, open_page, probe
from certcal import InputError
from certcal.report.html import render_page
from page_samples import page_sample

LONG = "A_name_without_any_place_to_break_it_" * 4
VARIANTS = {
    "plain": {"approximate": True},
    "all": {"population": "all", "radii": (0.0, 0.1, 0.3)},
    "one-radius": {"radii": (0.1,)},
    "nobody": {"radii": (0.0, 0.2, 5.0), "default_view": 2},
    "nobody-at-all": {"radii": (4.0, 5.0), "default_view": 0},
    "one-input": {"inputs": 1, "radii": (0.0, 0.1)},
    "many-classes": {"classes": 1000, "radii": (0.0, 0.1), "title": LONG, "facts": [["model", LONG], [LONG, "short"]]},
}
CURVES = ("ece", "brier", "accuracy")
PLOTS = (*CURVES, "clean", "worst", "boxes", "widths", "moves")


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Each variant's data and the file of its page."""
    folder, made = tmp_path_factory.mktemp("pages"), {}
    for name, options in VARIANTS.items():
        data = page_sample(**options)
        made[name] = data, folder / f"{name}.html"
        made[name][1].write_text(render_page(data), encoding="utf-8")
    return made


# Without a browser


def test_page_is_one_small_file_that_names_no_other():
    data = page_sample(inputs=1000)
    view = data["views"][0]
    assert (len(data["rows"]), len(view["boxes"]["lower"]), len(view["moves"]["clean"])) == (13, 74, 99)
    text = render_page(data)
    assert len(text.encode()) < 250_000
    assert re.findall(r"https?://[^\"' ]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(?:link|script|img)[^>]*(?:src|href)=(?!\"data:,\")|@import|url\((?!#)", text)


def test_numbers_that_are_not_numbers_are_refused():
    with pytest.raises(InputError, match="Expected `data` to hold only text, finite numbers and None, but got"):
        render_page(page_sample(inputs=20, radii=(0.0,), average_certified_radius=0.1, extra=float("nan")))


def test_the_page_says_why_its_first_radius_is_first():
    why = "the largest radius at which at least half of the inputs are certified"
    assert f"First shown: R = 0.25, {why}." in render_page(page_sample())
    assert "First shown: R = 0.1, as asked for." in render_page(page_sample(open_at=0.1))
    assert "First shown: R = 4, the first: at none of these" in render_page(page_sample(radii=(4.0, 5.0)))
    assert "First shown" not in render_page(page_sample(radii=(0.1,)))


def test_the_answer_is_the_guarantee_in_short():
    data = page_sample(radii=(0.0, 0.1, 5.0))
    first, second, third = data["views"]
    row = data["rows"][1]
    most = rounded(100 * Decimal(row["joint_ece"]), 2, ROUND_CEILING)
    clean = f"{100 * row['ece']:.2f}"
    assert second["answer"].replace("\u00a0", " ") == (
        f"Calibration error: {clean} % without an attack, at most {most} % under attack "
        f"(R = 0.1; {row['certified']} of 200 inputs)"
    )
    assert f"{most} %" in second["sentence"].replace("\u00a0", " ")  # one number, rounded alike
    share = rounded(100 * Decimal(row["certified"]) / 200, 0, ROUND_FLOOR)
    assert (
        f"Both are of the {row['certified']} inputs ({share} %) whose prediction is certified at R = 0.1."
        in second["about"]
    )
    assert "surely at most" in first["answer"]
    assert third["answer"] == "Nothing is certified at R = 5"
    assert page_sample(population="all", radii=(0.1,))["views"][0]["about"] == "Of all 200 inputs."


def test_the_page_calls_values_and_predictions_by_one_name_each():
    text = render_page(page_sample(radii=(0.0, 0.1), caveats=[]))
    words = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    assert not re.search(r"provabl|\bincorrect|\bcorrect|without attack", words)
    assert not re.search("provabl|without attack", text)


@pytest.mark.parametrize("required", ["0", "1"])
def test_without_a_browser_tests_say_so_or_fail_where_it_is_required(monkeypatch, required):
    monkeypatch.setenv("CERTCAL_REQUIRE_BROWSER", required)
    monkeypatch.setattr("shutil.which", lambda name: None)
    outcome = pytest.fail.Exception if required == "1" else pytest.skip.Exception
    with pytest.raises(outcome, match=r"no browser found among chromium, .*`apt-get install chromium`"), launch():
        pass


# What the page shows


def table_of(page, selector):
    return page.eval_on_selector_all(
        f"{selector} tr", "rows => rows.map(row => [...row.cells].map(c => c.textContent))"
    )


def shown_table(data):
    """The table as the page shows it: without the inputs of the errors where these are the certified ones anyway."""
    keys = [column["key"] for column in data["columns"]]
    kept = [place for place, key in enumerate(keys) if data["population"] == "all" or key != "inputs"]
    return [
        [line[place] for place in kept] for line in ([column["label"] for column in data["columns"]], *data["cells"])
    ]


def check_explanation(page, view):
    assert page.locator("#how").is_visible() == bool(view["explanation"])
    assert page.text_content("#explanation") == view["explanation"]


def assert_tiles(page, data, cells, place):
    """The tiles state the joint values, as the sentence does, and beneath what holds if no certificate fails."""
    tiles = [re.sub(r"\s+", " ", text).strip() for text in page.locator(".tiles li").all_inner_texts()]
    average = rounded(data["average_certified_radius"], 4, ROUND_FLOOR)
    names = [data["columns"][place(f"joint_{key}")]["label"] for key in ("ece", "brier", "accuracy")]
    wanted = [tile_text(*pair, cells, place) for pair in zip(names, ("ece", "brier", "accuracy"), strict=True)]
    them = "the only input" if data["inputs"] == 1 else f"all {data['inputs']} inputs"
    count = f"certified {cells[place('certified')]} of {them}"
    assert tiles == [*wanted, count, f"average certified radius {average} over {them}"]


def tile_text(name, key, cells, place):
    joint, certified = cells[place(f"joint_{key}")], cells[place(f"certified_{key}")]
    clean = cells[place(key)]
    notes = [f"certified {certified} if no certificate fails"] * (certified != "—") + [f"clean {clean}"] * (
        clean != "—"
    )
    return " ".join([f"{name} {joint}", *notes])


def check_words(page, data, *, scripts):
    view, cells = data["default_view"], data["cells"]
    assert table_of(page, "#table") == shown_table(data)
    assert page.text_content("h1") == data["title"]
    assert page.text_content("#headline") == (data["views"][view]["sentence"] if scripts else data["headline"])
    assert page.locator("tr[aria-current] th").inner_text() == cells[view][0]
    place = [column["key"] for column in data["columns"]].index
    for tile in page.locator(".tiles [data-key]").all():
        assert tile.text_content() == cells[view][place(tile.get_attribute("data-key"))]
    check_explanation(page, data["views"][view])
    assert_tiles(page, data, cells[view], place)
    facts = page.eval_on_selector_all(
        "#facts div", "rows => rows.map(row => [...row.children].map(c => c.textContent))"
    )
    assert facts == data["facts"]
    assert page.locator(".caveats li").all_inner_texts() == data["caveats"]
    assert page.locator("#theme").is_visible() == scripts
    # Where nothing is certified there is nothing to plot.
    assert page.locator("#plot-clean").is_visible() == (scripts and data["views"][view]["worst"] is not None)
    assert page.locator("noscript p").count() == (0 if scripts else 1)


@pytest.mark.parametrize("variant", ["plain", "nobody"])
def test_words_and_numbers_need_no_script(browser, samples, variant):
    data, path = samples[variant]
    with open_page(browser, path, java_script_enabled=False) as page:
        check_words(page, data, scripts=False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_words_are_those_of_the_data_and_every_plot_is_drawn_within_its_axes(browser, samples, variant):
    data, path = samples[variant]
    several = len(data["rows"]) > 1
    with open_page(browser, path) as page:
        check_words(page, data, scripts=True)
        assert page.locator(".plot").count() == (8 if several else 5)
        drawn = PLOTS if several else PLOTS[3:]
        if data["views"][data["default_view"]]["worst"] is None:  # those of one radius are not shown
            drawn = [name for name in drawn if name in PLOTS[:3]]
        check_plots(probe(page, "plots", drawn), data)


def without(data, key):
    """The same data as if there were no such column."""
    places = [place for place, column in enumerate(data["columns"]) if column["key"] != key]
    cells = [[line[place] for place in places] for line in data["cells"]]
    rows = [{name: value for name, value in row.items() if name != key or key == "radius"} for row in data["rows"]]
    return data | {"columns": [data["columns"][place] for place in places], "cells": cells, "rows": rows}


def test_a_missing_column_leaves_the_rest_as_it_is(browser, tmp_path):
    whole = page_sample(inputs=60, radii=(0.0, 0.1), approximate=True)
    for key in [column["key"] for column in whole["columns"]]:
        data, path = without(whole, key), tmp_path / f"{key}.html"
        path.write_text(render_page(data), encoding="utf-8")
        with open_page(browser, path) as page:
            page.locator("#table tbody tr").nth(1).click()
            assert page.inner_text("#chosen") == "0.1", key
            assert page.locator(".plot svg").count() == 8
            assert page.locator(".tiles li").count() == 5 - (key == "certified")
            found = probe(page, "plots", PLOTS)
            assert not any(re.search("NaN|undefined|Infinity", plot["text"]) for plot in found.values()), key


def check_plots(plots, data):
    view = data["views"][data["default_view"]]
    for name, plot in plots.items():
        assert min(plot["size"]) > 50, name
        assert not re.search("NaN|undefined|Infinity|null", plot["text"]), name
        assert plot["label"], name
        assert plot["inside"], name
    points = {name: sum("point" in mark for mark in plot["marks"]) for name, plot in plots.items()}
    drawn = {name: [mark.split(".")[0] for mark in plot["marks"]] for name, plot in plots.items()}
    known = sum(row["brier"] is not None for row in data["rows"])
    if "ece" in plots and known:
        lines = 3 + sum(column["key"].startswith("approximate_") for column in data["columns"])
        count = len(data["rows"])  # the clean score of all inputs is known at every radius
        assert [points[name] for name in CURVES] == [lines * known + count, 3 * known + count, 3 * count]
    if "clean" not in plots:
        return
    for name in ("clean", "worst"):
        bins = view[name]
        assert drawn[name].count("circle") == sum(count > 0 for count in bins["count"])
    assert drawn["boxes"].count("rect") == drawn["boxes"].count("line") == len(view["boxes"]["lower"])
    assert drawn["widths"].count("rect") == sum(c > 0 for way in ("correct", "incorrect") for c in view["widths"][way])
    assert drawn["moves"].count("path") == len(view["moves"]["clean"])


def test_marks_stand_where_the_axis_says(browser, samples):
    """The scale is read off two labelled ticks, as a reader would."""
    data, path = samples["plain"]
    view = data["views"][data["default_view"]]
    with open_page(browser, path) as page:
        assert json.loads(page.text_content("#data")) == data
        read = {name: probe(page, "readOff", name) for name in ("ece", "accuracy", "worst", "boxes", "moves")}
    rows = [row for row in data["rows"] if row["certified_ece"] is not None]
    keys = ("joint_ece", "certified_ece", "approximate_brier", "ece", "ece_all")
    assert [y for _, y, _ in read["ece"]] == pytest.approx([row[key] for key in keys for row in rows], abs=1e-6)
    shares = [row["certified"] / 200 for row in rows]
    shares += [row[key] for key in ("joint_accuracy", "certified_accuracy") for row in rows]
    assert [y for _, y, _ in read["accuracy"]] == pytest.approx(shares, abs=1e-6)
    dots = [y for look, y, _ in read["worst"] if look and "point" in look]
    assert dots == pytest.approx([value for value in view["worst"]["accuracy"] if value is not None], abs=1e-6)
    boxes = view["boxes"]
    assert [y for _, y, _ in read["boxes"]] == pytest.approx(boxes["upper"], abs=1e-6)
    drawn = [low for _, _, low in read["boxes"]]
    assert drawn == pytest.approx(boxes["lower"], abs=0.008)  # a hair of height stays visible
    assert ["incorrect" in look for look, _, _ in read["boxes"]] == [not right for right in boxes["correct"]]
    assert sorted(y for _, y, _ in read["moves"]) == pytest.approx(sorted(view["moves"]["worst"]), abs=1e-6)


def rounded(value, digits, way):
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), way))


def test_certified_values_are_never_rounded_to_the_flattering_side(browser, samples, rng):
    data, path = samples["plain"]
    values = [*rng.random(2000).tolist(), 0.0, 1.0, 0.5, 0.0005, 0.9995, 1 - 2**-53, 5e-324]
    script = "([values, digits]) => values.map(v => ['down', 'nearest', 'up'].map(way => written(v, way, digits)))"
    with open_page(browser, path) as page:
        for digits in (1, 3, 5):
            for value, texts in zip(values, page.evaluate(script, [values, digits]), strict=True):
                low, near, high = map(float, texts)
                assert low <= value <= high  # as anybody reads them who computes with floats
                assert near in (low, high)
                assert abs(near - value) <= 0.5 * 10**-digits + 1e-15
                assert high - low <= 10**-digits + 1e-15
        rows = table_of(page, "#top")[1:]
    for row, top in zip(rows, data["views"][data["default_view"]]["top"], strict=True):
        certified = f"{rounded(top['lower'], 3, ROUND_FLOOR)} – {rounded(top['upper'], 3, ROUND_CEILING)}"
        assert row[:3] == [str(top["index"]), top["label"], top["predicted"]]
        assert row[4] == certified
        assert 0 <= float(row[7].removesuffix(" %")) / 100 - top["share"] < 0.1 * top["share"]
        assert row[8] == rounded(top["certified_radius"], 3, ROUND_FLOOR)


# Where nothing may happen


def test_the_policy_stops_what_gets_in_all_the_same(browser, samples):
    _, path = samples["one-radius"]
    context = browser.new_context()
    page, seen = context.new_page(), []
    page.on("request", lambda request: seen.append(request.url))
    page.goto(path.as_uri())
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/x\" onerror=\"window.hit=1\">')"
    )
    page.evaluate(
        "document.head.append(Object.assign(document.createElement('script'), {textContent: 'window.hit=1'}))"
    )
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'loaded', () => 'refused')") == "refused"
    assert page.evaluate("window.hit") is None
    context.close()
