"""Certificates from elsewhere go through the same evaluation, and nothing that a claim needs may stay unsaid."""

from dataclasses import replace

import numpy as np
import pytest

from certcal import InputError, allowed_failures, certified_calibration_error, confidence_bounds, evaluate
from certcal.certificates import intervals_from_lipschitz, intervals_from_table, intervals_from_votes
from certcal.report import explanation, guarantee
from smoothing_oracles import random_evidence


@pytest.fixture
def proven(rng):
    logits = rng.standard_normal((300, 4)) * 4
    labels = np.where(rng.random(300) < 0.8, logits.argmax(axis=1), rng.integers(0, 4, 300))
    return [intervals_from_lipschitz(logits, labels, constant=1.0, radius=radius) for radius in (0.0, 0.5, 1.0)]


def test_proven_bounds_have_no_failures_and_no_probability(proven):
    report = evaluate(proven)
    assert (report.failures, report.level, report.evidence) == (0, 0.0, None)
    assert allowed_failures(proven[0], delta=0.001) == 0
    for own, row in zip(proven, report, strict=True):
        assert row.joint_ece == row.certified_ece == certified_calibration_error(own).value
        assert row.joint_brier == pytest.approx(row.certified_brier, abs=1e-12)
        assert row.joint_accuracy == row.certified_accuracy == float((own.certified & own.correct).mean())
    said = guarantee(report, 2)
    assert said.startswith("Under any ℓ2 perturbation of each input by up to 1, the model's expected calibration error")
    assert "robability" not in said + explanation(report, 2)
    assert "smoothed" not in said


@pytest.mark.parametrize(
    ("norm", "domain", "said"),
    [
        ("linf", "box", "Under any ℓ∞ perturbation of each input by up to 2 that stays in [0, 1], the model's "),
        ("l1", "everywhere", "Under any ℓ1 perturbation of each input by up to 2, the model's "),
        ("patch", "everywhere", "Under any change of a square of each input, of side up to 2 pixels, the model's "),
        ("declared", "everywhere", "Under any perturbation of each input of size up to 2, as the bounds declare it, "),
    ],
)
def test_the_sentence_names_the_norm(norm, domain, said):
    votes = intervals_from_votes([[9, 1], [8, 2], [3, 7]], [0, 1, 1], changed=1, radius=2, norm=norm, domain=domain)
    assert guarantee(evaluate(votes), 0).startswith(said)


def test_bounds_with_a_level_allow_for_failures(proven):
    some = [replace(own, alpha=0.01) for own in proven]
    report = evaluate(some, delta=0.05)
    assert report.failures == allowed_failures(300, alpha=0.01, delta=0.05) > 0
    assert report[1].joint_ece > report[1].certified_ece
    assert guarantee(report, 1).startswith("With probability at least 95 % over the chance in the certificates, under ")


def test_evidence_and_the_bounds_made_from_it_give_the_same_rows(rng):
    evidence = random_evidence(rng, inputs=60, draws=2000)
    bounds = [confidence_bounds(evidence, radius=radius, alpha=0.01) for radius in (0.0, 0.1)]
    whole, given = evaluate(evidence, radii=[0.0, 0.1], alpha=0.01), evaluate(bounds)
    assert whole.as_dicts() == given.as_dicts()
    assert given.average_certified_radius == whole.average_certified_radius


def test_what_is_unsaid_or_does_not_fit_is_asked_for(proven, rng):
    table = {"label": [0, 1], "predicted": [0, 0], "lower": [0.6, 0.2], "upper": [0.9, 0.7], "certified": [1, 0]}
    known = table | {"confidence": [0.7, 0.5]}
    for bounds, options, told in (
        (intervals_from_table(known, radius=1), {}, "Expected `alpha` to be stated: 0 if the bounds are proven"),
        (intervals_from_table(known, alpha=0), {}, "Expected `radius` to be given for bounds that do not state it"),
        (intervals_from_table(table, alpha=0, radius=1), {}, "Expected `confidence` to be known at every input"),
        (proven, {"alpha": 0.1}, "Expected `alpha` to be left out, or be 0, which the bounds state, but got 0.1"),
        (proven, {"radii": [0.25]}, r"Expected `radii` to be some of those that the bounds have \(0, 0.5, 1\)"),
        ([proven[0], proven[1].select(np.arange(5))], {}, "Expected `bounds` to have the same index at every radius"),
        ([proven[0], replace(proven[1], norm="linf")], {}, "Expected `bounds` to have one norm, but got l2 and linf"),
        ("nothing", {}, "Expected `evidence` to be evidence, or certificates from `confidence_bounds` or "),
        (random_evidence(rng, inputs=3, draws=10), {"alpha": 0, "radii": 0}, "Expected `alpha` to lie in the open "),
    ):
        with pytest.raises(InputError, match=told):
            evaluate(bounds, **options)
    assert evaluate(intervals_from_table(known, radius=1), alpha=0).level == 0
    assert [row.radius for row in evaluate(proven, radii=[1.0, 0.0])] == [1.0, 0.0]
