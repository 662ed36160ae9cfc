"""Thresholds and groups on the page: what the sliders say is what the report promises."""

from dataclasses import replace

import numpy as np
import pytest

from browser import open_page, probe
from certcal import evaluate
from certcal.certificates import intervals_from_lipschitz
from certcal.evaluation import Rounding
from certcal.report import group_words, groups_section, operating_section, page_data, percent
from certcal.report.html import render_page
from certcal.runs import write_results
from page_samples import FACTS
from smoothing_oracles import random_evidence


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A page with thresholds and groups, of which one is never certified at the largest radius."""
    evidence = random_evidence(np.random.default_rng(3), inputs=160, draws=5000)
    names = np.where(np.arange(160) % 4 == 0, "few", "many")
    report = evaluate(evidence, radii=(0.0, 0.1, 0.3), alpha=0.001, threshold=0.6, groups={"site": names})
    made = tmp_path_factory.mktemp("grouped") / "page.html"
    sections = {"operating": operating_section(report), "groups": groups_section(report)}
    data = page_data(report, title="groups", created="2026-11-16", facts=FACTS, sections=sections)
    made.write_text(render_page(data), encoding="utf-8")
    return report, made


def test_the_threshold_slider_says_the_point_in_words_and_moves_its_marks(browser, grouped):
    report, path = grouped
    with open_page(browser, path, hash="#R=0.1") as page:
        assert page.inner_text("#tau") == "0.60"

        def check(at):
            own, clean = (report.operating(1, joint=way, thresholds=[at / 100])[0] for way in (True, False))
            text = page.inner_text("#accept")
            assert text.startswith(f"Accept from {at / 100:.2f}: ")
            assert page.inner_text("#tau") == f"{at / 100:.2f}"
            shown = [
                float(share.removesuffix(" %")) / 100 for share in page.locator("#accept strong").all_inner_texts()
            ]
            for share, value in zip(shown, (own.accuracy, own.coverage), strict=True):
                assert value - 2e-3 < share <= value + 1e-12
            assert f"{100 * clean.clean_coverage:.1f}"[:3] in text
            label = page.locator("#plot-accepted svg").get_attribute("aria-label")
            assert f"at threshold {at / 100:.2f}: clean " in label
            line = page.locator("#plot-accepted line.now")
            return float(line.get_attribute("x1"))

        places = [check(60)]
        page.locator("#threshold").press("ArrowRight")
        places.append(check(61))
        page.locator("#threshold").fill("75")
        places.append(check(75))
        assert places == sorted(set(places))
        page.locator("#threshold").press("End")
        assert page.inner_text("#accept").startswith("Accept from 1.00: no input can reach this threshold unless its ")
        sure, joint = (report.operating(1, joint=way) for way in (False, True))
        nothing = (joint.coverage == 0) & (joint.accuracy == 0) & ~np.isnan(sure.accuracy)
        page.locator("#threshold").fill(str(nothing.argmax()))
        most, some = joint.threshold[joint.right > 0].max(), "Something is guaranteed up to a threshold of"
        assert page.inner_text("#accept").endswith(f"of those are right. {some} {most:.2f}.")
        page.locator("#threshold").press("Home")
        assert "of the certified inputs are accepted" in page.inner_text("#accept")
        page.locator("#radius").press("Home")
        assert "within R = 0, at least" in page.inner_text("#accept")


def test_the_heat_map_of_groups_follows_the_radius(browser, grouped):
    report, path = grouped
    with open_page(browser, path, hash="#R=0.1") as page:
        assert page.locator("#groups h3").all_inner_texts() == ["By site"]
        for row, radius in enumerate((0.0, 0.1, 0.3)):
            page.evaluate(f"location.hash = '#R={radius}'")
            page.wait_for_function(f"document.getElementById('chosen').textContent === '{radius:g}'")
            (table,) = report.groups[row]
            lines = page.locator("#groups tbody tr")
            assert lines.locator("th").all_inner_texts() == [group.name for group in table.groups]
            for place, group in enumerate(table.groups):
                texts = lines.nth(place).locator("td").all_text_contents()
                assert texts[:2] == [str(group.inputs), str(group.row.certified)]
                if group.row.certified:
                    assert float(texts[4].removesuffix(" %")) / 100 >= group.row.joint_ece
            assert page.locator("#groups li").all_inner_texts() == group_words(table)
            assert page.inner_text("#groups-title") == f"Group by group, at R = {radius:g}"
        shaded = page.eval_on_selector_all("#groups td[class^=shade-]", "nodes => nodes.map(n => n.className)")
        assert shaded
        colours = page.eval_on_selector_all(
            "#groups td[class^=shade-]", "nodes => nodes.map(n => getComputedStyle(n).backgroundColor)"
        )
        plain = page.eval_on_selector("#groups td:not([class])", "node => getComputedStyle(node).backgroundColor")
        assert plain not in colours


@pytest.mark.parametrize("width", [390, 1280])
def test_thresholds_and_groups_fit_the_screen_and_no_column_is_lost(browser, grouped, width):
    with open_page(browser, grouped[1], width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for name in ("#accept", "#threshold", "#wanted", "#groups table"):
            assert page.locator(name).is_visible()
        assert len(probe(page, "seen", "#groups thead th")) == 9
        room = page.locator("#groups .scroll")
        room.evaluate("node => { node.scrollLeft = node.scrollWidth }")
        last = page.locator("#groups thead th").last.bounding_box()
        assert last["x"] + last["width"] <= width
        page.locator(".operating summary").click()
        assert page.locator("#further .help").first.inner_text() == "how well confidence tells right from wrong"
        right = page.locator("#further td").nth(2).bounding_box()
        assert right["x"] + right["width"] <= width


def group_cells(page):
    return [line.split("\t")[-2:] for line in page.locator("#groups tbody tr").all_inner_texts()]


def test_the_threshold_moves_the_groups_and_stays_in_the_address(browser, grouped):
    report, path = grouped

    def promised(row, tau):
        own = [group.joint_curve for group in report.groups[row][0].groups]
        at = np.searchsorted(report.thresholds, tau)
        return [[percent(float(each[at]), Rounding.DOWN, 1) for each in (one.coverage, one.accuracy)] for one in own]

    with open_page(browser, path, hash="#R=0.1&tau=0.7") as page:
        assert page.inner_text("#tau") == page.inner_text("#groups-tau") == "0.70"
        assert group_cells(page) == promised(1, 0.7)
        page.locator("#threshold").press("ArrowLeft")
        assert page.evaluate("location.hash") == "#R=0.1&tau=0.69"
        assert group_cells(page) == promised(1, 0.69)
        page.locator("#radius").press("Home")
        assert page.evaluate("location.hash") == "#R=0&tau=0.69"
        assert group_cells(page) == promised(0, 0.69)
        page.evaluate("location.hash = '#R=0.1'")
        page.wait_for_function("document.getElementById('tau').textContent === '0.60'")
        assert group_cells(page) == promised(1, 0.6)
        page.locator("#threshold").press("ArrowLeft")
        page.locator("#threshold").press("ArrowRight")
        assert page.evaluate("location.hash") == "#R=0.1"  # as the page opens by itself
    with open_page(browser, path, hash="#tau=0.333&R=0.1") as page:  # a threshold that the page has not
        assert page.inner_text("#tau") == "0.60"
        assert page.inner_text("#chosen") == "0.1"


def test_the_page_finds_the_threshold_for_a_wanted_accuracy(browser, tmp_path):
    rng = np.random.default_rng(1)
    evidence = random_evidence(rng, inputs=160, draws=5000)
    sure = evidence.histogram.argmax(axis=1) > 150
    label = np.where(sure | (rng.random(160) < 0.5), evidence.selected, 1 - evidence.selected)
    report = evaluate(
        replace(evidence, label=label),
        radii=(0.0, 0.1),
        alpha=0.001,
        threshold=0.999,
        accept_accuracy=0.75,
        open_at=0.1,
    )
    path = write_results(report, tmp_path / "run", figures=False)
    curve = report.operating(1, joint=True)
    first = int(((curve.right > 0) & (curve.accuracy >= 0.75)).argmax())
    with open_page(browser, path) as page:
        assert page.inner_text("#tau") == "0.999"
        assert page.inner_text("#accept").startswith("Accept from 0.999: ")
        assert page.input_value("#wanted") == "75"
        said = page.inner_text("#wanted-answer")
        share = percent(float(curve.coverage[first]), Rounding.DOWN, 1)
        assert said.startswith(f"accept from {curve.threshold[first]:.2f}; at least {share} of the certified inputs")
        assert curve.threshold[first] - 0.01 < report.least_threshold(1).threshold <= curve.threshold[first]
        page.locator("#take").click()
        assert page.inner_text("#tau") == f"{curve.threshold[first]:.2f}"
        assert page.locator("#take").is_hidden()
        page.locator("#wanted").fill("100")
        most = percent(float(curve.accuracy[curve.right > 0].max()), Rounding.DOWN, 1)
        assert page.inner_text("#wanted-answer").startswith(
            f"no threshold guarantees it here. The most is {most}, from "
        )
        page.locator("#wanted").fill("0")
        assert page.inner_text("#wanted-answer") == "give a share above 0 and up to 100 %."


def test_a_page_without_chance_speaks_of_none_at_any_threshold(browser, tmp_path, rng):
    logits, labels = rng.standard_normal((60, 3)) * 4, rng.integers(0, 3, 60)
    bounds = intervals_from_lipschitz(logits, labels, constant=1.0, radius=0.2)
    with open_page(browser, write_results(evaluate(bounds), tmp_path, figures=False)) as page:
        told = page.inner_text("#accept")
    assert told.startswith("Accept from 0.80: whatever the attack within R = 0.2, at least ")
    assert "confidence" not in told
    assert "certificate fails" not in told
    assert "without an attack)" in told
