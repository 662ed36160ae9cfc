"""The sandwich: clean ≤ attacked ≤ certified, and an unsound certificate does not get away with it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attack_models import probit_problem, random_model, trained_on_digits
from certcal import (
    InputError,
    allowed_failures,
    certified_calibration_error,
    collect_evidence,
    evaluate,
)
from certcal.attacks import Adversary, attack_certificates, estimate_smoothed
from certcal.attacks import sandwich as sandwich_room
from certcal.attacks.refutation import (
    Finding,
    Levels,
)
from certcal.certificates import confidence_bounds_at
from certcal.data import load_dataset
from certcal.models import Tempered

SIGMA, RADII = 0.5, (0.0, 0.15, 0.4)
QUICK = {"draws": 500, "attack_draws": 32, "steps": 5, "n_bins": 10}


def drawn(inputs, n):
    """A smoothed model whose confidences range as far as a certificate allows: the hardest case for a bound."""
    model, x, y = probit_problem(11, inputs, features=12, spread=1.5)
    evidence = collect_evidence(model, (x, y), sigma=SIGMA, n=n, n0=100, progress=False)
    return model, (x, y), evidence


@pytest.fixture(scope="module")
def probit():
    return drawn(120, 1500)


@pytest.mark.slow
def test_attacked_errors_never_contradict_sound_certificates(probit):
    model, data, evidence = probit
    found = attack_certificates(model, data, evidence, radii=RADII, alpha=1e-6, adversaries=tuple(Adversary), **QUICK)
    assert len(found) == len(RADII) * len(Adversary)
    assert found.holds
    for row in found:
        assert row.attacked_ece <= row.limit_ece
        assert row.attacked_brier <= row.limit_brier
        assert row.certified_ece <= row.limit_ece
        assert row.certified_brier <= row.limit_brier
        assert (row.contradictions, row.allowed) == (0, 0)
        assert row.excess <= 0


def test_at_another_temperature_the_tempered_model_is_attacked():
    """Certificates at a temperature say nothing of the model at another."""
    model, x, y = probit_problem(11, 12, features=12, spread=1.5)
    drawn = collect_evidence(model, (x, y), sigma=SIGMA, n=500, temperatures=(1.0, 0.3), progress=False)
    options = {"radii": [0.15], "alpha": 0.01, "adversaries": "reach", **QUICK}
    attack_certificates(Tempered(model, 0.3), (x, y), drawn.at_temperature(0.3), **options)
    for other in (model, Tempered(model, 0.5)):
        with pytest.raises(InputError, match=r"be the one the evidence was drawn from, as Tempered\(model, 0.3\)"):
            attack_certificates(other, (x, y), drawn.at_temperature(0.3), **options)


def test_the_sandwich_is_in_order_and_tight(probit):
    model, data, evidence = probit
    options = {"radii": RADII[::2], "alpha": 0.01, "adversaries": "reach", "box": False, **QUICK}
    found = attack_certificates(model, data, evidence, **options)
    for row in found:
        assert row.clean_ece <= row.attacked_ece <= row.certified_ece
        assert row.clean_brier <= row.attacked_brier + 0.01
    still, far = found.rows
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


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.4, 0.5, 0.6, 0.7])
def test_an_unsound_certificate_is_exposed(monkeypatch, share):
    # From a share of about 3/4 on, what these certificates claim is true: they were wider than they had to be.
    model, data, evidence = drawn(200, 4000)
    monkeypatch.setattr(sandwich_room, "confidence_bounds_at", shrunken(share))
    options = {"radii": RADII[1:], "alpha": 1e-6, "adversaries": "reach", "box": False, **QUICK}
    found = attack_certificates(model, data, evidence, **options | {"draws": 1000})
    assert not found.holds
    far = found.rows[-1]
    assert far.excess > 0
    # As a set they are refuted long before any of them is by itself: of 99 inputs 99 and 16 at shares 0 and 0.4, then 1
    # and 0. The bar stands between.
    assert (far.contradictions > 10) == (share <= 0.4)
    assert share > 0.5 or far.attacked_brier > far.limit_brier
    # With the widths gone altogether the calibration error of the whole set gives it away as well.
    assert share > 0 or far.attacked_ece > far.limit_ece


def test_a_certificate_of_the_wrong_class_is_exposed(probit, monkeypatch):
    model, data, evidence = probit
    none, every = np.zeros(len(evidence)), np.ones(len(evidence))

    def wrong(*args, **options):
        wide = {"lower": none, "upper": every, "certified": every > 0}
        return [replace(own, predicted=1 - own.predicted, **wide) for own in confidence_bounds_at(*args, **options)]

    monkeypatch.setattr(sandwich_room, "confidence_bounds_at", wrong)
    swapped = replace(evidence, selected=1 - evidence.selected)
    found = attack_certificates(model, data, swapped, radii=0.0, alpha=1e-6, adversaries="brier", **QUICK)
    assert found.rows[0].contradictions > 0.3 * len(evidence)


@pytest.mark.slow
def test_rows_are_what_the_functions_give(probit):
    model, data, evidence = probit
    found = attack_certificates(model, data, evidence, radii=[0.1], alpha=0.01, adversaries=["brier", "reach"], **QUICK)
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
    assert found.rows[found.strongest()[0]].attacked_ece == max(row.attacked_ece for row in found)
    assert set(found.as_dicts()[0]) >= {"radius", "attacked_ece", "certified_ece", "holds"}


@pytest.mark.slow
def test_the_papers_reading_of_alpha_allows_for_twice_the_failures(probit):
    model, data, evidence = probit
    options = {"radii": [0.1], "alpha": 0.01, "adversaries": "brier", "method": "cdf", **QUICK}
    (own,) = attack_certificates(model, data, evidence, split_alpha=False, batch_size=64, **options)
    (row,) = evaluate(evidence, radii=[0.1], alpha=0.01, method="cdf", split_alpha=False, n_bins=10)
    assert own.certified_ece == row.certified_ece
    assert own.certified_brier == pytest.approx(row.certified_brier, abs=1e-12)
    assert own.allowed == allowed_failures(len(evidence), alpha=0.02, delta=0.0005)
    (strict,) = attack_certificates(model, data, evidence, split_alpha=True, **options)
    assert strict.allowed == allowed_failures(len(evidence), alpha=0.01, delta=0.0005) < own.allowed
    assert strict.attacked_ece == pytest.approx(own.attacked_ece, abs=0.05)


def test_nobody_certified_gives_an_empty_row(probit):
    model, data, evidence = probit
    found = attack_certificates(model, data, evidence, radii=[9.0], alpha=0.01, **QUICK)
    assert all(row.inputs == 0 and math.isnan(row.attacked_ece) and row.holds for row in found)
    assert found.before == (None, None)
    assert len(found.strongest()) == 1


@pytest.mark.slow
def test_on_digits_with_a_network():
    model = trained_on_digits(sigma=0.25)
    data = load_dataset("digits", split="test", limit=30)
    evidence = collect_evidence(model, data, sigma=0.25, n=1000, n0=100, progress=False)
    found = attack_certificates(
        model, data, evidence, radii=[0.0, 0.2], alpha=0.001, adversaries="reach", draws=250, steps=4
    )
    assert found.holds
    for row in found:
        assert row.clean_ece - 1e-9 <= row.attacked_ece <= row.certified_ece
    assert found.rows[1].attacked_ece > found.rows[1].clean_ece + 0.02


def test_every_row_and_input_has_its_own_share(probit, monkeypatch):
    model, data, evidence = probit
    given = []
    monkeypatch.setattr(
        sandwich_room, "confront", lambda *a, **o: given.append(o["levels"]) or Finding(0, -1.0, 1.0, 1.0)
    )
    attack_certificates(
        model, data, evidence, radii=[0.1, 0.2], alpha=0.01, delta=0.01, adversaries="brier", draws=10, steps=1
    )
    assert given == [Levels.shared(0.01, rows=2, inputs=len(evidence))] * 2


def test_bad_input(probit):
    model, (x, y), evidence = probit
    options = {"radii": [0.1], "alpha": 0.01} | QUICK
    with pytest.raises(InputError, match="Expected `model` to be the one the evidence was drawn from"):
        attack_certificates(random_model(0), (x, y), evidence, **options)
    with pytest.raises(InputError, match="Expected `data` to hold the inputs of the evidence, but got another input"):
        attack_certificates(model, (x.flip(0), y), evidence, **options)
    with pytest.raises(InputError, match="but got another input, or none, at 100"):
        attack_certificates(model, (x[:100], y[:100]), evidence, **options)
    with pytest.raises(InputError, match="Expected `adversaries` to be one of 'smoothadv'"):
        attack_certificates(model, (x, y), evidence, adversaries="pgd", **options)
    with pytest.raises(InputError, match="Expected `delta` to lie in the open interval"):
        attack_certificates(model, (x, y), evidence, delta=0.0, **options)
    other = replace(evidence, header=replace(evidence.header, outputs="probabilities"))
    with pytest.raises(InputError, match="Expected `evidence` to be of a model that gives logits"):
        attack_certificates(model, (x, y), other, **options)


def test_a_subset_of_the_evidence_is_judged_under_the_noise_of_its_positions(probit):
    model, (x, y), evidence = probit
    part = evidence.select(np.arange(40, 80))
    own = (x[40:80], y[40:80], torch.arange(40, 80))
    rows = [
        attack_certificates(model, data, part, radii=[0.0], alpha=0.01, adversaries="brier", **QUICK).rows[0]
        for data in ((x, y), own)
    ]
    assert rows[0] == rows[1]
    (bounds,) = confidence_bounds_at(part, radii=[0.0], alpha=0.01)
    kept = np.flatnonzero(bounds.certified) + 40
    seen = estimate_smoothed(model, x[kept], evidence.selected[kept], sigma=SIGMA, draws=500, indices=kept)
    assert rows[0].clean_brier == pytest.approx(np.square(seen.confidence - evidence.correct[kept]).mean(), abs=1e-7)
