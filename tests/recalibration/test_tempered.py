"""Maps with a temperature of the logits: certified from the draws at that temperature, chosen, saved and deployed."""

import numpy as np
import pytest
import torch

from certcal import InputError, confidence_bounds, evaluate
from certcal.models import Tempered
from certcal.recalibration import (
    Candidate,
    IdentityMap,
    IsotonicMap,
    RecalibratedModel,
    ScoreMap,
    TemperedMap,
    choose_map,
    fit_nested,
    fit_score_map,
    load_map,
    recalibrate,
    recalibrate_bounds,
    save_map,
)
from collecting import collect
from smoothing_models import small_data, small_model

LIFTED = IsotonicMap([0.0, 1.0], [0.2, 0.9])
STEPS = ScoreMap(np.linspace(0.1, 0.8, 256))


@pytest.fixture(scope="module")
def evidence():
    return collect(temperatures=(1.0, 0.5))


@pytest.mark.parametrize("then", [IdentityMap(), LIFTED, STEPS], ids=lambda own: own.kind)
def test_certificates_are_those_of_the_map_for_the_model_at_that_temperature(evidence, then, tmp_path):
    own, alone = TemperedMap(0.5, then), collect(Tempered(small_model(), 0.5))
    (found,), (wanted,) = (m.certify(e, radii=0.1, alpha=0.01) for m, e in ((own, evidence), (then, alone)))
    for name in ("lower", "upper", "confidence", "other"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert evaluate(evidence, radii=0.1, alpha=0.01, recalibration=own)[0].certified_ece == pytest.approx(
        evaluate(alone, radii=0.1, alpha=0.01, recalibration=then)[0].certified_ece
    )
    save_map(own, tmp_path / "map.json")
    again = load_map(tmp_path / "map.json")
    assert again.parameters() == own.parameters()
    deployed, plain = (
        RecalibratedModel(model, g, sigma=0.3, draws=200)(small_data()[0])
        for model, g in ((small_model(), again), (Tempered(small_model(), 0.5), then))
    )
    assert torch.equal(deployed.predicted, plain.predicted)
    torch.testing.assert_close(deployed.confidence, plain.confidence, rtol=0, atol=1e-6)


def test_the_choice_is_made_among_temperatures_too(evidence):
    """One that cannot be made of few inputs is none; each is scored at its own temperature."""
    rng = np.random.default_rng(0)
    rows = np.tile(np.arange(len(evidence)), 20)
    many = evidence.select(rows)
    object.__setattr__(many, "label", np.where(rng.random(len(many)) < 0.7, many.selected, (many.selected + 1) % 4))
    some = (Candidate(None, "isotonic", 0.5),)
    choice = choose_map(many, radii=0.0, alpha=0.01, candidates=some, repeats=1, auroc_loss=1, brier_loss=1)
    assert [one.temperature for one, _ in choice.tried] == [None, 0.5, 0.5]
    names = [one.name for one, _ in choice.tried]
    assert names == ["isotonic, λ = 0.5", "temperature 0.5, no map", "temperature 0.5, isotonic, λ = 0.5"]
    alone = choose_map(many.at_temperature(0.5), radii=0.0, alpha=0.01, candidates=some, repeats=1)
    assert choice.scores[1] == alone.untouched
    assert choice.scores[2] == alone.scores[0]
    every = (choice.untouched, *choice.scores)
    errors = [own.certified_ece if own.levels > 1 else 1.0 for own in every]
    assert choice.chosen == (Candidate(), *(one for one, _ in choice.tried))[int(np.argmin(errors))]
    assert choice.map.divisor == choice.chosen.temperature


FITS = {
    "bounds": lambda many: recalibrate(confidence_bounds(many, radius=0.0, alpha=0.01)),
    "nothing": lambda many: recalibrate_bounds(
        confidence_bounds(many.select(np.arange(5)), radius=0.0, alpha=0.01), on_failure="identity"
    ),
    "scores": lambda many: fit_score_map(many, radii=0.0, alpha=0.01),
    "nested": lambda many: fit_nested(many, radii=0.0, alpha=0.01),
    "both": lambda many: Candidate("brier", "isotonic", 0.5).fit(many, radii=(0.0,), alpha=0.01),
    "chosen": lambda many: (
        choose_map(many, radii=0.0, alpha=0.01, candidates=(Candidate(None, "isotonic", 0.5),), repeats=1).map
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("bounds", "scores"))) for name in FITS]
)
def test_a_map_is_deployed_at_the_temperature_it_was_fitted_at(name, tmp_path):
    evidence = collect(temperatures=(0.25, 1.0))
    rows, rng = np.tile(np.arange(len(evidence)), 20), np.random.default_rng(0)
    many = evidence.select(rows)
    object.__setattr__(many, "label", np.where(rng.random(len(many)) < 0.7, many.selected, (many.selected + 1) % 4))
    own = FITS[name](many)
    assert own.divisor == 0.25
    save_map(own, tmp_path / "map.json")
    (bounds,) = own.certify(evidence, radii=0.0, alpha=0.01)
    model = RecalibratedModel(small_model(), load_map(tmp_path / "map.json"), sigma=0.3, draws=3000)
    said = model(small_data()[0]).confidence.numpy()
    assert (bounds.lower - 0.02 <= said).all()  # it is an estimate itself
    assert (said <= bounds.upper + 0.02).all()
    (other,) = own.certify(evidence.at_temperature(1.0), radii=0.0, alpha=0.01)  # whatever the evidence stands at
    np.testing.assert_array_equal(other.lower, bounds.lower)
    assert np.isnan(evaluate(evidence.at_temperature(1.0), radii=0.0, recalibration=own)[0].before.joint_ece)


