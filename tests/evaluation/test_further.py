"""Further columns of a row, and the sentence that says what a row guarantees."""

from dataclasses import replace

import numpy as np
import pytest

import certcal
from certcal import evaluate
from certcal.metrics import equal_count_edges
from certcal.report import acceptance
from certcal.worstcase import WorstCaseProblem, equal_count_calibration_error, without_bins
from smoothing_oracles import random_evidence


@pytest.mark.parametrize("seed", range(4))
def test_guaranteed_values_do_not_contradict_each_other(seed):
    """No one-sided error exceeds the calibration error of its bins, nor the KS error that of every binning."""
    evidence = random_evidence(np.random.default_rng(seed), inputs=60, draws=300)
    row = evaluate(evidence, radii=[0.1], alpha=0.02, any_binning=True, n_bins=5)[0]
    own = row.further
    assert max(own[f"joint_{name}"] for name in ("overconfidence", "underconfidence", "largest_gap")) <= row.joint_ece
    assert own["joint_ks"] <= own["joint_any_binning"]


def test_the_sentence_names_its_inputs_radius_and_confidence_or_says_that_nothing_is_guaranteed():
    evidence = random_evidence(np.random.default_rng(3), inputs=60, draws=300)
    report = evaluate(evidence, radii=[0.1], alpha=0.01, threshold=0.3)
    said = acceptance(report, 0)
    assert said.startswith("Accept from 0.3: whatever the attack within R = 0.1, at least ")
    assert f"of the {report[0].certified} certified inputs are accepted" in said
    assert said.endswith("Both hold with 99.9 % confidence.")
    assert "certified inputs" not in acceptance(evaluate(evidence, radii=[0.1], alpha=0.01, population="all"), 0)
    none = acceptance(evaluate(evidence, radii=[0.1], alpha=0.01, threshold=0.999), 0)
    assert "nothing is guaranteed: neither how many of the" in none
    most = float(none.split("Something is guaranteed up to a threshold of ")[1].removesuffix("."))
    joint = report.operating(0, joint=True, thresholds=[most, most + 0.01])
    assert joint.right[0] > 0 == joint.right[1]


def test_further_metrics_and_any_binning_stand_apart_in_rows():
    evidence = random_evidence(np.random.default_rng(5), inputs=80, draws=300)
    plain = evaluate(evidence, radii=[0.1], alpha=0.01)
    more = evaluate(evidence, radii=[0.1], alpha=0.01, any_binning=True)
    assert plain[0].as_dict().keys() == more[0].as_dict().keys()
    assert "certified_auroc" in plain[0].further
    assert "certified_any_binning" not in plain[0].further
    assert more[0].further["certified_any_binning"] >= more[0].certified_ece - 1e-9
    assert more[0].further["certified_any_binning"] <= more[0].further["certified_without_bins"]
    point = plain.operating(0, joint=True, thresholds=[0.8])[0]
    assert point.failures == plain.failures
    own = plain[0].further
    assert (own["joint_coverage"], own["joint_selective_accuracy"]) == (point.coverage, point.accuracy)
    assert (own["coverage"], own["selective_accuracy"]) == (point.clean_coverage, point.clean_accuracy)


@pytest.mark.parametrize("population", ["certified", "all"])
def test_other_binnings_are_in_rows_clean_certified_and_joint(population):
    evidence = random_evidence(np.random.default_rng(5), inputs=80, draws=300)
    label = np.where(np.arange(80) % 4, evidence.selected, 1 - evidence.selected)
    report = evaluate(
        replace(evidence, label=label), radii=[0.1], alpha=0.01, any_binning=True, n_bins=5, population=population
    )
    own, bounds, options = report[0].further, report.bounds[0], {"population": population}
    seen = bounds.certified | (population == "all")
    clean, right = bounds.confidence[seen], bounds.correct[seen]
    edges = equal_count_edges(clean, n_bins=5)
    for part, count in (("certified", 0), ("joint", report.failures)):
        moving = equal_count_calibration_error(bounds, n_bins=5, failures=count, **options)
        fixed = certcal.jointly_certified_calibration_error(bounds, edges=edges, failures=count, **options)
        far = without_bins(WorstCaseProblem.of(bounds, **options), count)
        names = ("equal_count", "equal_count_fixed", "without_bins")
        assert [own[f"{part}_{name}"] for name in names] == pytest.approx([moving.value, fixed.value, far], abs=1e-12)
        assert own[f"{part}_equal_count_fixed"] <= own[f"{part}_any_binning"] + 1e-12 <= far + 2e-12
    gap = equal_count_calibration_error(bounds, n_bins=5, **options).stats["gap"]
    assert own["certified_equal_count_gap"] == pytest.approx(gap, nan_ok=True)
    assert own["equal_count"] == own["equal_count_fixed"] == report[0].adaptive_ece
    assert own["equal_count"] <= own["any_binning"] <= own["without_bins"] + 1e-12
    assert own["without_bins"] == pytest.approx(np.abs(right - clean).mean())
