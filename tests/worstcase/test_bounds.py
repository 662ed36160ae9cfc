"""Bounds in place of lower, upper and correct: what they count, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from certcal import InputError, confidence_bounds, recalibrate
from certcal.worstcase import (
    WorstCaseProblem,
    allowed_failures,
    approximate_certified_calibration_error,
    certified_brier_score,
    certified_calibration_error,
    certified_log_score,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
    population_bound,
)
from smoothing_oracles import random_evidence

SCORES = (certified_calibration_error, certified_brier_score, certified_log_score)


@pytest.fixture
def bounds(rng):
    evidence = random_evidence(rng, inputs=150, draws=500)
    some_wrong = np.where(rng.random(150) < 0.8, evidence.selected, 1 - evidence.selected)
    own = confidence_bounds(replace(evidence, label=some_wrong), radius=0.2, alpha=0.01)
    assert 0 < own.certified.sum() < 150
    return own


@pytest.fixture
def parts(bounds):
    return tuple(getattr(bounds, name)[bounds.certified] for name in ("lower", "upper", "correct"))


def test_certified_inputs_count_by_default(bounds, parts):
    for score in SCORES:
        assert score(bounds).value == score(*parts).value
    for score in (jointly_certified_calibration_error, jointly_certified_brier_score):
        assert score(bounds, failures=2).value == score(*parts, failures=2).value
    approximate = approximate_certified_calibration_error(bounds, method="brier")
    assert approximate.value == approximate_certified_calibration_error(*parts, method="brier").value
    np.testing.assert_array_equal(recalibrate(bounds, clean_weight=0.0).y, recalibrate(*parts).y)
    assert bounds.worst_case(n_bins=7).value == certified_calibration_error(*parts, n_bins=7).value


def test_all_inputs_count_the_others_as_free(bounds, parts):
    free, known = 150 - len(parts[0]), bounds
    bounds = replace(bounds, other=None)  # then nothing is known of them
    for score in (certified_calibration_error, jointly_certified_calibration_error, jointly_certified_brier_score):
        more = {} if score is certified_calibration_error else {"failures": 1}
        whole = score(bounds, population="all", **more)
        assert whole.value == score(*parts, uncertified=free, **more).value
        assert whole.free.count == free
        assert score(known, population="all", **more).value < whole.value
    bound = population_bound(bounds, delta=0.05)
    share = bounds.delta_share * 0.05  # what this look at the draws may spend
    assert bound.value == population_bound(*parts, alpha=0.01, delta=share, uncertified=free).value


def test_a_free_input_is_wrong_at_confidence_one(bounds, parts):
    free, alone = 150 - len(parts[0]), certified_brier_score(*parts).value
    assert certified_brier_score(bounds, population="all").value < (alone * len(parts[0]) + free) / 150
    bounds = replace(bounds, other=None)  # nothing is known of the others
    whole = certified_brier_score(bounds, population="all")
    assert whole.value >= (alone * len(parts[0]) + free) / 150
    assert whole.value == pytest.approx((alone * len(parts[0]) + free) / 150, rel=1e-14)
    assert certified_log_score(bounds, population="all").value == np.inf
    nobody = bounds.select(~bounds.certified)
    assert certified_brier_score(nobody, population="all").value == 1.0
    assert WorstCaseProblem.of(nobody, population="all").size == free


def test_bad_input(bounds, parts):
    lower, upper, correct = parts
    refused = [
        (
            lambda: certified_calibration_error(bounds, upper, correct),
            "`upper` to be left out, and `correct` too",
        ),
        (lambda: certified_calibration_error(lower, upper), "Expected `correct` to be given with `lower`"),
        (lambda: certified_brier_score(lower), "Expected `upper` to be given with `lower`, or bounds in place"),
        (lambda: certified_brier_score(*parts, population="all"), "Expected `population` to come with bounds"),
        (
            lambda: certified_brier_score(bounds, population="some"),
            "`population` to be one of 'certified', 'all'",
        ),
        (
            lambda: certified_calibration_error(bounds, uncertified=3),
            "`uncertified` to be left out with bounds",
        ),
        (lambda: population_bound(bounds, alpha=0.1, delta=0.1), "Expected `alpha` to be left out with bounds"),
        (
            lambda: population_bound(*parts, delta=0.1),
            r"`alpha` to lie in the open interval \(0, 1\), but got None",
        ),
        (
            lambda: allowed_failures(20, delta=0.1),
            r"`alpha` to lie in the open interval \(0, 1\), but got None",
        ),
        (lambda: recalibrate(bounds, confidence=lower), "Expected `upper` to be left out, with all other arrays"),
        (
            lambda: certified_brier_score(bounds.select(~bounds.certified)),
            "Expected `bounds` to hold an input that is certified at R = 0.2, but got none",
        ),
    ]
    for ask, message in refused:
        with pytest.raises(InputError, match=message):
            ask()
