"""Figures: arrays as promised, drawn on the axes given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from certcal import certified_calibration_error, reliability_curve
from certcal.report import plot_certified_boxes, plot_reliability, prepare_certified_boxes
from certcal.worstcase import WorstCaseProblem
from problems import smoothed_like


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
