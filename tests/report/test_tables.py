"""Tables and sentences: every shown value on the cautious side of the one computed."""

import csv
import io
import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import evaluate
from certcal.evaluation import Rounding
from certcal.report import (
    answer_about,
    caveats,
    cells,
    columns,
    explanation,
    guarantee,
    more_tables,
    number,
    percent,
    to_csv,
    to_latex,
    to_markdown,
)
from certcal.report.tables import complement
from certcal.scalars import exactly
from smoothing_oracles import random_evidence

RADII = (0.0, 0.1, 0.3, 5.0)


@pytest.fixture(scope="module")
def evidence():
    return random_evidence(np.random.default_rng(0), inputs=120, draws=2000)


@pytest.fixture(scope="module")
def report(evidence):
    return evaluate(evidence, radii=RADII, alpha=0.01, approximations=["brier"])


@given(st.floats(0, 1), st.integers(0, 6))
def test_shown_numbers_are_on_their_side(value, digits):
    up, down = Decimal(number(value, Rounding.UP, digits)), Decimal(number(value, Rounding.DOWN, digits))
    step = Decimal(1).scaleb(-digits)
    assert down - Decimal("1e-16") <= Decimal(value) <= up
    assert up - down <= step
    assert Decimal(percent(value, Rounding.UP, digits).removesuffix(" %")) >= 100 * Decimal(value)


@given(st.integers(1, 10_000), st.data())
def test_a_share_of_inputs_is_not_rounded_below_itself(total, data):
    share = data.draw(st.integers(0, total))
    shown = Decimal(percent(share / total, Rounding.DOWN).removesuffix(" %"))
    assert shown * total <= 100 * share < (shown + Decimal("0.01")) * total


def test_every_cell_is_its_value_rounded_outward(report):
    for row, line in zip(report.as_dicts(), cells(report), strict=True):
        for key, cell in zip(columns(report), line, strict=True):
            value = row.get(key)
            if value is None or np.isnan(value):
                assert cell == "—"
                continue
            shown = float(cell.removesuffix(" %")) / (100 if cell.endswith("%") else 1)
            assert shown == pytest.approx(value, abs=1.01e-4)
            if key.startswith(("certified_ece", "certified_brier", "joint_ece", "joint_brier")):
                assert shown >= value
            if key.endswith("accuracy"):
                assert shown <= value + 1e-15


def test_csv_keeps_every_digit(report):
    rows = list(csv.DictReader(io.StringIO(to_csv(report))))
    assert [float(row["certified_ece"]) for row in rows[:3]] == [row.certified_ece for row in report.rows[:3]]
    assert [float(row["approximate_brier"]) for row in rows[:3]] == [r.approximations["brier"] for r in report.rows[:3]]


def test_markdown_and_latex_have_one_line_per_radius(report):
    lines = to_markdown(report).splitlines()
    assert len(lines) == 2 + len(RADII)
    assert len({line.count("|") for line in lines}) == 1
    latex = to_latex(report)
    assert latex.count(r"\\") == 1 + len(RADII)
    assert latex.count("&") == (1 + len(RADII)) * (len(columns(report)) - 1)
    assert not re.search(r"(?<!\\)%", latex)  # would start a comment


def test_the_guarantee_states_the_joint_values_rounded_outward(report):
    text = guarantee(report, 1)
    row = report.rows[1]
    ece, brier, accuracy = re.search(r"at most ([\d.]+) %.* at most ([\d.]+); .*at least ([\d.]+) %", text).groups()
    assert row.joint_ece <= float(ece) / 100 <= row.joint_ece + 1e-4
    assert row.joint_brier <= float(brier) <= row.joint_brier + 1e-4
    assert row.joint_accuracy - 1e-4 <= float(accuracy) / 100 <= row.joint_accuracy + 1e-15
    assert text.startswith("With probability at least 99.9 % over the noise draws, under any ℓ2 perturbation")
    assert f"the {row.inputs} of 120 inputs that are certified at R = 0.1" in text
    assert f"at most {report.failures} fail" in explanation(report, 1)


def test_units_other_than_those_of_images_stand_beside_the_radius(evidence, report):
    """R = 1 in standard deviations of features is not R = 1 in [0, 1]."""
    units = "in the units of features divided by their standard deviation"
    scaled = replace(evidence, header=replace(evidence.header, units=units.removeprefix("in the units of ")))
    own = evaluate(scaled, radii=[0.1, 5.0], alpha=0.01)
    assert f"perturbation of each input by up to 0.1 ({units}), the smoothed" in guarantee(own, 0)
    assert all(answer_about(own, position).endswith(f" R is {units}.") for position in (0, 1))
    assert not any("units" in words(report, 1) for words in (guarantee, answer_about))


def test_nothing_is_claimed_where_nothing_is_certified(report):
    assert guarantee(report, 3) == "At R = 5 no input is certified, so nothing is claimed there."
    assert explanation(report, 3) == ""


def test_the_words_fit_population_and_level(evidence):
    everyone = evaluate(evidence, radii=[0.0, 5.0], alpha=0.01, population="all", delta=1e-6)
    assert "99.9999 %" in guarantee(everyone, 0)
    assert "on all 120 inputs is at most 100.00 %" in guarantee(everyone, 1)
    assert "left out" not in " ".join(caveats(everyone))
    paper = evaluate(evidence, radii=[0.1], alpha=0.01, method="cdf", split_alpha=False)
    assert "α = 0.01 is given to each" in " ".join(caveats(paper))
    assert "fail with probability at most 0.02" in explanation(paper, 0)


