"""Figures: arrays as promised, drawn on the axes given."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from certcal import certified_calibration_error, confidence_bounds, evaluate, reliability_curve
from certcal.recalibration import Candidate, Choice, IdentityMap, Scores, trade_off
from certcal.report import (
    plot_certified_accuracy,
    plot_certified_boxes,
    plot_choice,
    plot_errors,
    plot_moves,
    plot_reliability,
    plot_trade_off,
    plot_widths,
    prepare_certified_boxes,
    prepare_moves,
    prepare_widths,
)
from certcal.worstcase import WorstCaseProblem
from problems import smoothed_like
from smoothing_oracles import random_evidence


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_boxes_are_ordered_and_spread_over_all_inputs(axes):
    lower, upper, correct, _ = smoothed_like(1000)
    problem = WorstCaseProblem.checked(lower, upper, correct)
    worst = certified_calibration_error(lower, upper, correct).confidence
    boxes = prepare_certified_boxes(problem, worst=worst, limit=50)
    middle = boxes.lower + boxes.upper
    assert len(middle) == 50
    assert (np.diff(middle) >= 0).all()
    assert middle[0] == (lower + upper).min()
    assert middle[-1] == (lower + upper).max()
    assert ((boxes.worst >= boxes.lower) & (boxes.worst <= boxes.upper)).all()
    assert plot_certified_boxes(boxes, ax=axes) is axes


def test_fewer_inputs_than_boxes():
    lower, upper, correct, _ = smoothed_like(7)
    assert len(prepare_certified_boxes(WorstCaseProblem.checked(lower, upper, correct)).lower) == 7


def test_reliability_diagram_shows_accuracy_where_there_are_inputs(axes):
    curve = reliability_curve([0.1, 0.9, 0.95], [0, 1, 0], n_bins=5)
    assert plot_reliability(curve, ax=axes) is axes
    points = axes.containers[-1].lines[0].get_xydata()
    np.testing.assert_allclose(points, [[0.1, 0.0], [0.9, 0.5]])
    _, _, (bars,) = axes.containers[-1].lines
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([curve.lower, curve.upper])[curve.count > 0])
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "accuracy, 95% interval" in labels


def test_axes_are_made_when_none_are_given():
    axes = plot_reliability(reliability_curve([0.4], [1]), interval=False)
    assert axes.get_title() == "ECE 60.0%"
    plt.close(axes.figure)


@pytest.mark.parametrize("population", ["certified", "all"])
def test_every_figure_draws_every_row(rng, axes, population):
    report = evaluate(random_evidence(rng, inputs=80, draws=1000), radii=[0.0, 0.2], alpha=0.01, population=population)
    for position in range(2):
        assert plot_moves(prepare_moves(report, position), ax=axes) is axes
        assert plot_widths(prepare_widths(report, position), ax=axes) is axes
    for score in ("ece", "brier"):
        axes.clear()
        lines = plot_errors(report.rows, ax=axes, score=score).lines
        drawn = [line.get_ydata().tolist() for line in lines]
        assert drawn == [
            [getattr(row, f"{kind}{score}") for row in report.rows] for kind in ("joint_", "certified_", "")
        ]
    axes.clear()
    first = plot_certified_accuracy(report.rows, ax=axes).lines[0]
    assert first.get_ydata().tolist() == [row.certified_accuracy for row in report.rows]


@pytest.mark.parametrize("against", ["auroc", "brier_all"])
def test_the_maps_that_one_was_chosen_from_are_drawn_with_limit_and_choice(axes, against):
    def scores(ece, auroc, brier):
        return Scores(ece, 0.1, 0.1, 0.1, brier, auroc, 0.1, 10)

    tried = [(Candidate(None, "beta", n / 2), scores(0.1 * n, 0.7 + 0.1 * n, 0.2 - 0.05 * n)) for n in range(3)]
    choice = Choice(IdentityMap(), tried[1][0], tuple(tried), scores(0.3, 0.8, 0.16), 0.5, 0.01, 0.0)
    drawn = plot_choice(choice, against, ax=axes)
    _, beyond, allowed, chosen, untouched, limit = drawn.lines
    values = {0: [0.7, 0.8, 0.9], 1: [0.2, 0.15, 0.1]}[against != "auroc"]
    assert np.allclose(beyond.get_xydata(), [[values[0], 0.0]])
    assert np.allclose(allowed.get_xydata(), [[values[1], 0.1], [values[2], 0.2]])
    assert np.allclose(chosen.get_xydata(), [[values[1], 0.1]])
    assert np.allclose(untouched.get_xydata(), [[0.8 if against == "auroc" else 0.16, 0.3]])
    assert np.allclose(limit.get_xdata(), 0.79 if against == "auroc" else 0.16)


def test_the_trade_off_is_drawn_as_it_is(rng, axes):
    evidence = random_evidence(rng, inputs=200, draws=1000)
    evidence = replace(evidence, label=np.where(rng.random(200) < 0.8, evidence.selected, 1 - evidence.selected))
    curve = trade_off(confidence_bounds(evidence, radius=0.1, alpha=0.01), clean_weights=[0.0, 0.5, 1.0], repeats=2)
    line, before = plot_trade_off(curve, ax=axes).lines
    assert line.get_xdata().tolist() == curve.of("certified_brier").tolist()
    assert line.get_ydata().tolist() == curve.of("brier_all").tolist()
    assert (before.get_xdata()[0], before.get_ydata()[0]) == (curve.identity.certified_brier, curve.identity.brier_all)
