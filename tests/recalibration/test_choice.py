"""Choosing a map by itself: on the fitting inputs alone, the least certified error among the sharp ones."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from certcal import InputError
from certcal.certificates import confidence_bounds_at
from certcal.errors import CertcalWarning
from certcal.recalibration import (
    CANDIDATES,
    PARTS,
    Candidate,
    Choice,
    IdentityMap,
    NothingToFitError,
    Scores,
    choose_map,
    fit_nested,
    held_out_maps,
    score_bounds,
    split_inputs,
)
from certcal.report import chosen_because
from smoothing_oracles import random_evidence

FEW = (Candidate(None, "isotonic", 0.0), Candidate(None, "beta", 0.5), Candidate("brier", None, 0.5))
TERMS = {"alpha": 0.01}


@pytest.fixture
def evidence(rng):
    found = random_evidence(rng, inputs=300, draws=500)
    return replace(found, label=(rng.random(300) < 0.2 + 0.7 * found.confidence).astype(np.int64))


def test_options_of_candidates_are_used_or_refused(evidence):
    beta = [Candidate(None, "beta", 0.5).fit(evidence, radii=[0.1], objective=own, **TERMS) for own in ("brier", "log")]
    assert [own.about["objective"] for own in beta] == ["brier", "log"]
    with pytest.raises(TypeError, match="unknown"):
        Candidate(None, "beta", 0.5).fit(evidence, radii=[0.1], unknown=1, **TERMS)
    with pytest.raises(InputError, match="Expected `spilt_alpha` to be left out here, but got False"):
        choose_map(evidence, radii=[0.1], candidates=FEW, spilt_alpha=False, **TERMS)


@pytest.mark.parametrize(
    ("auroc_loss", "brier_loss"),
    [(0.01, 0.01), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((0.0, 1.0), (1.0, 0.0), (1.0, 1.0)))],
)
def test_the_least_certified_error_within_both_limits(evidence, auroc_loss, brier_loss):
    limits = {"auroc_loss": auroc_loss, "brier_loss": brier_loss}
    choice = choose_map(evidence, radii=[0.0, 0.1], candidates=FEW, repeats=1, **limits, **TERMS)
    assert [one for one, _ in choice.tried] == list(FEW)
    best, least = Candidate(), choice.untouched.certified_ece
    for one, scores in choice.tried:
        held = held_out_maps(
            evidence,
            lambda part, one=one: one.fit(part, radii=(0.0, 0.1), **TERMS),
            radii=[0.0, 0.1],
            terms=TERMS,
            folds=PARTS,
            repeats=1,
        )
        assert held.mean(0.1)[1] == replace(scores, levels=held.mean(0.1)[1].levels)
        assert scores.levels == min(row.after.levels for row in held.rows if row.radius == 0.1)
        sharp = choice.untouched.auroc - scores.auroc <= auroc_loss
        sharp &= scores.brier_all <= choice.untouched.brier_all + brier_loss
        sharp &= scores.levels > 1
        if sharp and scores.certified_ece < least:
            best, least = one, scores.certified_ece
    assert choice.chosen == best
    again = choice.chosen.fit(evidence, radii=(0.0, 0.1), **TERMS)
    assert choice.map.parameters() == again.parameters()
    assert choice.map.about["chosen"]["clean_weight"] == choice.chosen.clean_weight


def test_without_an_allowed_map_confidences_stay(evidence):
    flat = (Candidate(None, "isotonic", 0.0),)
    choice = choose_map(evidence, radii=[0.1], candidates=flat, auroc_loss=0.0, repeats=1, **TERMS)
    assert choice.chosen == Candidate()
    assert choice.chosen.name == "no map"
    assert choice.map.kind == "identity"
    assert "within the limits on AUROC and Brier score" in choice.map.about["reason"]
    assert choice.as_dict()["tried"][0]["allowed"] is False


def test_bounds_choose_as_evidence_does_among_maps_of_the_mean(evidence):
    bounds = confidence_bounds_at(evidence, radii=[0.1], **TERMS)
    found = choose_map(bounds, candidates=FEW, repeats=1)
    drawn = choose_map(evidence, radii=[0.1], candidates=FEW[:2], repeats=1, **TERMS)
    assert found.chosen == drawn.chosen
    for own, other in zip(found.scores, drawn.scores, strict=True):  # sums over other rows round otherwise
        assert asdict(own) == pytest.approx(asdict(other), abs=1e-6)
    with pytest.raises(InputError, match="Expected `radii and alpha` to be given with evidence"):
        choose_map(evidence)
    with pytest.raises(InputError, match="Expected `radii` to be left out with bounds, which have their own, but got"):
        choose_map(bounds, radii=0.5)


def test_candidates_are_compared_in_the_edges_given(evidence):
    edges = [0.0, 0.9, 1.0]
    bounds = confidence_bounds_at(evidence, radii=[0.1], **TERMS)[0]
    for made, asked in ((evidence, {"radii": [0.1], **TERMS}), (bounds, {})):
        found = choose_map(made, candidates=FEW[:1], edges=edges, **asked)
        parts = [part for _, part in split_inputs(300, folds=PARTS, repeats=1)]
        own = [score_bounds(bounds.select(part), edges=edges).certified_ece for part in parts]
        assert found.untouched.certified_ece == pytest.approx(np.mean(own), abs=1e-6)


def test_a_map_of_one_step_is_not_chosen(rng):
    """Weak confidences: the least certified error is that of a constant, whose certificate is true and says nothing."""
    found = random_evidence(rng, inputs=250, draws=300)
    found = replace(found, label=(rng.random(250) < 0.8 + 0.1 * found.confidence).astype(np.int64))
    steps = [Candidate(outside="steps", clean_weight=share) for share in (0.2, 0.5, 0.8)]
    choice = choose_map(found, radii=[0.1], candidates=steps, auroc_loss=1.0, brier_loss=1.0, **TERMS)
    constant = [own for _, own in choice.tried if own.levels <= 1]
    assert min(own.certified_ece for own in constant) < choice.untouched.certified_ece
    assert score_bounds(choice.map.certify(found, radii=[0.1], **TERMS)[0]).levels > 1


def test_a_map_that_leaves_one_confidence_on_all_inputs_is_refused_and_named():
    """Each of four does well on the parts of these inputs; fitted to all of them it comes to a constant."""
    rng = np.random.default_rng(43)
    found = random_evidence(rng, inputs=120, draws=300)
    found = replace(found, label=(rng.random(120) < 0.8 + 0.1 * found.confidence).astype(np.int64))
    steps = [Candidate(outside="steps", clean_weight=share) for share in (0.5, 0.6, 0.7, 0.8, 0.9)]
    choice = choose_map(found, radii=[0.1], candidates=steps, auroc_loss=1.0, brier_loss=1.0, **TERMS)
    assert choice.chosen == choice.within()[0] == Candidate()
    assert sorted(own.clean_weight for own in choice.refused) == [0.5, 0.6, 0.7, 0.8]
    for own in choice.refused:
        assert score_bounds(own.fit(found, radii=[0.1], **TERMS).certify(found, radii=[0.1], **TERMS)[0]).levels == 1
    assert [row["refused"] for row in choice.as_dict()["tried"]] == [True] * 4 + [False]
    assert choice.map.about["reason"] == (
        "Each map that lowers the certified error within the limits on AUROC and Brier score leaves a single "
        "confidence when fitted to all of these inputs."
    )
    told = chosen_because(choice)
    assert "but for 4 maps that came to a single confidence when fitted to all of these inputs" in told


def test_the_pareto_curve_is_what_no_other_map_beats():
    def scores(ece, auroc, brier):
        return Scores(ece, 0.1, 0.1, 0.1, brier, auroc, 0.1, 10)

    tried = [scores(0.1, 0.8, 0.12), scores(0.2, 0.9, 0.10), scores(0.15, 0.7, 0.2), scores(0.2, 0.85, 0.1)]
    pairs = tuple((Candidate(None, "beta", n / 10), own) for n, own in enumerate(tried))
    choice = Choice(IdentityMap(), Candidate(), pairs, scores(0.3, 0.95, 0.11), 0.1, 0.1, 0.005)
    assert choice.pareto("auroc") == [(0.95, 0.3), (0.9, 0.2), (0.8, 0.1)]
    assert choice.pareto("brier_all") == [(0.1, 0.2), (0.12, 0.1)]
    assert [choice.allows(own) for own in tried] == [False, True, False, True]


def test_steps_and_other_kinds_are_tried_inside_and_outside():
    steps = {one.reaching for one in CANDIDATES if one.outside == "steps"}
    assert None in steps
    assert len(steps) > 2
    outside = {(None, kind) for kind in ("steps", "isotonic", "beta")}
    inside = {("brier", None), ("brier", "isotonic"), ("calibration", None)}
    assert {(one.inside, one.outside) for one in CANDIDATES} == inside | outside
    assert len({one.name for one in CANDIDATES}) == len(CANDIDATES)


@pytest.mark.slow
def test_all_candidates_make_maps_that_certify(evidence):
    for one in CANDIDATES:
        own = one.fit(evidence, radii=(0.1,), **TERMS)
        bounds = own.certify(evidence, radii=0.1, **TERMS)[0]
        assert (bounds.lower <= bounds.upper).all()
        assert own.kind != "identity"


def test_other_limits_are_asked_of_the_same_candidates():
    def scores(ece, auroc, brier):
        return Scores(ece, 0.1, 0.1, 0.1, brier, auroc, 0.1, 10)

    tried = [scores(0.2, 0.9, 0.10), scores(0.1, 0.9, 0.115), scores(0.02, 0.9, 0.14), scores(0.01, 0.6, 0.1)]
    pairs = tuple((Candidate(None, "beta", n / 10), own) for n, own in enumerate(tried))
    choice = Choice(IdentityMap(), pairs[0][0], pairs, scores(0.3, 0.9, 0.1), 0.1, 0.01, 0.0)
    assert choice.within()[1].certified_ece == 0.2
    assert choice.within(brier_loss=0.05) == pairs[2]
    assert choice.within(auroc_loss=0.5, brier_loss=1.0) == pairs[3]
    told = chosen_because(choice)
    assert "no higher than theirs" in told
    assert "a certified ECE of 20.00 %; a larger limit would give 10.00 % with --brier-loss 0.02, 2.00 %" in told
    assert "--brier-loss 0.01," not in told  # which would change nothing
    assert told.split(". ")[1].startswith(
        "Other inputs can pass these limits, as the best of many looks better than it is"
    )
    refused = replace(choice, chosen=Candidate(), refused=(pairs[0][0], pairs[1][0]))
    assert refused.within() == (Candidate(), choice.untouched)
    told = chosen_because(refused)
    assert "“no map”" in told
    assert "but for 2 maps that came" in told
    assert "a certified ECE of 30.00 %; a larger limit would give 2.00 % with --brier-loss 0.05" in told
    allowed = chosen_because(replace(choice, brier_loss=0.05))
    assert "larger limit" not in allowed
    assert "Brier score of all inputs at most 0.05 above theirs" in allowed


@pytest.mark.parametrize("name", ["auroc_loss", "brier_loss"])
@pytest.mark.parametrize("value", [-1, 5, float("nan")])
def test_bad_losses_are_refused(evidence, name, value):
    """5 is a percentage that somebody meant."""
    with pytest.raises(InputError, match=f"Expected `{name}` to lie in"):
        choose_map(evidence, radii=0.1, candidates=FEW, **{name: value}, **TERMS)


def test_arguments_of_other_kinds_are_named_in_plain_english(evidence):
    with pytest.raises(InputError, match="`candidates` to be a list of Candidate, but got a list of str, int"):
        choose_map(evidence, radii=0.1, alpha=0.01, candidates=["isotonic", 3])
    with pytest.raises(InputError, match="`evidence` to be an Evidence"):
        fit_nested(3, radii=0.1, alpha=0.01)


def test_inputs_that_teach_no_map_choose_none(evidence):
    """Ten inputs once chose a temperature; right ones alone blamed the limits."""
    right = evidence.select(np.flatnonzero(evidence.label == evidence.selected))
    for few, why in ((evidence.select(np.arange(10)), "at least 20 inputs"), (right, "right and wrong")):
        asked = {"radii": 0.1, "candidates": FEW[:1], "repeats": 1, **TERMS}
        with pytest.raises(NothingToFitError, match=why):
            choose_map(few, **asked)
        found = choose_map(few, on_failure="identity", **asked)
        assert found.chosen == Candidate()
        assert why in found.map.about["reason"]
        assert chosen_because(found) == f"None is kept of 1 way to make a map. {found.map.about['reason']}"


@pytest.mark.parametrize("count", [1, 3])
def test_fewer_inputs_than_parts_choose_none(evidence, count):
    some = evidence.select(np.arange(count))
    for given, terms, name in ((some, {"radii": 0.1, **TERMS}, "evidence"), (certified(some), {}, "bounds")):
        found = choose_map(given, candidates=FEW, on_failure="identity", **terms)
        assert found.map.kind == "identity"
        assert found.map.about["reason"].startswith(
            f"Expected `{name}` to hold at least 20 inputs certified at R = 0.1"
        )
        with pytest.raises(NothingToFitError, match=f"^Expected `{name}` to hold at least 20 inputs"):
            choose_map(given, candidates=FEW, **terms)


def certified(evidence):
    return confidence_bounds_at(evidence, radii=[0.1], **TERMS)[0]


def test_no_inputs_are_refused(evidence):
    with pytest.raises(InputError, match="Expected `evidence` to hold at least one input, but got none"):
        choose_map(evidence.select(np.arange(0)), radii=0.1, on_failure="identity", **TERMS)


def test_what_evidence_lacks_is_named_after_it(evidence):
    right = evidence.select(np.flatnonzero(evidence.correct))
    with pytest.raises(NothingToFitError, match=r"^Expected `label` to hold right and wrong predictions"):
        choose_map(right, radii=0.1, **TERMS)


def test_bounds_at_one_radius_twice_choose_as_once(evidence):
    own = certified(evidence)
    once, twice = (choose_map(bounds, candidates=FEW[:2]) for bounds in (own, [own, own]))
    assert twice.chosen == once.chosen
    assert twice.untouched == once.untouched


def test_bounds_try_no_temperatures(evidence):
    hot = Candidate(outside="isotonic", clean_weight=0.3, temperature=2.0)
    found = choose_map(certified(evidence), candidates=[hot, FEW[1]], auroc_loss=1.0, brier_loss=1.0)
    assert [one for one, _ in found.tried] == [FEW[1]]
    for one in (hot, Candidate("brier"), Candidate(outside="steps", reaching=0.9)):
        with pytest.raises(
            InputError, match=r"to hold a map of the mean without a temperature, .* such as “"
        ) as caught:
            choose_map(certified(evidence), candidates=[one])
        assert one.name in str(caught.value)


def test_maps_know_the_model_they_were_fitted_to(evidence):
    """Certificates hold for any map, so that another model's is told and not refused."""
    asked = {"radii": 0.1, **TERMS}
    own = choose_map(evidence, candidates=FEW[2:], brier_loss=1.0, auroc_loss=1.0, repeats=1, **asked).map
    assert (own.about["sigma"], own.about["model"]) == (evidence.header.sigma, evidence.header.model)
    own.certify(evidence, **asked)
    for change, told in (({"sigma": 0.5}, "sigma = 0.25, not 0.5"), ({"model": "f" * 64}, "not ffffffffffff")):
        with pytest.warns(CertcalWarning, match=f"fitted to .*{told}"):
            own.certify(replace(evidence, header=replace(evidence.header, **change)), **asked)