def test_a_map_of_another_temperature_is_refused():
    evidence = collect(temperatures=(0.25, 1.0))
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    for refused in (
        lambda: LIFTED.certify(evidence, radii=0.1, alpha=0.01),
        lambda: LIFTED.intervals(bounds),
        lambda: evaluate(evidence, radii=0.1, recalibration=LIFTED),
    ):
        with pytest.raises(InputError, match=r"fitted at the temperature 0.25 of these .* but got one at 1\."):
            refused()
    assert evaluate(evidence, radii=0.1, recalibration=TemperedMap(0.25, LIFTED)).temperature == 0.25


def test_what_cannot_be_is_refused(evidence):
    bounds = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    with pytest.raises(InputError, match="a temperature needs their draws"):
        TemperedMap(0.5, LIFTED).intervals(bounds)
    with pytest.raises(InputError, match="Expected `then` to be a map without a temperature"):
        TemperedMap(0.5, TemperedMap(0.5, LIFTED))
    with pytest.raises(InputError, match="Expected `temperature` to be a finite number > 0"):
        TemperedMap(0.0, LIFTED)
    with pytest.raises(InputError, match="Expected `outputs` to be 'logits' for a map with a temperature"):
        RecalibratedModel(small_model(), TemperedMap(0.5, LIFTED), sigma=0.3, outputs="probabilities")
    with pytest.raises(InputError, match=r"to be one that scores were counted at, 1, 0.5, but got 0.25"):
        TemperedMap(0.25, LIFTED).certify(evidence, radii=0.1, alpha=0.01)


def test_bounds_refuse_a_map_of_scores_at_another_temperature(evidence):
    """Deployment would divide the logits by the map's temperature, and these bounds would be of another model."""
    own = ScoreMap(STEPS.levels, about={"temperature": 0.5})
    confidence_bounds(evidence.at_temperature(0.5), radius=0.1, alpha=0.01, score_map=own)
    with pytest.raises(InputError, match=r"fitted at the temperature 1 of the evidence, but got one for `evidence.at"):
        confidence_bounds(evidence, radius=0.1, alpha=0.01, score_map=own)
