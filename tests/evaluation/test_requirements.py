"""Requirements mean what they say, and what is no requirement is refused."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from certcal import InputError, evaluate
from certcal.evaluation import Requirement, judge
from certcal.report import judgements_markdown, to_junit
from certcal.worstcase import certified_operating_point, certified_threshold
from smoothing_oracles import random_evidence


@pytest.fixture(scope="module")
def report():
    return evaluate(random_evidence(np.random.default_rng(0), inputs=60, draws=500), radii=[0.0, 0.1, 9.0], alpha=0.01)


def test_both_sides_of_a_limit(report):
    value, clean = report.at(0.1).joint_ece, report.at(0.1).ece
    above, below = np.nextafter(clean, 2), np.nextafter(clean, -2)
    asked = {
        f"guaranteed_ece@0.1 <= {value!r}": True,
        f"joint_ece@0.1<{value!r}": False,
        f"ece @ 0.1 >= {float(above)!r}": False,
        f"ece@1e-1 > {float(below)!r}": True,
        "certified_accuracy@0 >= 0 %": True,
        "certified_accuracy@0 > 100%": False,
        "certified_ece@9 <= 1": False,  # no input is certified there: nothing is known, so nothing is met
    }
    assert [one.passed for one in judge(report, asked)] == list(asked.values())
    assert Requirement.parse("ece@0 <= 12.5 %").limit == 0.125


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ece <= 0.3", "have the form guaranteed_ece@0.25 <= 0.30"),
        ("ece@0.1 == 0.3", "have the form"),
        ("kindness@0.1 <= 0.3", "`require` to name a metric ("),
        ("guaranteed_ece@0.1 <= 30", "`require` to have a share as limit, such as 0.3 or 30 %"),
        ("ece@0.1 <= 0.3.1", "have a number as radius and as limit"),
        ("ece@0.7 <= 0.3", "`radius` to be one of 0, 0.1, 9"),
    ],
)
def test_what_is_no_requirement_is_refused(report, text, message):
    with pytest.raises(InputError) as caught:
        judge(report, [text])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sign", "side"),
    [
        ("guaranteed_ece@0.1 >= 0.1", "<=", "an upper bound: that it is at least so large"),
        ("population_ece@0.1 > 0.1", "<=", "an upper bound"),
        ("certified_accuracy@0.1 <= 60 %", ">=", "a lower bound: that it is at most so large"),
        ("guaranteed_coverage(0.9)@0.1 < 0.1", ">=", "a lower bound"),
    ],
)
def test_a_bound_is_no_gate_on_its_loose_side(report, text, sign, side):
    """Fewer draws alone would open it: it would say nothing of the model."""
    with pytest.raises(InputError, match="Expected `require` to ask for") as caught:
        judge(report, [text])
    name = re.match(r"\w+", text)[0]
    assert f"ask for {sign} of {name}, {side}" in str(caught.value)
    assert str(caught.value).endswith(f"proves nothing, but got {text!r}.")


def test_further_metrics_may_be_required(report):
    value = report.at(0.1).further["joint_auroc"]
    asked = {f"guaranteed_auroc@0.1 >= {value!r}": True, f"joint_auroc@0.1 > {value!r}": False}
    assert [one.passed for one in judge(report, asked)] == list(asked.values())
    assert (
        judge(report, ["guaranteed_overconfidence@0.1 <= 100 %"])[0].value
        == report.at(0.1).further["joint_overconfidence"]
    )
    with pytest.raises(InputError, match="a report made with any_binning=True"):
        judge(report, ["joint_any_binning@0.1 <= 0.5"])


def test_junit_and_markdown_say_which_failed(report):
    found = judge(report, ["certified_accuracy@0 >= 0", "certified_ece@9 <= 1"])
    suite = ElementTree.fromstring(to_junit(found, "mine <&>"))[0]
    assert suite.attrib == {"name": "certcal check mine <&>", "tests": "2", "failures": "1"}
    assert [len(case) for case in suite] == [0, 1, 0]
    assert "certified_ece@9 <= 1: NOT met, no input is certified there" in suite[1][0].attrib["message"]
    terms = f"population certified, α = {report.alpha:g}, δ = {report.delta:g}"
    assert (suite[2].tag, suite[2].text) == ("system-out", terms)
    assert judgements_markdown(found, "mine").endswith(f"\n{terms}\n")
    assert found[0].as_dict() | {"value": 0} == {
        "require": "certified_accuracy@0 >= 0", "value": 0, "passed": True,
        "population": "certified", "alpha": report.alpha, "delta": report.delta,
    }  # fmt: skip
    assert "| ❌ | `certified_ece@9 <= 1` | — |" in judgements_markdown(found, "mine")


def test_a_gate_may_name_its_threshold_or_wanted_accuracy(report):
    """As the functions of the bounds say it; without brackets at the report's own threshold."""
    own, more = report.bounds[1], {"failures": report.failures}
    at = certified_operating_point(own, threshold=0.4, **more)
    least = certified_threshold(own, accuracy=0.5, **more)
    found = {
        "guaranteed_coverage(0.4)@0.1 >= 0": at.coverage,
        "joint_selective_accuracy (0.4) @ 0.1 >= 0": at.accuracy,
        "certified_coverage(0.4)@0.1 >= 0": certified_operating_point(own, threshold=0.4).coverage,
        "guaranteed_coverage@0.1 >= 0": certified_operating_point(own, threshold=0.8, **more).coverage,
        "guaranteed_least_threshold(0.5)@0.1 <= 1": least.threshold,
        "guaranteed_largest_coverage(50e-2)@0.1 >= 0": least.coverage,
        "guaranteed_largest_coverage(1)@0.1 >= 0": 0.0,
    }
    assert [one.value for one in judge(report, found)] == list(found.values())
    (none,) = judge(report, ["guaranteed_least_threshold(1)@0.1 <= 1"])
    assert not none.passed
    assert "NOT met, it has no value (population certified, α = " in str(none)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("guaranteed_ece(0.5)@0.1 <= 0.3", "a share in brackets, and only after coverage, certified_coverage"),
        ("guaranteed_coverage(1.5)@0.1 >= 0.3", "a share in brackets"),
        ("guaranteed_least_threshold@0.1 <= 0.3", "the accuracy that is wanted of those accepted, as joint_least_"),
    ],
)
def test_a_gate_says_what_its_brackets_are_for(report, text, message):
    with pytest.raises(InputError, match=message):
        judge(report, [text])
