"""A map that is evaluated on inputs it was fitted on: told, and without a statement about other inputs."""

import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from certcal import InputError, evaluate
from certcal.certificates import confidence_bounds_at
from certcal.errors import CertcalWarning
from certcal.evaluation import sample_of, warn_if_fitted_to
from certcal.recalibration import (
    BetaMap,
    Candidate,
    FullMap,
    RecalibratedModel,
    TemperedMap,
    choose_map,
    fit_nested,
    fit_score_map,
    held_out_maps,
    load_map,
    recalibrate,
    recalibrate_bounds,
    save_map,
)
from certcal.recalibration.inside import share_reaching
from certcal.smoothing.evidence import Scores
from smoothing_oracles import random_evidence

TERMS = {"radii": [0.0, 0.1], "alpha": 0.01}


@pytest.fixture
def evidence(rng):
    found = random_evidence(rng, inputs=200, draws=300)
    return replace(found, label=(rng.random(200) < 0.2 + 0.7 * found.confidence).astype(np.int64))


def of_bounds(part):
    return recalibrate_bounds(confidence_bounds_at(part, **TERMS))


def chosen(part):
    some = (Candidate("brier", "isotonic", 0.5),)
    return choose_map(part, candidates=some, auroc_loss=1.0, brier_loss=1.0, repeats=1, **TERMS).map


MAKERS = {
    "of the mean": of_bounds,
    "of scores": lambda part: fit_score_map(part, **TERMS),
    "nested": lambda part: fit_nested(part, **TERMS),
    "chosen": chosen,
}


def test_few_of_many_inputs_are_known_again(rng):
    found = random_evidence(rng, inputs=3000, draws=100)
    found = replace(found, label=(rng.random(3000) < 0.2 + 0.7 * found.confidence).astype(np.int64))
    own = of_bounds(found)
    for few, inputs in ((own, np.arange(0, 3000, 50)), (of_bounds(found.select(np.arange(40))), np.arange(3000))):
        with pytest.warns(CertcalWarning, match="fitted on these inputs"):
            evaluate(found.select(inputs), recalibration=few, **TERMS)


def test_mapped_bounds_know_their_map(evidence):
    fit, other = evidence.select(np.arange(100)), evidence.select(np.arange(100, 200))
    own = of_bounds(fit)
    (bounds,) = confidence_bounds_at(fit, radii=[0.1], alpha=0.01)
    with pytest.warns(CertcalWarning, match="fitted on these inputs"):
        (row,) = evaluate(own.intervals(bounds)).rows
    assert math.isnan(row.population_ece)
    with pytest.raises(InputError, match="Expected `recalibration` to be given once"):
        evaluate(own.intervals(bounds), recalibration=own)
    (row,) = evaluate([own.intervals(one) for one in confidence_bounds_at(other, radii=[0.1], alpha=0.01)]).rows
    assert row.population_ece < 1


def test_maps_of_bounds_know_their_model_and_what_came_before(evidence):
    (bounds,) = confidence_bounds_at(evidence, radii=[0.1], alpha=0.01)
    own, elsewhere = recalibrate_bounds(bounds), replace(bounds, origin=bounds.origin | {"sigma": 0.7}, content=None)
    with pytest.warns(CertcalWarning, match="fitted to sigma = 0.25, not 0.7"):
        own.intervals(elsewhere)
    inside = fit_score_map(evidence, **TERMS)
    after = recalibrate_bounds(confidence_bounds_at(evidence, score_map=inside, **TERMS))
    other = fit_score_map(evidence, clean_weight=0.9, **TERMS)
    (elsewhere,) = confidence_bounds_at(evidence, radii=[0.1], alpha=0.01, score_map=other)
    mapped = recalibrate_bounds(bounds, method="beta").intervals(bounds)
    for fitted, given in ((after, bounds), (after, elsewhere), (own, elsewhere), (own, mapped)):
        with pytest.warns(CertcalWarning, match="fitted after other maps than these confidences went through"):
            fitted.intervals(given)
    both = FullMap(inside, after)
    assert both.about["sigma"] == 0.25
    with pytest.warns(CertcalWarning, match="fitted on these inputs"):
        evaluate(evidence, recalibration=both, **TERMS)
    with pytest.raises(InputError, match="Expected `outside` to be fitted to the sigma of the map inside"):
        FullMap(inside, after.told({"sigma": 0.7}))


