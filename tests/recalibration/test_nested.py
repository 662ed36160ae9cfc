"""A map of scores, alone or before one of the mean: judged on inputs left out, and taken where it does better."""

import dataclasses

import numpy as np
import pytest

from certcal import InputError, confidence_bounds
from certcal.recalibration import FullMap, IdentityMap, fit_nested, fit_score_map, recalibrate_bounds, score_bounds
from certcal.recalibration.heldout import split_inputs
from certcal.recalibration.inside import ScoreData
from certcal.recalibration.nested import FOLDS, WAYS, _losses
from certcal.smoothing import cell_middles
from smoothing_oracles import evidence_from_scores, random_evidence

TERMS = {"radii": (0.0,), "alpha": 0.01}


def labelled(scores, right):
    evidence = evidence_from_scores(scores)
    return dataclasses.replace(evidence, label=np.where(right, 1, 0))


def chosen(evidence, **options):
    return fit_nested(evidence, **TERMS, **options).about["before_isotonic"]


@pytest.fixture
def halves():
    """Scores are 0.05 or 0.95, and right is who has more than two thirds of the latter: a step of the mean."""
    rng = np.random.default_rng(1)
    share = rng.uniform(0.3, 1.0, 300)
    scores = np.where(rng.random((300, 400)) < share[:, None], 0.95, 0.05)
    return labelled(scores, (share > 0.66) ^ (rng.random(300) < 0.05))


@pytest.fixture
def widths():
    """All means are 0.6; right are those whose scores never exceed 0.7, as only the scores themselves show."""
    rng = np.random.default_rng(2)
    wide = rng.random(300) < 0.4
    spread = np.where(wide, 0.39, 0.08)
    scores = 0.6 + spread[:, None] * rng.choice([-1.0, 1.0], (300, 400))
    return labelled(scores, wide ^ (rng.random(300) < 0.05))


def test_a_step_of_the_mean_needs_a_map_of_the_mean(halves):
    assert chosen(halves, clean_weight=0.5) is not None
    alone = score_bounds(fit_score_map(halves, clean_weight=0.5, **TERMS).certify(halves, **TERMS)[0])
    own = score_bounds(fit_nested(halves, clean_weight=0.5, **TERMS).certify(halves, **TERMS)[0])
    assert own.certified_brier < alone.certified_brier
    assert own.brier_all < alone.brier_all - 0.05


def test_what_only_scores_show_keeps_their_map(widths):
    assert chosen(widths, clean_weight=0.5) in (None, 1.0)
    own = score_bounds(fit_nested(widths, clean_weight=0.5, **TERMS).certify(widths, **TERMS)[0])
    outer = recalibrate_bounds(confidence_bounds(widths, radius=0.0, alpha=0.01), clean_weight=0.5)
    assert own.certified_brier < score_bounds(outer.certify(widths, **TERMS)[0]).certified_brier - 0.03


@pytest.mark.parametrize(
    "share", [0.4, pytest.param(0.0, marks=pytest.mark.slow), pytest.param(1.0, marks=pytest.mark.slow)]
)
def test_losses_are_those_of_maps_fitted_without_the_input(rng, share):
    """Fold by fold with the public functions, one way after the other; bounds are rounded outward there."""
    found = random_evidence(rng, inputs=150, draws=300)
    evidence = dataclasses.replace(found, label=(rng.random(150) < 0.2 + 0.7 * found.confidence).astype(np.int64))
    radii, weights = (0.0, 0.1), (1.0, 3.0)
    options = {"radii": radii, "alpha": 0.01, "weights": weights, "clean_weight": share}
    losses, slow = _losses(ScoreData.of(evidence, **options)), np.zeros((len(WAYS), 150))
    certified = [confidence_bounds(evidence, radius=radius, alpha=0.01).certified for radius in radii]
    scales = [(1 - share) * weight / 4 * 150 / some.sum() for weight, some in zip(weights, certified, strict=True)]
    for fit, rest in split_inputs(150, folds=FOLDS, repeats=1):
        # The weights of points are those of all inputs, so that losses of folds add up.
        kept = [some[fit].sum() / len(fit) / (some.sum() / 150) for some in certified]
        part = evidence.select(fit)
        total = share + (1 - share) * sum(w / 4 * k for w, k in zip(weights, kept, strict=True))
        inner = {"alpha": 0.01, "radii": radii, "clean_weight": min(share / total, 1.0)}
        inner["weights"] = [w * k for w, k in zip(weights, kept, strict=True)] if share < 1 else weights
        for place, way in enumerate(WAYS):
            own = fit_score_map(part, **inner)
            if way is not None:
                mixed = dataclasses.replace(own, levels=way * own.levels + (1 - way) * cell_middles())
                bounds = mixed.certify(part, radii=radii, alpha=0.01)
                shared = {name: inner[name] for name in ("weights", "clean_weight")}
                own = FullMap(mixed, recalibrate_bounds(bounds, **shared))
            at = own.certify(evidence.select(rest), radii=radii, alpha=0.01)
            right = evidence.correct[rest]
            for bounds, scale in zip(at, scales, strict=True):
                far = np.where(right, bounds.lower, bounds.upper)
                slow[place, rest] += bounds.certified * scale * np.square(far - right)
            slow[place, rest] += share * np.square(at[0].confidence - right)
    np.testing.assert_allclose(losses.mean(axis=1), slow.mean(axis=1), rtol=2e-3, atol=1e-5)


def test_what_cannot_teach_a_map_gives_none_and_says_why(rng):
    few = random_evidence(rng, inputs=10, draws=50)
    own = fit_nested(few, on_failure="identity", **TERMS)
    assert isinstance(own, IdentityMap)
    assert "at least 20" in own.about["reason"]
    with pytest.raises(InputError, match="at least 20"):
        fit_nested(few, **TERMS)


@pytest.mark.parametrize("option", ["objective", "clean_weigth"])
def test_other_options_are_refused_by_name(rng, option):
    with pytest.raises(InputError, match=f"Expected `{option}` to be left out here, but got 'brier'"):
        fit_nested(random_evidence(rng, inputs=10, draws=50), **TERMS, **{option: "brier"})
