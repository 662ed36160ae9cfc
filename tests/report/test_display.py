"""What notebooks show: numbers, a sentence and a figure, with names as text."""

import numpy as np
import pytest

from certcal import InputError, certified_calibration_error, confidence_bounds, evaluate
from certcal.evaluation import METRICS
from certcal.report import as_html, draw, guarantee
from smoothing_oracles import random_evidence


@pytest.fixture(scope="module")
def evidence():
    return random_evidence(np.random.default_rng(0), inputs=40, draws=500)


def test_results_show_their_numbers(evidence):
    report = evaluate(evidence, radii=[0.0, 0.1], alpha=0.01)
    html = report._repr_html_()
    assert METRICS["joint_ece"].label in html
    assert guarantee(report, 1).split(",")[1] in html or guarantee(report, 0).split(",")[1] in html
    assert "data:image/png" in html
    assert f"{report[0].joint_ece:.4f}" in repr(report)
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    assert f"<td>{int(bounds.certified.sum())}</td>" in bounds._repr_html_()
    assert repr(bounds).startswith("ConfidenceIntervals(40 inputs, ")
    assert "<td>40</td>" in evidence._repr_html_()
    assert "certified ECE" in report[0]._repr_html_()
    solution = certified_calibration_error(bounds)
    assert "solved to global optimality" in solution._repr_html_()
    assert as_html("<b>") == "<pre>&#x27;&lt;b&gt;&#x27;</pre>"


def test_results_draw_themselves(evidence):
    from matplotlib.figure import Figure

    report = evaluate(evidence, radii=[0.0, 0.1], alpha=0.01)
    for result in (report, report.bounds[1], report[1].worst):
        axes = Figure().add_subplot()
        assert result.plot(ax=axes) is axes
        assert axes.has_data()
    with pytest.raises(InputError, match="Expected `result` to be a Report"):
        draw(3)