def test_every_map_before_is_asked_for_its_inputs(evidence):
    """Also maps of scores, and where nobody said what the inputs are."""
    first, second = evidence.select(np.arange(100)), evidence.select(np.arange(100, 200))
    (one,), (two,) = (confidence_bounds_at(part, radii=[0.1], alpha=0.01) for part in (first, second))
    g = recalibrate_bounds(one)
    h = recalibrate_bounds(g.intervals(two), method="beta")
    inside = fit_score_map(first, **TERMS)
    (scored,) = confidence_bounds_at(first, radii=[0.1], alpha=0.01, score_map=inside)
    bare = replace(one, content=None, origin=None)
    for given in (h.intervals(g.intervals(one)), h.intervals(g.intervals(two)), scored, g.intervals(bare),
                  h.intervals(g.intervals(bare)), h.intervals(g.intervals(bare)).select(np.arange(80))):  # fmt: skip
        with pytest.warns(CertcalWarning, match="fitted on these inputs"):
            assert math.isnan(evaluate(given)[0].population_ece)
    (scored,) = confidence_bounds_at(second, radii=[0.1], alpha=0.01, score_map=inside)
    for given in (scored, g.intervals(replace(two, content=None, origin=None))):
        with warnings.catch_warnings(action="error"):
            assert evaluate(given)[0].population_ece < 1


def test_a_map_is_given_once_whatever_it_knows_and_fits_what_came_before(evidence):
    (bounds,) = confidence_bounds_at(evidence, radii=[0.1], alpha=0.01)
    g = recalibrate_bounds(bounds)
    h = recalibrate_bounds(g.intervals(bounds), method="beta")
    for given, own in ((g.intervals(bounds), g.told({"splits": 3})), (h.intervals(g.intervals(bounds)), g)):
        with pytest.raises(InputError, match="Expected `recalibration` to be given once"):
            own.intervals(given)
    with pytest.warns(CertcalWarning, match="fitted after other maps than these confidences went through"):
        h.intervals(replace(bounds, origin=None))  # bounds from elsewhere: h knows that a map came before
    inside = fit_score_map(evidence, **TERMS)
    by_option = confidence_bounds_at(evidence, score_map=inside, **TERMS)
    with warnings.catch_warnings(action="error"):  # the same confidences, made in two ways
        after = recalibrate_bounds(inside.certify(evidence, **TERMS)[0])
        after.intervals(by_option[0])
        FullMap(inside, after)
        FullMap(inside, BetaMap(1.0, 1.0, 0.0))  # made by hand: nobody said what for
    for badly in (g, recalibrate_bounds(confidence_bounds_at(evidence, score_map=share_reaching(0.5), **TERMS))):
        with pytest.warns(CertcalWarning, match="not fitted to what the map inside gives"):
            FullMap(inside, badly)
    for fact, value in (("units", "a"), ("model", ["no", "digest"])):
        with pytest.raises(InputError, match=f"Expected `outside` to be fitted to the {fact} of the map inside"):
            FullMap(inside, after.told({fact: value}))
    with pytest.raises(InputError, match="be fitted at the temperature of the map inside, but got 1 and 2"):
        FullMap(inside, after.told({"temperature": 2.0}))
    with pytest.raises(InputError, match="come with the map before it in a `FullMap`"):
        RecalibratedModel(torch.nn.Linear(2, 2), after, sigma=0.25)


