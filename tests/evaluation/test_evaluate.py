"""Evaluation over radii: every number is that of the function it is named after."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from certcal import (
    InputError,
    certified_brier_score,
    certified_calibration_error,
    confidence_bounds,
    evaluate,
    expected_calibration_error,
)
from certcal.certificates import RunnerUp
from certcal.evaluation import row as rows
from certcal.evaluation import row_at
from certcal.recalibration import IsotonicMap
from certcal.report import caveats, explanation, guarantee
from certcal.settings import EvaluateSettings
from certcal.worstcase import (
    allowed_failures,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
    population_bound,
)
from smoothing_oracles import random_evidence

RADII = (0.0, 0.1, 0.3, 0.6, 5.0)


@pytest.fixture
def evidence(rng):
    return random_evidence(rng, inputs=120, draws=2000)


def test_rows_are_what_the_functions_give(evidence):
    report = evaluate(evidence, radii=RADII, alpha=0.01)
    assert [row.radius for row in report] == list(RADII)
    for row, worst in zip(report.rows[:3], report.worst, strict=False):
        bounds = confidence_bounds(evidence, radius=row.radius, alpha=0.01)
        kept = bounds.certified
        parts = bounds.lower[kept], bounds.upper[kept], bounds.correct[kept]
        assert row.inputs == row.certified == kept.sum()
        assert row.certified_accuracy == pytest.approx((kept & bounds.correct).mean())
        assert row.certified_ece == worst.value == certified_calibration_error(*parts).value
        assert row.certified_brier == pytest.approx(certified_brier_score(*parts).value, rel=1e-12)
        assert row.certified_brier >= certified_brier_score(*parts).value
        assert row.ece == expected_calibration_error(bounds.confidence[kept], bounds.correct[kept])


def test_evidence_alone_is_asked_what_the_command_line_asks(evidence):
    sigma = evidence.header.sigma
    report = evaluate(evidence)
    assert [row.radius for row in report] == list(EvaluateSettings().radii_at(sigma))
    assert report.alpha == EvaluateSettings().alpha
    assert report.as_dicts() == evaluate(evidence, radii=EvaluateSettings().radii_at(sigma), alpha=0.001).as_dicts()


def test_errors_grow_and_accuracy_falls_with_the_radius_on_all_inputs(evidence):
    rows = evaluate(evidence, radii=RADII, alpha=0.01, population="all").rows
    assert all(row.inputs == 120 for row in rows)
    assert np.diff([row.certified_ece for row in rows]).min() >= -1e-12
    assert np.diff([row.certified_brier for row in rows]).min() >= -1e-12
    assert np.diff([row.certified_accuracy for row in rows]).max() <= 0
    assert all(row.certified_accuracy <= row.accuracy == evidence.correct.mean() for row in rows)


def test_nobody_certified_is_said_with_nan_or_counted_as_free(evidence):
    alone = evaluate(evidence, radii=[5.0], alpha=0.01)
    assert alone.rows[0].inputs == 0
    assert np.isnan(alone.rows[0].certified_ece)
    assert alone.worst == (None,)
    whole = evaluate(evidence, radii=[5.0], alpha=0.01, population="all").rows[0]
    assert (whole.certified_ece, whole.certified_brier) == (1.0, 1.0)


def test_report_is_plain_data(evidence):
    report = evaluate(evidence, radii=RADII, alpha=0.01, method="cdf")
    assert (len(report), report.method, report.inputs) == (5, "cdf", 120)
    assert set(report.as_dicts()[0]) >= {"radius", "certified_ece", "ece"}
    assert 0 < report.average_certified_radius < 1


def test_recalibrated_certificates_give_the_rows(evidence):
    halve = IsotonicMap([0.0, 1.0], [0.0, 0.5])
    plain, mapped = (evaluate(evidence, radii=RADII, alpha=0.01, recalibration=g) for g in (None, halve))
    for before, after, bounds in zip(plain.rows[:3], mapped.rows, mapped.bounds, strict=False):
        kept = bounds.certified
        parts = bounds.lower[kept], bounds.upper[kept], bounds.correct[kept]
        assert bounds.upper.max() <= 0.5
        assert after.certified_ece == certified_calibration_error(*parts).value
        assert (after.certified, after.certified_accuracy) == (before.certified, before.certified_accuracy)
        assert after.mean_width == pytest.approx(before.mean_width / 2)


def test_bad_input(evidence):
    with pytest.raises(InputError, match="Expected `population` to be one of 'certified', 'all', but got 'some'"):
        evaluate(evidence, radii=[0.1], alpha=0.01, population="some")
    with pytest.raises(InputError, match="Expected `radii` to be finite and ≥ 0, but got -1"):
        evaluate(evidence, radii=[-1], alpha=0.01)


@pytest.mark.parametrize("population", ["certified", "all"])
def test_joint_values_allow_for_failures_among_all_inputs(evidence, population):
    report = evaluate(evidence, radii=RADII[:4], alpha=0.01, delta=0.02, population=population)
    assert report.failures == allowed_failures(120, alpha=0.01, delta=0.02) > 0
    for row, own in zip(report, report.bounds, strict=True):
        kept = own.certified
        free = {"population": population, "failures": report.failures}
        assert row.joint_ece == jointly_certified_calibration_error(own, **free).value
        assert row.joint_brier == jointly_certified_brier_score(own, **free).value
        assert row.joint_accuracy == max((kept & own.correct).sum() - report.failures, 0) / 120
        assert row.joint_ece >= row.certified_ece
        assert row.joint_brier >= row.certified_brier - 1e-12
        assert row.joint_accuracy <= row.certified_accuracy


def test_two_separate_certificates_may_fail_twice_as_often(evidence):
    report = evaluate(evidence, radii=[0.1], alpha=0.01, method="cdf", split_alpha=False)
    assert report.failures == allowed_failures(120, alpha=0.02, delta=0.001)
    assert evaluate(evidence, radii=[0.1], alpha=0.5, split_alpha=False).failures == 120


def test_the_runner_up_is_bounded_as_asked(evidence):
    reports = {rule: evaluate(evidence, radii=[0.1], alpha=0.01, runner_up=rule) for rule in RunnerUp}
    for rule, report in reports.items():
        bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01, runner_up=rule)
        np.testing.assert_array_equal(report.bounds[0].certified_radius, bounds.certified_radius)
        assert report.terms == bounds.terms == {**report.terms, "runner_up": rule}
    plain, own = (report.bounds[0].certified_radius for report in reports.values())
    assert not np.array_equal(plain, own, equal_nan=True)
    with pytest.raises(InputError, match="Expected `runner_up` to be one of 'complement', 'bounded'"):
        evaluate(evidence, radii=[0.1], alpha=0.01, runner_up="both")


def test_approximations_lie_below_the_exact_value(evidence):
    row = evaluate(evidence, radii=[0.2], alpha=0.01, approximations=["brier", "dece"]).rows[0]
    assert set(row.approximations) == {"brier", "dece"}
    assert all(value <= row.certified_ece for value in row.approximations.values())
    assert row.as_dict()["approximate_dece"] == row.approximations["dece"]


@pytest.mark.parametrize("split_alpha", [True, False])
def test_the_population_bound_counts_every_input(evidence, split_alpha):
    for population in ("certified", "all"):
        report = evaluate(evidence, radii=RADII, alpha=0.01, delta=0.02, population=population, split_alpha=split_alpha)
        for row, own in zip(report, report.bounds, strict=True):
            kept = own.certified
            parts = own.lower[kept], own.upper[kept], own.correct[kept]
            level = 0.01 if split_alpha else 0.02
            delta = 0.02 * own.delta_share  # the rest is for other looks at the draws
            bound = population_bound(*parts, alpha=level, delta=delta, uncertified=int((~kept).sum()))
            assert row.population_ece == population_bound(own, delta=0.02).value
            assert row.population_ece <= bound.value  # of inputs of which nothing is known
    assert evaluate(evidence, radii=[0.1], alpha=0.6, split_alpha=False).rows[0].population_ece == 1.0


def test_radii_may_be_anything_that_gives_them(evidence):
    known = [row.radius for row in evaluate(evidence, radii=[0.0, 0.1])]
    assert [row.radius for row in evaluate(evidence, radii=(one / 10 for one in range(2)))] == known


def test_levels_may_be_numbers_of_any_kind(evidence):
    """NumPy writes its own numbers as np.float64(…), which no sentence may say."""
    report = evaluate(evidence, radii=np.array([0.1]), alpha=np.float64(0.01), delta=np.float64(0.02))
    assert guarantee(report, 0).startswith("With probability at least 98 % over")
    assert "fail with probability at most 0.01;" in explanation(report, 0)
    assert "np." not in " ".join([*caveats(report), repr(report)])


def test_the_level_of_bounds_is_that_of_both_certificates(evidence):
    for alpha, split_alpha, level in ((0.01, True, 0.01), (0.01, False, 0.02), (0.7, False, 1.0)):
        bounds = confidence_bounds(evidence, radius=0.1, alpha=alpha, split_alpha=split_alpha)
        assert bounds.level == level
        wanted = 120 if level == 1 else allowed_failures(120, alpha=level, delta=0.05)
        assert allowed_failures(bounds, delta=0.05) == wanted
    with pytest.raises(InputError, match="Expected `alpha` to be left out with bounds, which bring their own"):
        allowed_failures(bounds, alpha=0.01, delta=0.05)


def test_rows_are_found_by_position_and_by_radius(evidence):
    report = evaluate(evidence, radii=RADII, alpha=0.01)
    assert report[1] is report.at(0.1) is report.rows[1]
    assert report[-1].radius == 5.0
    with pytest.raises(InputError, match=r"Expected `radius` to be one of 0, 0.1, 0.3, 0.6, 5, but got 0.25"):
        report.at(0.25)
    with pytest.raises(IndexError, match="one of 5 rows, but got 5"):
        report[5]


def test_rows_as_a_frame_and_in_files(evidence, tmp_path):
    report = evaluate(evidence, radii=[0.1, 5.0], alpha=0.01)
    frame = report.to_frame()
    assert list(frame.columns) == list(report.as_dicts()[0])
    assert frame["certified_ece"][0] == report[0].certified_ece
    for name, read in (("a.csv", pd.read_csv), ("a.json", pd.read_json), ("a.parquet", pd.read_parquet)):
        back = read(report.save(tmp_path / name))
        np.testing.assert_allclose(back.astype(float), frame.astype(float), rtol=1e-9)
    with pytest.raises(InputError, match=r"Expected `path` to end in .csv, .json or .parquet, but got 'a.txt'"):
        report.save(tmp_path / "a.txt")


def test_only_the_metrics_asked_for_are_computed(evidence, monkeypatch):
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    whole = row_at(bounds)
    monkeypatch.setattr(rows, "jointly_certified_calibration_error", None)
    row = row_at(bounds, metrics=("certified_ece", "brier"))
    assert (row.certified_ece, row.brier) == (whole.certified_ece, whole.brier)
    assert row.worst.value == row.certified_ece
    assert np.isnan([row.joint_ece, row.ece, row.inputs]).all()
    with pytest.raises(InputError, match="Expected `metrics` to be one of 'radius', 'inputs'"):
        row_at(bounds, metrics=("cce",))


def test_a_map_shows_the_row_without_it(evidence, rng):
    evidence = replace(evidence, label=np.where(rng.random(120) < 0.8, evidence.selected, 1 - evidence.selected))
    halve = IsotonicMap([0.0, 1.0], [0.0, 0.5])
    plain, mapped = (evaluate(evidence, radii=[0.1], alpha=0.01, recalibration=g)[0] for g in (None, halve))
    values = mapped.as_dict()
    for name in ("ece", "certified_ece", "joint_ece", "brier", "certified_brier", "joint_brier"):
        assert values[f"before_{name}"] == getattr(plain, name)
    assert values["auroc"] == values["before_auroc"]
    assert (values["levels"], values["refinement"]) == (mapped.levels, mapped.refinement)
    assert "auroc" not in plain.as_dict()
    with pytest.raises(InputError, match="Expected `recalibration` to be a map from `recalibrate`, but got str"):
        evaluate(evidence, radii=[0.1], alpha=0.01, recalibration="isotonic")
