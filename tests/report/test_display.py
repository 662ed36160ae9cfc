"""What notebooks show: numbers, a sentence and a figure, with names as text."""

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import certcal
from certcal import InputError, attacks, certified_calibration_error, confidence_bounds, evaluate
from certcal.evaluation import METRICS, Rounding, number
from certcal.progress import Progress
from certcal.recalibration import (
    CANDIDATES,
    IsotonicMap,
    TemperedMap,
    choose_map,
    fit_score_map,
    held_out_scores,
    trade_off,
)
from certcal.report import as_html, draw, guarantee
from smoothing_oracles import random_evidence


@pytest.fixture(scope="module")
def evidence():
    return random_evidence(np.random.default_rng(0), inputs=40, draws=500)


def shown(result):
    """A result in a notebook: short as text, and as HTML, which is given back, a table, a sentence and a figure."""
    assert len(repr(result)) < 150
    html = result._repr_html_()
    assert [part for part in ("<table>", "<p>", "data:image/png") if part not in html] == []
    return html


def test_results_show_their_numbers(evidence):
    report = evaluate(evidence, radii=[0.0, 0.1], alpha=0.01)
    html = shown(report)
    assert METRICS["joint_ece"].label in html
    assert guarantee(report, 1).split(",")[1] in html or guarantee(report, 0).split(",")[1] in html
    assert number(report[0].joint_ece, Rounding.UP) in repr(report)
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    assert f"<td>{int(bounds.certified.sum())}</td>" in shown(bounds)
    assert repr(bounds).startswith("ConfidenceIntervals(40 inputs, ")
    assert "<td>40</td>" in shown(evidence)
    assert "certified ECE" in shown(report[0])
    html = shown(certified_calibration_error(bounds))
    assert "solved to global optimality" in html
    assert "these attain it" in html
    assert as_html("<b>") == "<pre>&#x27;&lt;b&gt;&#x27;</pre>"


def test_results_draw_themselves(evidence):
    report = evaluate(evidence, radii=[0.0, 0.1], alpha=0.01)
    for result in (evidence, report, report[1], report.bounds[1], report[1].worst):
        axes = Figure().add_subplot()
        assert result.plot(ax=axes) is axes
        assert axes.has_data()
    with pytest.raises(InputError, match="Expected `result` to be one that certcal has a figure for"):
        draw(3)


def test_inputs_are_rows_of_a_frame(evidence):
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    frame, drawn = bounds.to_frame(), evidence.to_frame()
    assert frame["certified"].sum() == bounds.certified.sum()
    assert np.array_equal(frame[["lower", "upper"]].to_numpy().T, [bounds.lower, bounds.upper])
    assert drawn["correct"].mean() == evidence.correct.mean()
    assert drawn["draws"].tolist() == evidence.draws.tolist()
    row, worst = evaluate(evidence, radii=[0.1], alpha=0.01)[0], certified_calibration_error(bounds)
    assert row.to_frame()["certified_ece"].tolist() == [row.certified_ece]
    assert worst.to_frame()["confidence"].tolist() == worst.confidence.tolist()


def test_texts_of_rows_round_certified_errors_up_as_tables_do(evidence):
    report = evaluate(evidence, radii=[0.1], alpha=0.01)
    low = replace(report[0], ece=0.12344, certified_ece=0.12341, joint_ece=0.15750001)
    assert repr(low).endswith("clean ECE 0.1234, certified ECE 0.1235, joint ECE 0.1576)")
    assert repr(replace(report, rows=(low,))).endswith("joint ECE 0.1576)")


def test_nothing_certified_is_shown_as_such(evidence):
    report = evaluate(evidence, radii=[9.0], alpha=0.01)
    assert repr(report) == "Report(40 inputs, 1 radius, R = 9, joint ECE —)"
    assert repr(report[0]) == "Row(R = 9, 0 inputs, nothing certified)"
    for result in (report[0], report.bounds[0]):
        assert "Nothing is certified at this radius." in result._repr_html_()


def test_a_worst_case_says_what_another_kind_means(evidence):
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    solution = certified_calibration_error(bounds)
    for kind, words in (("upper", "are worse."), ("lower", "certifies nothing")):
        assert words in replace(solution, kind=certcal.Kind(kind))._repr_html_()


