"""The page's section on attacks: what it shows is what was found, on any screen, and it is not there without."""

import re
from dataclasses import replace

import numpy as np
import pytest

from browser import open_page, probe
from certcal.report import plot_sandwich
from certcal.report.attacks import ace_cells, ace_tables, attack_data, sandwich_tables, tightness, verdict
from certcal.report.html import render_page
from certcal.scalars import exactly
from page_samples import attacked_sample, page_sample

PLOTS = ("sandwich", "before", "after", "unattacked", "attacked")


@pytest.fixture(scope="module")
def sample():
    return attacked_sample()


@pytest.fixture(scope="module")
def path(sample, tmp_path_factory):
    made = tmp_path_factory.mktemp("attacked") / "page.html"
    made.write_text(render_page(sample[0]), encoding="utf-8")
    return made


# Without a browser


def test_without_an_attack_there_is_no_section():
    for data in (page_sample(inputs=20, radii=(0.0, 0.1)), page_sample(inputs=20, radii=(0.0, 0.1), attack=None)):
        text = render_page(data)
        assert 'id="attacks"' not in text
        assert "Under attack" not in text.partition("<script")[0]


@pytest.mark.parametrize("family", ["sandwich", "ace"])
def test_one_family_alone(family):
    text = render_page(attacked_sample(families=(family,))[0])
    assert ('id="sandwich"' in text) == (family == "sandwich")
    assert ('id="ace"' in text) == (family == "ace")


def test_words_say_from_below_and_from_above(sample):
    text = " ".join(render_page(sample[0]).split())
    assert "Attacked values are estimates from below" in text
    assert "Certified values come from above" in text
    assert "Refuted" not in text.partition("<script>")[0]
    record = sample[1]["sandwich"]
    assert "Nothing that was seen under attack contradicts the certificates" in verdict(record)
    place = record.strongest()[0]
    row = record.rows[place]
    assert row.adversary == "reach"
    assert "70 % of the way to the certified" in tightness(record, place)
    flat = {"clean_ece": 0.3, "attacked_ece": 0.2, "certified_ece": 0.3}
    assert "of the way" not in tightness(replace(record, rows=(replace(row, **flat),)), 0)


def test_a_refutation_is_loud():
    data, found = attacked_sample(refuted=True)
    said = verdict(found["sandwich"])
    assert said.startswith("The attacks contradict the certificates at R = 0.2 (reach). Do not rely on the guarantee")
    assert "with probability at most 0.1 %" in said
    text = render_page(data)
    assert len(re.findall(r"<strong>Refuted.</strong> The attacks contradict the certificates", text)) == 2
    top = text.index('id="refutation" role="alert"')  # right below the guarantee that it takes back
    assert text.index('id="explanation"') < top < text.index('id="chooser"')
    assert len(re.findall(r'<tr class="refuted">', text)) == 1
    lines = {line.get_label(): line.get_ydata() for line in plot_sandwich(found["sandwich"]).lines}
    assert np.isfinite(lines["REFUTED"]).tolist() == [False, True, False]


def test_inputs_and_certificates_that_are_not_the_pages_own_are_named():
    _, found = attacked_sample(limit=30)
    own = {"alpha": 1e-3, "method": "cdf-cp", "split_alpha": True, "n_bins": 15}
    said = attack_data(found["sandwich"], None, radius=0.1, certificates=own)["sandwich"]["about"]
    assert said == (
        "30 of the 80 inputs were attacked, evenly spread over them. "
        "Adversaries took 20 steps on 32 draws; 1,000 fresh ones judged (seed 0)."
    )
    said = attack_data(found["sandwich"], None, radius=0.1, certificates=own | {"alpha": 0.01})["sandwich"]["about"]
    assert "The certificates here are those of α = 0.001, cdf-cp, 15 bins" in said


def test_rounding_is_outward_for_what_is_certified_only(sample):
    record = sample[1]["sandwich"]
    row = replace(record.rows[0], certified_ece=0.12341, limit_ece=0.20001, attacked_ece=0.10004)
    lines = sandwich_tables(replace(record, rows=(row,)))
    assert "| 10.00 % | 12.35 % | 20.01 % |" in lines["md"]
    assert "12.35\\,\\%" in lines["tex"]
    assert "0.12341" in lines["csv"]