def test_bounds_of_several_models_or_draws_are_no_list_of_radii(evidence, rng):
    """Certificates of other draws fail by events of their own: together they would need twice the delta."""
    near, far = confidence_bounds_at(evidence, **TERMS)
    header = evidence.header
    others = {
        "draws": replace(evidence, header=replace(header, seed=header.seed + 1)),
        "sigma": replace(evidence, header=replace(header, sigma=0.3)),
        "model": replace(evidence, header=replace(header, model="other")),
        "unit": replace(evidence, header=replace(header, units="volts")),
        "temperature": replace(evidence, temperature=2.0),
    }
    for named, other in others.items():
        (there,) = confidence_bounds_at(other, radii=[0.1], alpha=0.01)
        with pytest.raises(InputError, match=f"^Expected `bounds` to .* {named}.* at every radius, but got"):
            evaluate([near, there])
        if named != "draws":
            with pytest.raises(InputError, match=f"^Expected `bounds` to .* {named}.* at every radius, but got"):
                recalibrate_bounds([near, there])
    g = recalibrate_bounds([near, far])
    with pytest.raises(InputError, match="have gone through the same maps at every radius"):
        evaluate([near, g.intervals(far)])
    assert len(evaluate([far.select(np.arange(50)), near.select(np.arange(50))])) == 2
    other_class = confidence_bounds_at(evidence, runner_up="bounded", **TERMS)[1]
    with pytest.raises(InputError, match="have one runner_up"):
        evaluate([near, other_class])


def test_each_part_and_each_radius_is_asked_for_its_inputs(evidence):
    first, second = evidence.select(np.arange(100)), evidence.select(np.arange(100, 200))
    inside = fit_score_map(first, **TERMS)
    both = FullMap(inside, recalibrate_bounds(confidence_bounds_at(second, score_map=inside, **TERMS)))
    for fitted in (first, second):
        for given in (fitted, both.certify(fitted, **TERMS)):
            terms = {"recalibration": both, **TERMS} if given is fitted else {}
            with pytest.warns(CertcalWarning, match="fitted on these inputs"):
                evaluate(given, **terms)
    with pytest.warns(CertcalWarning, match="fitted on these inputs"):
        evaluate(inside.certify(first, **TERMS))
    few = of_bounds(evidence.select(np.arange(40)))
    with pytest.warns(CertcalWarning, match="fitted on these inputs"):
        evaluate(evidence, recalibration=few, **TERMS)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_inputs_that_a_map_was_fitted_on_are_known_again(evidence, make, tmp_path):
    fit, other = evidence.select(np.arange(100)), evidence.select(np.arange(100, 200))
    save_map(make(fit), tmp_path / "map.json")
    own = load_map(tmp_path / "map.json")
    assert own.kind != "identity"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart = evaluate(other, recalibration=own, **TERMS)
    assert not math.isnan(apart[0].population_ece)
    for seen in (fit, evidence, fit.select(np.arange(80))):
        with pytest.warns(CertcalWarning, match="The map was fitted on these inputs or on some of them"):
            report = evaluate(seen, recalibration=own, **TERMS)
        assert all(math.isnan(row.population_ece) for row in report)
        assert not any(math.isnan(row.joint_ece) for row in report)  # which hold for any map


def test_the_same_inputs_are_known_by_other_draws_and_in_part(evidence, rng):
    """By what they hold: more draws, or another seed, change every confidence."""
    drawn_again = replace(random_evidence(rng, inputs=200, draws=500), label=evidence.label)
    own = of_bounds(evidence.select(np.arange(100)))
    for seen in (np.arange(100), np.arange(80, 200)):
        with pytest.warns(CertcalWarning, match="fitted on these inputs"):
            assert math.isnan(evaluate(drawn_again.select(seen), recalibration=own, **TERMS)[0].population_ece)
    with warnings.catch_warnings(action="error"):  # two may be duplicates
        evaluate(drawn_again.select(np.arange(98, 200)), recalibration=own, **TERMS)