@pytest.fixture(scope="module")
def found():
    """One of each result of attacks and of recalibration."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    data = torch.rand(12, 1, 4, 4), torch.arange(12) % 3
    drawn = certcal.collect_evidence(model, data, sigma=0.25, n=250)
    few = {"draws": 50, "attack_draws": 8, "steps": 2}
    rng = np.random.default_rng(1)
    many = random_evidence(rng, inputs=200, draws=500)
    mixed = replace(many, label=np.where(rng.random(200) < 0.7, many.selected, 1 - many.selected))
    bounds = confidence_bounds(mixed, radius=0.02, alpha=0.01)
    held = held_out_scores(bounds, repeats=2)
    return {
        "sandwich": attacks.attack_certificates(model, data, drawn, radii=[0.0, 0.05], alpha=0.01, **few),
        "ace": attacks.run_ace_attacks(model, *data, epsilon=[3 / 255], steps=3),
        "attacked": certcal.ace_attack(model, *data, eta=1, omega="y", epsilon=0.05, steps=3),
        "calibration": attacks.attack_calibration(model, *data, sigma=0.25, epsilon=0.1, draws=8, steps=2),
        "map": certcal.recalibrate(bounds, on_failure="identity"),
        "inside": fit_score_map(mixed, radii=0.02, alpha=0.01, on_failure="identity"),
        "tempered": TemperedMap(0.5, IsotonicMap([0.2, 0.8], [0.3, 0.7])),
        "held": held,
        "trade-off": trade_off(bounds, clean_weights=(0.0, 0.5), repeats=2),
        "choice": choose_map(mixed, radii=0.02, alpha=0.01, candidates=CANDIDATES[:2]),
    }


WORDS = {
    "sandwich": ["attacked ECE", "Nothing that was seen under attack contradicts"],
    "ace": ["AdaECE, ε = 3/255", "the strongest attack"],
    "attacked": ["linf ≤ 0.05", "mean loss after"],
    "calibration": ["adversary", "too extreme"],
    "map": ["map of confidences", "predictions stay as they are"],
    "inside": ["map of confidences"],
    "tempered": ["logits divided by"],
    "held": ["held out, R = 0.02", "Means over 2 splits"],
    "trade-off": ["weight of clean points", "no map"],
    "choice": ["steps, λ = ", "<td>chosen</td>", "Chosen among 2 ways"],
}


@pytest.mark.parametrize("name", WORDS)
def test_what_attacks_and_maps_found_is_shown(found, name):
    result, axes = found[name], Figure().add_subplot()
    html = result._repr_html_()
    assert "data:image/png" in html
    assert "nan" not in html
    assert [word for word in WORDS[name] if word not in html] == []
    assert len(repr(result)) < 150
    assert result.plot(ax=axes) is axes
    assert axes.has_data()
    frame = result.to_frame()
    assert len(frame) == len(result.as_dicts()) > 1
    assert frame.columns.tolist() == list(result.as_dicts()[0])


def test_a_map_is_a_table_of_what_it_does(found):
    own = found["tempered"].to_frame()
    assert own["confidence"].tolist() == IsotonicMap([0.2, 0.8], [0.3, 0.7]).transform(own["before"]).tolist()
    inside = found["inside"].to_frame()
    assert inside["score"].tolist() == found["inside"].transform(inside["before"]).tolist()


def test_what_is_left_is_an_estimate(monkeypatch, capsys):
    monkeypatch.setattr("certcal.progress.LINE_SECONDS", -1.0)
    with Progress(2, 10, show=True) as bar:
        bar.drew(5)
    assert ", about 0:00:00 left" in capsys.readouterr().err


@pytest.mark.slow
def test_a_kernel_shows_a_bar_and_leaves_one_line(tmp_path):
    pytest.importorskip("nbclient")
    from cells import run_cells

    code = """
    from certcal.progress import Progress
    with Progress(2, 10, show=None) as bar:
        for _ in range(4):
            bar.drew(5)
    with Progress(2, 10, show=False) as silent:
        silent.drew(20)
    """
    (cell,) = run_cells(dedent(code), cwd=tmp_path).cells
    (shown,) = cell.outputs
    assert shown.data["text/html"] == "<small>20 draws made</small>"