def test_a_radius_is_said_with_every_digit(evidence):
    report = evaluate(evidence, radii=[0.12345678, 2 / 3], alpha=0.01)
    assert "by up to 0.12345678, " in guarantee(report, 0)
    assert "| 0.12345678 |" in to_markdown(report)
    assert "0.6666666666666666" in guarantee(report, 1)
    assert exactly(1234567) == "1234567"


def test_levels_are_never_rounded_to_certainty(evidence):
    assert "at least 1 − 1e-30 over" in guarantee(evaluate(evidence, radii=[0.1], alpha=0.01, delta=1e-30), 0)
    loose = evaluate(evidence, radii=[0.1], alpha=0.7, method="cdf", split_alpha=False)
    assert "fail with probability at most 1.0" in explanation(loose, 0)
    tiny = evaluate(evidence, radii=[0.1], alpha=1e-8, method="cdf", split_alpha=False)
    assert "fails with probability at most 2e-08" in " ".join(caveats(tiny))
    assert "none fails, so that nothing had to be added" in explanation(
        evaluate(evidence, radii=[0.1], alpha=1e-9, delta=0.5), 0
    )


def test_probabilities_are_said_in_few_digits_on_the_careful_side(evidence):
    report = evaluate(evidence, radii=[0.1], alpha=0.001 / 3, delta=1e-4 / 7)
    assert "With probability at least 99.99857 % over" in guarantee(report, 0)  # 99.998571428…
    assert "fail with probability at most 0.000334;" in explanation(report, 0)
    for delta in (1e-4 / 7, 1 / 3, 1e-12, 0.05):
        said = complement(delta).removesuffix(" %")
        found = float(said) / 100 if "−" not in said else 1 - float(said.split("−")[1])
        assert 1 - 1.01 * delta <= found <= 1 - delta


def test_further_metrics_operating_points_and_groups_have_tables(evidence):
    report = evaluate(evidence, radii=RADII, alpha=0.01, any_binning=True, groups={"half_of": np.arange(120) % 2})
    made = more_tables(report)
    assert sorted(made) == [
        *(f"disparities.{end}" for end in ("csv", "md", "tex")),
        *(f"further.{end}" for end in ("csv", "md", "tex")),
        *(f"groups.{end}" for end in ("csv", "md", "tex")),
        "operating.csv",
    ]
    rows = list(csv.DictReader(io.StringIO(made["further.csv"])))
    for row, own in zip(rows[:3], report, strict=False):
        np.testing.assert_equal({key: float(value) for key, value in row.items() if key != "radius"}, dict(own.further))
    assert rows[3]["certified_auroc"] in ("", "nan")  # nothing is certified there
    points = list(csv.DictReader(io.StringIO(made["operating.csv"])))
    assert len(points) == 3 * 21
    own = report.operating(1, joint=True, thresholds=[0.8])[0]
    found = next(row for row in points if float(row["radius"]) == RADII[1] and float(row["threshold"]) == 0.8)
    assert float(found["joint_accuracy"]) == pytest.approx(own.accuracy)
    groups = list(csv.DictReader(io.StringIO(made["groups.csv"])))
    assert [(row["column"], row["name"], row["inputs"]) for row in groups[:2]] == [
        ("half_of", str(n), "60") for n in "01"
    ]
    apart = list(csv.DictReader(io.StringIO(made["disparities.csv"])))
    (table,), heads = report.groups[1], ("clean", "certified", "guaranteed")
    for own, row in zip(table.disparities, [row for row in apart if row["radius"] == "0.1"], strict=True):
        assert [float(row[name]) for name in heads] == [own.clean, own.certified, own.joint]
        assert (row["metric"], row["above"], row["below"]) == (own.metric, *own.between)
        points = percent(own.joint, Rounding.UP, 1).replace(" %", " points")
        assert own.metric == "brier" or f" | {points} | {row['above']} | {row['below']} |" in made["disparities.md"]
    assert "| 0.1 | AUROC | " in made["further.md"]
    lines = [line.split(" | ") for line in made["further.md"].splitlines() if "| Overconfidence |" in line]
    for line, row in zip(lines, report, strict=False):
        if row.inputs:
            shown = float(line[4].removesuffix(" % |")) / 100
            assert row.further["joint_overconfidence"] <= shown < row.further["joint_overconfidence"] + 1.01e-4
    assert r"half\_of" in made["groups.tex"]
    assert made["groups.tex"].count(r"\\") == 1 + 2 * len(RADII)


def test_names_of_groups_stay_in_their_cells(evidence):
    names = np.where(np.arange(120) % 2, "a\n|b", "<script>")
    report = evaluate(evidence, radii=[0.1], alpha=0.01, groups={"x": names})
    made = more_tables(report)
    assert len(made["groups.md"].splitlines()) == 4
    assert "<script" not in made["groups.md"] + made["disparities.md"]
    assert r"| a \|b |" in made["groups.md"]
    assert [row["name"] for row in csv.DictReader(io.StringIO(made["groups.csv"]))] == ["<script>", "a\n|b"]


def test_texts_in_csv_are_no_formulas():
    from certcal.report.tables import csv_text

    (line,) = csv.reader(csv_text([], [["=1+1", "-2", -2.5, "@x", "plain"]]).splitlines()[1:])
    assert line == ["'=1+1", "'-2", "-2.5", "'@x", "plain"]
