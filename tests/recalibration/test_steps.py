"""Maps of steps: what the search computes is the certified error, no single move improves its result, order is kept."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import certcal
from certcal import InputError
from certcal.certificates import confidence_bounds_at, intervals_from_table
from certcal.errors import CertcalWarning
from certcal.metrics import Bins, Ranks
from certcal.recalibration import (
    Candidate,
    FullMap,
    StepsMap,
    choose_map,
    load_map,
    recalibrate,
    recalibrate_bounds,
    save_map,
    score_bounds,
)
from certcal.recalibration.data import data_from_arrays, data_from_bounds
from certcal.recalibration.steps import STEPS, _candidates, _descend, _levels, _Loss
from certcal.worstcase import WorstCaseProblem, solve_exact
from laws import examples
from smoothing_oracles import random_evidence

TERMS = {"alpha": 0.01}


@pytest.fixture
def evidence(rng):
    found = random_evidence(rng, inputs=300, draws=500)
    return replace(found, label=(rng.random(300) < 0.2 + 0.7 * found.confidence).astype(np.int64))


@pytest.fixture
def bounds(evidence):
    return confidence_bounds_at(evidence, radii=[0.0, 0.1], **TERMS)


def fitted(bounds, **options):
    return recalibrate_bounds(bounds, method="steps", **options)


def data_of(bounds, clean_weight=0.8):
    return data_from_bounds(bounds, None, clean_weight, n_bins=15, edges=None)


@examples(60)
@given(st.lists(st.integers(0, 239), min_size=3, max_size=3), st.lists(st.integers(0, 30), min_size=2, max_size=2))
def test_the_search_knows_the_certified_error_of_every_map(places, inner):
    """Also of maps with equal levels, and with steps that hold nothing."""
    evidence = random_evidence(np.random.default_rng(3), inputs=60, draws=200)
    evidence = replace(evidence, label=np.where(np.arange(60) % 3, evidence.selected, 1 - evidence.selected))
    bounds = confidence_bounds_at(evidence, radii=[0.05], **TERMS)
    data = data_of(bounds, clean_weight=0.0)
    (problem,), cuts = data.problems, _candidates(data)
    levels, ends = _levels(Bins.equal_width(15))[0][np.sort(places)], np.array([0, *sorted(inner), len(cuts) + 1])
    step = np.array([np.searchsorted(ends[1:-1], np.searchsorted(cuts, side, side="right"), side="right") for side in
                     (problem.lower, problem.upper)])  # fmt: skip
    flat = np.unique(levels)
    own = WorstCaseProblem(*levels[step], problem.correct, problem.bins.within(np.stack([flat, flat], axis=1)))
    assert _Loss(data, cuts).at(ends[None], levels[None])[0] == pytest.approx(solve_exact(own).value, abs=1e-9)


def test_no_single_move_improves_what_is_found(bounds):
    data = data_of(bounds)
    (levels, _), cuts = _levels(data.problems[0].bins), _candidates(data)
    loss = _Loss(data, cuts)
    for start in loss.starts(levels):
        value, ends, place = _descend(loss, *start, levels)
        assert value <= loss.at(start[0][None], levels[start[1]][None])[0]
        for step in range(STEPS):
            for other in range(place[step - 1] if step else 0, (place[step + 1] if step < STEPS - 1 else 239) + 1):
                moved = place.copy()
                moved[step] = other
                assert loss.at(ends[None], levels[moved][None])[0] >= value - 1e-9
        for step in range(1, STEPS):
            for other in range(ends[step - 1], ends[step + 1] + 1):
                moved = ends.copy()
                moved[step] = other
                assert loss.at(moved[None], levels[place][None])[0] >= value - 1e-9


def test_two_kinds_of_inputs_get_their_accuracies():
    lower = np.repeat([0.2, 0.7], 100)
    upper, correct = lower + 0.1, np.concatenate([np.arange(100) < 40, np.arange(100) < 90])
    g = recalibrate(lower, upper, correct, confidence=lower, clean_weight=0.5, method="steps", objective="calibration")
    np.testing.assert_allclose(g.transform([0.2, 0.7]), [0.4, 0.9], atol=0.01)
    found = g.intervals(certified_at(lower, upper, correct)).worst_case().value
    assert found < 0.01  # within the grid of levels, and what a step rises


def certified_at(lower, upper, correct):
    places = np.arange(len(lower))
    return certcal.certificates.ConfidenceIntervals(
        lower=lower, upper=upper, confidence=lower, predicted=places * 0, correct=correct, index=places,
        label=np.where(correct, 0, 1), certified=np.ones(len(lower), dtype=bool), certified_radius=np.ones(len(lower)),
        radius=0.1, alpha=0.0, method="by hand",
    )  # fmt: skip


def test_order_is_kept_and_levels_are_steps(bounds):
    g = fitted(bounds, clean_weight=0.8)
    own = g.intervals(bounds[1])
    assert isinstance(g, StepsMap)
    assert Ranks.of(own.confidence, own.correct).auroc == Ranks.of(bounds[1].confidence, bounds[1].correct).auroc
    assert score_bounds(own).levels <= STEPS
    inside = (g.low <= own.lower[:, None]) & (own.lower[:, None] <= g.high)
    assert inside.any(axis=1).all()


def test_the_certified_error_is_that_of_the_steps(bounds):
    """Forgetting the bands gives an upper bound, and a larger one here."""
    own = fitted(bounds, clean_weight=0.9).intervals(bounds[1])
    assert own.worst_case().value < replace(own, bands=None).worst_case().value - 0.01
    with pytest.warns(CertcalWarning, match="fitted on these inputs"):
        (row,) = certcal.evaluate(own, population="all").rows
    assert math.isnan(row.population_ece)
    assert row.certified_ece == own.worst_case(population="all").value
    assert row.joint_ece >= row.certified_ece


@pytest.mark.parametrize("seed", range(5))
def test_the_last_bits_of_a_confidence_do_not_choose_its_step(seed):
    """A deployed confidence has other last bits than the one that the map was fitted to."""
    own = np.random.default_rng(seed)
    confidence = own.uniform(0.3, 1.0, 200)
    right = own.random(200) < confidence
    lower, upper = np.clip([confidence - 0.02, confidence + 0.02], 0.0, 1.0)
    g = recalibrate(lower, upper, right, confidence=confidence, method="steps")
    for values in (confidence, lower, upper):
        for off in (-1e-9, 1e-9):
            assert np.abs(g.transform(np.clip(values + off, 0, 1)) - g.transform(values)).max() < 1e-6


def test_values_that_differ_by_last_bits_are_of_one_step():
    """Such as one number that two ways to add gave: all right ones here are an ulp above all wrong ones."""
    confidence = np.repeat([0.7, np.nextafter(0.7, 1.0)], 50)
    right = np.arange(100) >= 50
    g = recalibrate(confidence, confidence, right, confidence=confidence, method="steps", clean_weight=0.5)
    assert len(g.cuts) == 0
    apart = np.repeat([0.7, 0.7 + 1e-6], 50)
    h = recalibrate(apart, apart, right, confidence=apart, method="steps", clean_weight=0.5)
    assert h.cuts == pytest.approx([0.7 + 5e-7], abs=1e-9)


@examples(60)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(0, 3))
def test_cuts_are_strictly_between_the_values(values, ulps):
    """However near they are: data are rounded to a grid, which has floats between its points."""
    near = np.array([*values, 0.0, 1.0, 0.7, 2.0**-32, 2.0**-33] * 4)
    for _ in range(ulps):
        near[len(near) // 2 :] = np.nextafter(near[len(near) // 2 :], 1.0)
    right = np.arange(len(near)) % 2 == 0
    data = data_from_arrays(near, near, right, near[::-1], 0.5, n_bins=15, edges=None)
    every = np.concatenate([data.confidence, data.problems[0].lower, data.problems[0].upper])
    assert np.abs(data.problems[0].lower - near).max() <= 2.0**-33
    assert (every * 2.0**32 == np.rint(every * 2.0**32)).all()
    assert not np.isin(_candidates(data), every).any()


def test_a_confidence_that_rounding_put_outside_its_bounds_goes_where_its_bounds_go():
    right = np.arange(40) < 30
    table = {"label": np.ones(40, int), "predicted": right.astype(int), "lower": np.full(40, 0.5),
             "upper": np.full(40, 0.5), "certified": np.ones(40, bool), "confidence": np.full(40, 0.4999995),
             "radius": np.zeros(40)}  # fmt: skip
    g = StepsMap([0.5], [0.1, 0.75], [0.1, 0.75])
    (row,) = certcal.evaluate(intervals_from_table(table, norm="linf", alpha=0), recalibration=g).rows
    own = certcal.expected_calibration_error(g.transform(table["confidence"]), right)
    assert own == pytest.approx(0.65)
    assert row.certified_ece >= own


def test_a_second_map_forgets_the_steps_and_none_keeps_them(bounds):
    own = fitted(bounds, clean_weight=0.8).intervals(bounds[1])
    assert own.select(np.arange(5)).bands is own.bands
    assert recalibrate_bounds(own).intervals(own).bands is None


def test_steps_after_the_share_of_draws_that_reach_a_score(evidence, tmp_path):
    one = Candidate(outside="steps", clean_weight=0.8, reaching=0.5)
    own = one.fit(evidence, radii=(0.1,), **TERMS)
    assert isinstance(own, FullMap)
    assert one.name == "share of scores ≥ about 0.5, then steps, λ = 0.8"
    assert set(np.unique(own.inside.levels)) == {0.0, 1.0}
    assert own.about["model"] == evidence.header.model
    save_map(own, tmp_path / "map.json")
    again = load_map(tmp_path / "map.json")
    assert again.parameters() == own.parameters()
    first, second = (g.certify(evidence, radii=0.1, **TERMS)[0].worst_case().value for g in (own, again))
    assert first == second


def test_bounds_choose_among_maps_without_shares(evidence, bounds):
    both = (Candidate(outside="steps"), Candidate(outside="steps", reaching=0.9))
    found = choose_map(bounds, candidates=both, repeats=1)
    assert [one for one, _ in found.tried] == [both[0]]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0.5], [0.1], [0.2]), "Expected `cuts` to be one fewer than the steps, but got 1 for 1."),
        (([0.5], [0.1, 0.4], [0.2]), "Expected `high` to have as many entries as `low` (2), but got 1."),
        (([0.5, 0.5], [0.1] * 3, [0.1] * 3), "Expected `cuts, low and high` to rise from step to step"),
        (([0.0], [0.1, 0.4], [0.2, 0.5]), "Expected `cuts, low and high` to rise from step to step"),
        (([0.5], [0.1, 0.4], [0.45, 0.5]), "Expected `cuts, low and high` to rise from step to step"),
        (([0.5], [0.1, 0.4], [0.05, 0.5]), "Expected `cuts, low and high` to rise from step to step"),
    ],
)
def test_steps_that_fall_are_refused(parts, message):
    with pytest.raises(InputError) as caught:
        StepsMap(*parts)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("score", [0.0, 1.0, -1.0, float("nan"), "x"])
def test_scores_to_reach_are_checked(evidence, score):
    with pytest.raises(InputError, match="Expected `reaching` to"):
        Candidate(outside="steps", reaching=score).fit(evidence, radii=(0.1,), **TERMS)


def test_a_share_comes_with_a_map_of_the_mean_and_no_other_of_scores(evidence):
    for one in (Candidate(reaching=0.9), Candidate("brier", "steps", reaching=0.9)):
        with pytest.raises(InputError, match="Expected `reaching` to come with a map of the mean after it"):
            one.fit(evidence, radii=(0.1,), **TERMS)


def test_a_single_step_is_never_chosen(bounds):
    """It keeps the order, and so the AUROC, of nearly equal confidences."""
    flat = (Candidate(outside="steps", clean_weight=0.0),)
    choice = choose_map(bounds, candidates=flat, auroc_loss=1.0, brier_loss=1.0)
    assert choice.scores[0].auroc == pytest.approx(choice.untouched.auroc)
    assert (choice.chosen == Candidate()) == (choice.scores[0].levels <= 1)


def test_other_maps_forget_the_steps_before_them(bounds):
    own = fitted(bounds, clean_weight=0.8).intervals(bounds[1])
    for options in ({"method": "temperature", "objective": "calibration"}, {"method": "steps", "clean_weight": 0.8}):
        after = [recalibrate_bounds(one, **options).parameters() for one in (own, replace(own, bands=None))]
        assert after[0] == after[1]
