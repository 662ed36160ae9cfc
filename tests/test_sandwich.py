"""The sandwich: clean ≤ attacked ≤ certified, and an unsound certificate does not get away with it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from attack_models import probit_problem, random_model, trained_on_digits
from certcal import (
    InputError,
    allowed_failures,
    certified_calibration_error,
    collect_evidence,
    evaluate,
    expected_calibration_error,
)
from certcal.attacks import Adversary, SmoothedEstimate, estimate_smoothed, prepare_sandwich
from certcal.attacks import sandwich as sandwich_room
from certcal.attacks.refutation import contradictions, most_the_estimates_may_show
from certcal.certificates import confidence_bounds_at
from certcal.data import load_dataset

SIGMA, RADII = 0.5, (0.0, 0.15, 0.4)
QUICK = {"draws": 500, "attack_draws": 32, "steps": 5, "n_bins": 10}


@pytest.fixture(scope="module")
def probit():
    """A smoothed model whose confidences range as far as a certificate allows: the hardest case for a bound."""
    model, x, y = probit_problem(11, 200, features=12, spread=1.5)
    evidence = collect_evidence(model, (x, y), sigma=SIGMA, n=4000, n0=100, progress=False)
    return model, (x, y), evidence


def test_attacked_errors_never_contradict_sound_certificates(probit):
    model, data, evidence = probit
    found = prepare_sandwich(model, data, evidence, radii=RADII, alpha=1e-6, adversaries=tuple(Adversary), **QUICK)
    assert len(found) == len(RADII) * len(Adversary)
    assert found.holds
    for row in found:
        assert row.attacked_ece <= row.limit_ece
        assert row.attacked_brier <= row.limit_brier
        assert row.certified_ece <= row.limit_ece
        assert row.certified_brier <= row.limit_brier
        assert (row.contradictions, row.allowed) == (0, 0)


def test_the_sandwich_is_in_order_and_tight(probit):
    model, data, evidence = probit
    found = prepare_sandwich(model, data, evidence, radii=RADII, alpha=0.01, adversaries="reach", box=False, **QUICK)
    for row in found:
        assert row.clean_ece <= row.attacked_ece <= row.certified_ece
        assert row.clean_brier <= row.attacked_brier + 0.01
    still, _, far = found.rows
    assert still.attacked_ece == pytest.approx(still.clean_ece, abs=1e-9)  # the same inputs under the same noise
    (bounds,) = confidence_bounds_at(evidence, radii=RADII[-1], alpha=0.01)
    kept = bounds.certified
    ends = (model.smoothed(data[0], bounds.predicted, sigma=SIGMA, move=move)[kept] for move in (-0.4, 0.4))
    truth = certified_calibration_error(*ends, bounds.correct[kept], n_bins=10).value
    assert truth < far.certified_ece
    assert far.attacked_ece > far.clean_ece + 0.8 * (truth - far.clean_ece)


def shrunken(share):
    """Certificates that claim only a part of the width they can prove."""

    def bounds_at(*args, **options):
        return [
            replace(
                own,
                lower=own.confidence - share * (own.confidence - own.lower),
                upper=own.confidence + share * (own.upper - own.confidence),
            )
            for own in confidence_bounds_at(*args, **options)
        ]

    return bounds_at


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_an_unsound_certificate_is_exposed(probit, monkeypatch, share):
    model, data, evidence = probit
    monkeypatch.setattr(sandwich_room, "confidence_bounds_at", shrunken(share))
    options = {"radii": RADII[1:], "alpha": 1e-6, "adversaries": "reach", "box": False, **QUICK}
    found = prepare_sandwich(model, data, evidence, **options | {"draws": 2000})
    assert not found.holds
    far = found.rows[-1]
    assert far.contradictions > 20
    # With the widths gone altogether the errors of the whole set give it away as well.
    assert share > 0 or far.attacked_ece > far.limit_ece
    assert share > 0 or far.attacked_brier > far.limit_brier


def test_a_certificate_of_the_wrong_class_is_exposed(probit, monkeypatch):
    model, data, evidence = probit

    def wrong(*args, **options):
        wide = {"lower": np.zeros(200), "upper": np.ones(200), "certified": np.ones(200, dtype=bool)}
        return [replace(own, predicted=1 - own.predicted, **wide) for own in confidence_bounds_at(*args, **options)]

    monkeypatch.setattr(sandwich_room, "confidence_bounds_at", wrong)
    swapped = replace(evidence, selected=1 - evidence.selected)
    found = prepare_sandwich(model, data, swapped, radii=0.0, alpha=1e-6, adversaries="brier", **QUICK)
    assert found.rows[0].contradictions > 60


def test_rows_are_what_the_functions_give(probit):
    model, data, evidence = probit
    found = prepare_sandwich(model, data, evidence, radii=[0.1], alpha=0.01, adversaries=["brier", "reach"], **QUICK)
    (bounds,) = confidence_bounds_at(evidence, radii=[0.1], alpha=0.01)
    kept = bounds.certified
    worst = certified_calibration_error(bounds.lower[kept], bounds.upper[kept], bounds.correct[kept], n_bins=10)
    assert [row.adversary for row in found] == ["brier", "reach"]
    for row, before, after in zip(found.rows, found.before, found.after, strict=True):
        assert row.inputs == kept.sum()
        assert row.accuracy == pytest.approx(bounds.correct[kept].mean())
        assert row.certified_ece == worst.value
        assert before.error == pytest.approx(row.clean_ece, abs=1e-12)
        assert after.error == pytest.approx(row.attacked_ece, abs=1e-12)
    assert len(found.strongest()) == 1
    assert found.strongest()[0].attacked_ece == max(row.attacked_ece for row in found)
    assert set(found.as_dicts()[0]) >= {"radius", "attacked_ece", "certified_ece", "holds"}


def test_the_papers_reading_of_alpha_allows_for_twice_the_failures(probit):
    model, data, evidence = probit
    options = {"radii": [0.1], "alpha": 0.01, "adversaries": "brier", "method": "cdf", **QUICK}
    (own,) = prepare_sandwich(model, data, evidence, joint=False, batch_size=64, **options)
    (row,) = evaluate(evidence, radii=[0.1], alpha=0.01, method="cdf", joint=False, n_bins=10)
    assert own.certified_ece == row.certified_ece
    assert own.certified_brier == pytest.approx(row.certified_brier, abs=1e-12)
    assert own.allowed == allowed_failures(200, alpha=0.02, delta=0.0005)
    (strict,) = prepare_sandwich(model, data, evidence, joint=True, **options)
    assert strict.allowed == allowed_failures(200, alpha=0.01, delta=0.0005) < own.allowed
    assert strict.attacked_ece == pytest.approx(own.attacked_ece, abs=0.05)


def test_nobody_certified_gives_an_empty_row(probit):
    model, data, evidence = probit
    found = prepare_sandwich(model, data, evidence, radii=[9.0], alpha=0.01, **QUICK)
    assert all(row.inputs == 0 and math.isnan(row.attacked_ece) and row.holds for row in found)
    assert found.before == (None, None)
    assert len(found.strongest()) == 1


def test_on_digits_with_a_network():
    model = trained_on_digits(sigma=0.25)
    data = load_dataset("digits", split="test", limit=30)
    evidence = collect_evidence(model, data, sigma=0.25, n=1000, n0=100, progress=False)
    found = prepare_sandwich(
        model, data, evidence, radii=[0.0, 0.2], alpha=0.001, adversaries="reach", draws=250, steps=4
    )
    assert found.holds
    for row in found:
        assert row.clean_ece - 1e-9 <= row.attacked_ece <= row.certified_ece
    assert found.rows[1].attacked_ece > found.rows[1].clean_ece + 0.02


def estimates(rng, truth, draws, *, votes=None):
    """Fresh estimates of scores that are 0 or 1: the widest that chance can make them."""
    hits = rng.binomial(draws, truth)
    table = np.column_stack([draws - hits, hits]) if votes is None else votes
    return SmoothedEstimate(np.ones(len(truth), dtype=np.int64), draws, hits.astype(float), hits.astype(float), table)


def test_chance_contradicts_sound_certificates_no_more_often_than_stated(rng):
    # The narrowest sound certificate there is: the truth itself, as a point. Classes are tied or barely ahead.
    level, runs, truth = 0.05, 300, rng.uniform(0.5, 0.9, 60)
    correct = rng.random(60) < truth
    outside = limits_missed = 0
    for _ in range(runs):
        seen = estimates(rng, truth, 400)
        outside += int(contradictions(seen, truth, truth, level=level).sum())
        options = {"level": level / 60, "allowed": 0, "n_bins": 10, "edges": None}
        ece, brier = most_the_estimates_may_show(seen, truth, truth, correct, **options)
        over = expected_calibration_error(seen.confidence, correct, n_bins=10) > ece
        limits_missed += over or np.square(seen.confidence - correct).mean() > brier
    assert outside <= stats.binom.ppf(1 - 1e-6, runs * 60, level)
    assert limits_missed <= stats.binom.ppf(1 - 1e-6, runs, level)


def test_a_tie_of_two_classes_is_no_contradiction(rng):
    # As many votes for the certified class as for another, in the long run; a third takes the rest.
    level, seen = 0.1, 0
    for _ in range(40):
        votes = rng.multinomial(300, [0.4, 0.4, 0.2], size=50)
        scores = np.full(50, 150.0)
        own = SmoothedEstimate(np.zeros(50, dtype=np.int64), 300, scores, scores / 2, votes)
        seen += int(contradictions(own, np.zeros(50), np.ones(50), level=level).sum())
    assert 0 < seen <= stats.binom.ppf(1 - 1e-6, 2000, level / 2)


def test_limits_cover_estimates_at_the_far_end_of_their_bounds(rng):
    # Truth on the upper bound, so that estimates lie outside the bounds half the time; the widened ones hold them.
    truth = rng.uniform(0.2, 0.8, 80)
    lower, correct = truth - 0.15, rng.random(80) < 0.5
    for _ in range(50):
        seen = estimates(rng, truth, 300, votes=np.tile([100, 200], (80, 1)))
        options = {"level": 1e-6, "allowed": 0, "n_bins": 10, "edges": None}
        ece, brier = most_the_estimates_may_show(seen, lower, truth, correct, **options)
        assert expected_calibration_error(seen.confidence, correct, n_bins=10) <= ece
        assert np.square(seen.confidence - correct).mean() <= brier
        assert not contradictions(seen, lower, truth, level=1e-6).any()
    assert contradictions(seen, truth - 0.9, truth - 0.6, level=1e-6).all()
    some = most_the_estimates_may_show(seen, lower, truth, correct, **options | {"allowed": 4})
    assert some == pytest.approx((min(ece + 0.1, 1.0), min(brier + 0.05, 1.0)))


def test_bad_input(probit):
    model, (x, y), evidence = probit
    options = {"radii": [0.1], "alpha": 0.01} | QUICK
    with pytest.raises(InputError, match="Expected `model` to be the one the evidence was drawn from"):
        prepare_sandwich(random_model(0), (x, y), evidence, **options)
    with pytest.raises(InputError, match="Expected `data` to hold the inputs of the evidence, but got another input"):
        prepare_sandwich(model, (x.flip(0), y), evidence, **options)
    with pytest.raises(InputError, match="but got another input, or none, at 100"):
        prepare_sandwich(model, (x[:100], y[:100]), evidence, **options)
    with pytest.raises(InputError, match="Expected `adversaries` to be one of 'smoothadv'"):
        prepare_sandwich(model, (x, y), evidence, adversaries="pgd", **options)
    with pytest.raises(InputError, match="Expected `delta` to lie in the open interval"):
        prepare_sandwich(model, (x, y), evidence, delta=0.0, **options)
    other = replace(evidence, header=replace(evidence.header, outputs="probabilities"))
    with pytest.raises(InputError, match="Expected `evidence` to be of a model that gives logits"):
        prepare_sandwich(model, (x, y), other, **options)


def test_a_subset_of_the_evidence_is_judged_under_the_noise_of_its_positions(probit):
    model, (x, y), evidence = probit
    part = evidence.select(np.arange(40, 80))
    own = (x[40:80], y[40:80], torch.arange(40, 80))
    rows = [
        prepare_sandwich(model, data, part, radii=[0.0], alpha=0.01, adversaries="brier", **QUICK).rows[0]
        for data in ((x, y), own)
    ]
    assert rows[0] == rows[1]
    (bounds,) = confidence_bounds_at(part, radii=[0.0], alpha=0.01)
    kept = np.flatnonzero(bounds.certified) + 40
    seen = estimate_smoothed(model, x[kept], evidence.selected[kept], sigma=SIGMA, draws=500, indices=kept)
    assert rows[0].clean_brier == pytest.approx(np.square(seen.confidence - evidence.correct[kept]).mean(), abs=1e-7)
