"""Bounds on confidences: what they carry along, and what they refuse."""

import dataclasses
import math

import numpy as np
import pytest

from certcal.certificates import Method, certify_radii, confidence_bounds, confidence_bounds_at
from certcal.errors import InputError
from smoothing_oracles import (
    evidence,
    evidence_from_scores,
    random_evidence,
)

METHODS = tuple(Method)


def test_intervals_carry_the_prediction_and_its_certificate(rng):
    found = dataclasses.replace(random_evidence(rng, inputs=200, draws=1000), label=rng.integers(0, 2, 200))
    for rule in ("complement", "bounded"):
        c = confidence_bounds(found, radius=0.2, alpha=0.02, runner_up=rule)
        radii = certify_radii(found, alpha=0.01, runner_up=rule)
        np.testing.assert_array_equal(c.certified_radius, radii.radius)
        np.testing.assert_array_equal(c.certified, radii.radius >= 0.2)
        assert np.isnan(c.certified_radius).any()
        assert not c.certified[np.isnan(c.certified_radius)].any()
        np.testing.assert_array_equal(c.correct, found.label == 1)
        np.testing.assert_array_equal(c.predicted, found.selected)
        np.testing.assert_allclose(c.confidence, found.score_sum / 1000)
        assert c.radius == 0.2
        assert len(c) == 200


def test_saturated_scores_stay_within_one():
    scores = np.ones((1, 1000))
    for method in METHODS:
        c = confidence_bounds(evidence_from_scores(scores), radius=0.5, alpha=0.001, method=method)
        assert c.upper[0] == 1.0
        assert c.confidence[0] == 1.0
        assert 0.5 < c.lower[0] < 1.0


def _broken(**changes):
    return dataclasses.replace(evidence(np.eye(256, dtype=np.int64)[:3] * 10), **changes)


OPTIONS = {"radius": 0.1, "alpha": 0.05}
BAD_HEADER = dataclasses.replace(_broken().header, sigma=0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: confidence_bounds(e, radius=0.1, alpha=1.0), "Expected `alpha` to lie in the open interval (0, 1)"),
        (
            lambda e: confidence_bounds(e, radius=-0.1, alpha=0.1),
            "Expected `radius` to be finite and ≥ 0, but got -0.1.",
        ),
        (lambda e: confidence_bounds(e, radius=math.nan, alpha=0.1), "Expected `radius` to be finite and ≥ 0"),
        (lambda e: confidence_bounds_at(e, radii=[0.1, -1.0], alpha=0.1), "Expected `radii` to be finite and ≥ 0"),
        (lambda e: confidence_bounds(e, method="best", **OPTIONS), "Expected `method` to be one of 'standard', "),
        (lambda e: confidence_bounds(e, runner_up="x", **OPTIONS), "Expected `runner_up` to be one of 'complement', "),
        (
            lambda e: confidence_bounds(_broken(header=BAD_HEADER), **OPTIONS),
            "Expected `sigma` to be a finite number > 0",
        ),
        (
            lambda e: confidence_bounds(_broken(votes=e.votes + 1), **OPTIONS),
            "Expected `evidence.votes` to add up to `evidence.draws`, but got otherwise at row 0.",
        ),
        (
            lambda e: confidence_bounds(_broken(votes=e.votes[:, :1]), **OPTIONS),
            "Expected `evidence.votes` to have shape (3, 2), but got (3, 1).",
        ),
        (
            lambda e: confidence_bounds(_broken(histogram=e.histogram[::-1]), **OPTIONS),
            "Expected `evidence.score_sum` to agree with `evidence.histogram`, but got otherwise at row 0.",
        ),
        (
            lambda e: confidence_bounds(_broken(score_sum=e.score_sum * math.nan), **OPTIONS),
            "Expected `evidence.score_sum` to agree with `evidence.histogram`, but got otherwise at row 0.",
        ),
        (
            lambda e: confidence_bounds(_broken(draws=e.draws * 0), **OPTIONS),
            "Expected `evidence.draws` to be at least 1, but got otherwise at row 0.",
        ),
        (
            lambda e: confidence_bounds(_broken(selected=e.selected + 1), **OPTIONS),
            "Expected `evidence.selected` to be a class from 0 to 1, but got otherwise at row 0.",
        ),
    ],
)
def test_bad_input_is_answered_in_one_sentence(call, message):
    with pytest.raises(InputError) as caught:
        call(_broken())
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