def test_table_one_has_the_papers_layout(sample):
    record = sample[1]["ace"]
    cells = ace_cells(record)
    assert [line[:2] for line in cells] == [["unattacked", ""], ["−1", "y"], ["+1", "y"], ["−1", "ŷ"], ["+1", "ŷ"]]
    assert {len(line) for line in cells} == {7}
    assert cells[1][2] == f"{100 * record.rows[1].adaptive_ece:.2f} %"
    assert cells[1][4] == f"{100 * record.rows[2].adaptive_ece:.2f} %"
    assert cells[1][-1] == "90.00 %"
    flipped = replace(record, rows=(*record.rows[:2], replace(record.rows[2], accuracy=0.8), *record.rows[3:]))
    assert ace_cells(flipped)[1][-1] == "90.00 % / 80.00 %"
    tables = ace_tables(record)
    assert tables["tex"].count(r"$\hat{y}$") == 2
    assert r"AdaECE, $\epsilon$ = 2/255" in tables["tex"]
    assert len(tables["csv"].splitlines()) == 1 + len(record.rows)
    assert [exactly(value) for value in (3 / 255, 0.03, 8 / 255)] == ["3/255", "0.03", "8/255"]


def test_the_strongest_attack_at_each_radius_is_drawn(sample):
    record = sample[1]["sandwich"]
    for score in ("ece", "brier"):
        plotted = plot_sandwich(record, score=score)
        assert plotted.get_ylabel() == {"ece": "ECE", "brier": "Brier score"}[score]
        lines = {line.get_label(): line.get_ydata() for line in plotted.lines}
        assert plotted.lines[0].get_xdata().tolist() == [0.1, 0.2, 0.3]
        rising = [lines[name] for name in ("clean", "attacked (from below)", "certified (from above)")]
        assert (np.diff([*rising, lines["refuted above this"]], axis=0) >= 0).all()
        best = [max(row.attacked_ece for row in record.rows if row.radius == r) for r in (0.1, 0.2, 0.3)]
        assert score == "brier" or lines["attacked (from below)"].tolist() == best


def test_a_stronger_attack_is_not_called_the_papers():
    data, found = attacked_sample(stronger=True)
    text = " ".join(render_page(data).split())
    assert "In the layout of the paper’s Table 1, but not its attack" in text
    assert "An attack stronger than the paper&#39;s, which turns back" in text
    tables = ace_tables(found["ace"])
    assert "an attack stronger than the paper's" in tables["md"]
    assert tables["tex"].startswith("% an attack stronger than the paper's")
    assert data["attack"]["ace"]["views"][1]["name"] == "stronger (−1, y)-ACE, ε = 2/255"
    plain = " ".join(render_page(attacked_sample(limit=30)[0]).split())
    assert "The paper’s Table 1: within ε" in plain
    assert "which stops at the first step that would change a label, on 30 of 80 inputs." in plain
    assert "stronger" not in ace_tables(attacked_sample()[1]["ace"])["md"]


def test_what_adversaries_want_and_what_is_bold_is_said(sample):
    text = " ".join(render_page(sample[0]).split())
    assert "<dt>brier</dt><dd>wants a large Brier score" in text
    assert "<dt>cce</dt>" not in text
    assert "In bold the strongest attack at each radius" in text


def test_what_is_left_out_is_named():
    data, _ = attacked_sample(families=(), left_out="sandwich left out, as the evidence has changed since")
    text = render_page(data)
    assert '<p id="left-out">Sandwich left out, as the evidence has changed since.</p>' in text
    assert 'id="sandwich"' not in text


def test_ties_go_to_the_attack_asked_for_first(sample):
    record = sample[1]["sandwich"]
    rows = [replace(row, attacked_ece=0.2 + 1e-6 * n) for n, row in enumerate(record.rows[:2])]
    assert replace(record, rows=tuple(rows)).strongest() == [0]
    rows[1] = replace(rows[1], attacked_ece=rows[1].attacked_ece + 1e-4)
    assert replace(record, rows=tuple(rows)).strongest() == [1]


def test_few_draws_and_all_right_are_said(sample):
    record = sample[1]["sandwich"]
    row = replace(record.rows[0], attacked_ece=0.5, certified_ece=0.4, limit_ece=0.9, accuracy=1.0)
    own = replace(record, rows=(row,))
    assert verdict(own).startswith("Attacked values above certified ones are within what so few draws")
    assert "no single input could contradict" not in verdict(own)
    few = replace(own, terms=replace(own.terms, draws=30))
    assert "With 30 fresh draws no single input could contradict its certificate." in verdict(few)
    assert tightness(own, 0).endswith("All of them are predicted rightly, so that every adversary lowers confidences.")
    assert "predicted rightly" not in tightness(record, 0)


# In a browser


def test_plots_show_the_data(browser, sample, path):
    record = sample[1]["sandwich"]
    best = [record.rows[place] for place in record.strongest()]
    with open_page(browser, path) as page:
        for name, plot in probe(page, "plots", PLOTS).items():
            assert min(plot["size"]) > 150, name
            assert "NaN" not in plot["text"]
            assert plot["inside"], name
            assert plot["label"], name
        read = probe(page, "readOff", "sandwich")
        for look, key in (("attacked", "attacked_ece"), ("incorrect", "certified_ece"), ("correct", "clean_ece")):
            seen = [value for kind, value, _ in read if kind == f"{look} point"]
            assert seen == pytest.approx([getattr(row, key) for row in best], abs=2e-3)
        legend = page.locator("#legend-sandwich li").all_inner_texts()
        assert legend == ["refuted above this", "certified, from above", "attacked, from below", "clean"]
        head, *body = page.eval_on_selector_all(
            "#sandwich tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))"
        )
        assert body == sample[0]["attack"]["sandwich"]["cells"]
        assert head[4:6] == ["attacked ECE", "certified ECE"]