@pytest.mark.parametrize(("fitted", "seen"), [(1000, 500), (60_000, 500), (60_000, 10_000), (100_000, 500)])
def test_few_of_very_many_inputs_are_known_again(rng, fitted, seen):
    """Of these a map knows a thousand: among a few hundred of them are as good as none."""
    missed = 0
    for _ in range(40):
        content = rng.integers(0, 2**62, fitted + seen)
        these = [SimpleNamespace(content=own, confidence=rng.random(len(own))) for own in (content[:fitted], content)]
        own = SimpleNamespace(kind="steps", divisor=None, parts=(), about=sample_of(these[0]))
        inside, outside = (SimpleNamespace(content=part) for part in (rng.permutation(content[:fitted])[:seen],
                           np.r_[content[fitted:], content[:2]]))  # fmt: skip
        with warnings.catch_warnings(action="ignore"):
            missed += not warn_if_fitted_to(own, inside)
            assert not warn_if_fitted_to(own, outside)
    assert missed <= (4 if fitted == 100_000 else 1)


def test_arrays_and_bounds_without_content_are_known_by_confidences(evidence):
    bounds = confidence_bounds_at(evidence, **TERMS)[0]
    kept = bounds.select(bounds.certified)
    by_arrays = recalibrate(kept.lower, kept.upper, kept.correct, confidence=kept.confidence)
    for own, these in ((by_arrays, evidence), (recalibrate_bounds(bounds), replace(bounds, content=None))):
        with pytest.warns(CertcalWarning, match="fitted on these inputs"):
            evaluate(these, recalibration=own, **(TERMS if these is evidence else {}))


def test_given_bounds_and_other_temperatures_are_known_again(evidence, rng):
    bounds = confidence_bounds_at(evidence, **TERMS)
    own = recalibrate_bounds(bounds)
    with pytest.warns(CertcalWarning, match="fitted on these inputs"):
        evaluate(bounds, recalibration=own)
    scores = tuple(
        Scores(e.score_sum, e.score_square_sum, e.histogram)
        for e in (evidence, random_evidence(rng, inputs=200, draws=300))
    )
    both = replace(evidence, header=replace(evidence.header, temperatures=(1.0, 0.5)), tempered=scores)
    inside = fit_score_map(both.at_temperature(0.5), **TERMS)
    with pytest.warns(CertcalWarning, match="fitted on these inputs"):
        evaluate(both, recalibration=TemperedMap(0.5, inside, about=inside.about), **TERMS)


@pytest.mark.parametrize("given", ["evidence", "bounds"])
def test_maps_that_saw_what_is_held_out_are_told(evidence, given):
    """Such as one that was fitted before the split."""
    bounds, terms = confidence_bounds_at(evidence, **TERMS), {"alpha": TERMS["alpha"]}
    asked = {"radii": TERMS["radii"], "terms": terms} if given == "evidence" else {}
    made = evidence if given == "evidence" else bounds
    own = recalibrate_bounds(bounds)
    with pytest.warns(CertcalWarning, match="The map was fitted on these inputs or on some of them"):
        held_out_maps(made, lambda part: own, repeats=1, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held_out_maps(bounds, recalibrate_bounds, repeats=2)


def test_the_identity_is_not_too_good_anywhere(evidence):
    """It changes nothing, also where it was kept because nothing could be learned from these very inputs."""
    sure = replace(evidence, label=evidence.selected)
    own = recalibrate_bounds(confidence_bounds_at(sure, **TERMS), on_failure="identity")
    assert own.kind == "identity"
    assert own.about["fitted_inputs"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = evaluate(sure, recalibration=own, **TERMS)
    assert report[0].population_ece == evaluate(sure, **TERMS)[0].population_ece


def test_confidences_that_hardly_differ_tell_nothing(rng):
    assert sample_of(np.repeat([0.0, 0.3, 1.0], 50)) == {}
    some = sample_of(rng.random(1000))["fitted_to"]
    assert len(some) == len(set(some)) == 16
    assert set(sample_of(np.linspace(0, 1, 100))["fitted_to"]).isdisjoint({0.0, 1.0})  # which many inputs have


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_values_that_many_inputs_share_tell_no_input(rng, decimals):
    """Shares of votes and rounded tables: other inputs have them too, and are not taken for those of the fit."""
    assert sample_of(rng.random(800).round(decimals)) == {}
    assert len(sample_of(rng.random(800))["fitted_to"]) == 16