def test_the_pair_follows_the_chosen_radius(browser, sample, path):
    views = sample[0]["attack"]["sandwich"]["views"]
    with open_page(browser, path) as page:
        for row, view in ((0, views[0]), (1, views[0]), (2, views[1]), (3, views[2])):
            page.locator("#table tbody tr").nth(row).locator("td").nth(1).click()
            assert page.inner_text("#title-after") == f"Reliability after: {view['where']} ECE {view['errors'][1]}"
            note = "R = 0 was not attacked; shown is the nearest, 0.1. " if row == 0 else ""
            assert page.inner_text("#tightness") == note + view["sentence"]
            filled = sum(count > 0 for count in view["after"]["count"])
            assert page.locator("#plot-after .marks circle").count() == filled


def test_a_row_of_table_one_chooses_its_diagram(browser, sample, path):
    ace = sample[0]["attack"]["ace"]
    with open_page(browser, path) as page:
        title = page.locator("#title-attacked")
        assert ace["views"][ace["strongest"]]["name"] in title.inner_text()
        rows = page.locator("#ace tbody tr")
        rows.nth(4).click()
        assert title.inner_text().startswith("Reliability under (+1, ŷ)-ACE, ε = 2/255")
        rows.nth(4).press("Enter")  # again: the next budget
        assert title.inner_text().startswith("Reliability under (+1, ŷ)-ACE, ε = 8/255")
        assert page.locator("#ace tr[aria-current] th").inner_text() == "+1"


def test_values_are_read_off_with_keys(browser, sample, path):
    point = sample[0]["attack"]["sandwich"]["curves"][-1]
    with open_page(browser, path) as page:
        page.locator("#plot-sandwich svg").focus()
        page.keyboard.press("End")
        told = page.eval_on_selector_all("#tip > p, #tip dd", "nodes => nodes.map(n => n.textContent)")
        assert told[0] == "reach, R = 0.3"
        shown = [float(text.removesuffix(" %")) / 100 for text in told[1:]]
        keys = ("limit_ece", "certified_ece", "attacked_ece", "clean_ece")
        assert shown == pytest.approx([point[key] for key in keys], abs=1.01e-4)
        assert shown[1] >= point["certified_ece"] - 1e-12


def test_a_wide_screen_shows_the_table_whole(browser, path):
    with open_page(browser, path, width=1200) as page:
        wide, room = page.eval_on_selector("#sandwich", "t => [t.scrollWidth, t.closest('.scroll').clientWidth]")
        assert wide <= room + 1


@pytest.mark.parametrize("refuted", [False, True])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_in_both_schemes_and_on_a_phone(browser, tmp_path, scheme, refuted):
    path = tmp_path / "page.html"
    path.write_text(render_page(attacked_sample(refuted=refuted)[0]), encoding="utf-8")
    with open_page(browser, path, scheme=scheme, width=390) as page:
        assert min(found := probe(page, "contrast"))[0] >= 4.5, min(found)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert probe(page, "tooWide") == []
        assert page.locator("#attacks .verdict").is_visible()
        assert page.locator("#refutation").count() == refuted


def test_paper_shows_the_section_whole(browser, path):
    with open_page(browser, path, width=718) as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        for seen in ("#attacks", "#sandwich", "#ace", *(f"#plot-{name} svg" for name in PLOTS)):
            assert page.locator(seen).is_visible(), seen
        assert page.eval_on_selector_all(".scroll", "rooms => rooms.every(r => r.scrollWidth <= r.clientWidth + 1)")


def test_without_script_the_tables_are_there(browser, path):
    with open_page(browser, path, java_script_enabled=False) as page:
        assert page.locator("#sandwich").is_visible()
        assert page.locator("#ace").is_visible()
        assert page.locator("#tightness").is_visible()
        assert page.locator("#plot-sandwich").is_hidden()


def test_names_in_an_attack_are_text(browser, tmp_path):
    data, _ = attacked_sample()
    evil = "</script><img src=x onerror='document.title=1'>"
    data["attack"]["sandwich"] |= {"verdict": evil, "about": evil}
    data["attack"]["sandwich"]["views"][0] |= {"where": evil, "sentence": evil}
    data["attack"]["ace"]["views"][1]["name"] = evil
    path = tmp_path / "page.html"
    path.write_text(render_page(data), encoding="utf-8")
    with open_page(browser, path) as page:
        assert page.locator("main img").count() == 0
        assert page.title() != "1"
