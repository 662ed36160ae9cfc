"""Staged sampling with the rule that asks whether radii are decided; and what it saves."""

import numpy as np
import pytest

from certcal import InputError, collect_evidence
from certcal.certificates import PAPER, StopWhenDecided, confidence_bounds
from smoothing_models import small_data, small_model
from smoothing_oracles import ProbitModel

SETTINGS = {"sigma": 0.3, "n0": 20, "chunk": 50}


def sample(rule=None, **options):
    stages = None if rule is None else [200, 1000, 4000]
    data, settings = small_data(30), SETTINGS | options
    return collect_evidence(small_model(), data, n=4000, stages=stages, stop=rule, **settings)


def test_stopped_inputs_are_decided_and_the_rest_went_on():
    rule = StopWhenDecided(radii=(0.05, 0.2), alpha=0.01)
    evidence = sample(rule)
    assert evidence.header.looks == 3
    assert len(set(evidence.draws.tolist())) > 1
    assert rule(evidence)[evidence.draws < 4000].all()
    assert evidence.draws_saved(4000) == 30 * 4000 - evidence.draws.sum() > 0


@pytest.mark.slow
def test_narrower_intervals_need_more_draws():
    draws = [sample(StopWhenDecided(radii=0.05, alpha=0.01, width=width)).draws.sum() for width in (1.0, 0.05, 0.02)]
    assert draws == sorted(draws)
    assert draws[0] < draws[-1]


def test_hopeless_inputs_stop_at_the_first_look(rng):
    evidence = ProbitModel(margin=-1.5, slope=1.0, sigma=0.5).evidence(rng, inputs=5, draws=1000)
    # The selected class wins one draw in a thousand: it has no majority and never will.
    assert StopWhenDecided(radii=(0.0, 0.5), alpha=0.001)(evidence).all()


@pytest.mark.slow
def test_staged_certificates_agree_with_full_ones_where_both_decide():
    rule = StopWhenDecided(radii=(0.05,), alpha=0.01)
    staged, full = (confidence_bounds(part, radius=0.05, alpha=0.01) for part in (sample(rule), sample()))
    assert (staged.certified <= full.certified).all()
    assert (staged.lower <= full.upper).all()
    assert (full.lower <= staged.upper).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radii": ()}, "Expected `radii` to hold at least one value, but got none."),
        ({"radii": -1.0}, "Expected `radii` to be finite and ≥ 0, but got -1.0."),
        ({"alpha": 0}, "Expected `alpha` to lie in the open interval (0, 1), but got 0."),
        ({"width": 0.0}, "Expected `width` to lie in (0, 1], but got 0.0."),
        ({"method": "x"}, "Expected `method` to be one of 'standard', 'standard-bernstein', 'cdf'"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError) as caught:
        StopWhenDecided(**({"radii": 0.1, "alpha": 0.1} | options))
    assert str(caught.value).startswith(message)


@pytest.mark.slow
def test_coverage_survives_stopping_when_it_looks_good(rng):
    """The rule stops at whichever look first certifies; with alpha split over the looks, misses stay within alpha."""
    alpha, repetitions, looks = 0.2, 1500, (60, 120, 240)
    truth_radius_exceeded = 0
    p = 0.7  # true majority: the true radius is σ Φ⁻¹(0.7)
    from scipy.special import ndtri

    from certcal import certified_radius

    for _ in range(repetitions):
        votes = np.cumsum(rng.random(looks[-1]) < p)
        radii = [certified_radius(int(votes[n - 1]), n, sigma=1.0, alpha=alpha / len(looks)) for n in looks]
        truth_radius_exceeded += np.nanmax([*radii, 0.0]) > ndtri(p)
    assert truth_radius_exceeded / repetitions <= alpha


def test_a_certified_radius_of_exactly_r_counts(rng):
    evidence = ProbitModel(margin=1.0, slope=1.0, sigma=0.5).evidence(rng, inputs=3, draws=500)
    at_zero = confidence_bounds(evidence, radius=0.0, alpha=0.01)
    for radius in at_zero.certified_radius:
        assert (
            confidence_bounds(evidence, radius=float(radius), alpha=0.01)
            .certified[at_zero.certified_radius == radius]
            .all()
        )


def test_nobody_is_hopeless_when_the_runner_up_is_bounded(rng):
    evidence = ProbitModel(margin=-1.5, slope=1.0, sigma=0.5).evidence(rng, inputs=5, draws=1000)
    assert not StopWhenDecided(radii=0.1, alpha=0.001, runner_up="bounded")(evidence).any()


@pytest.mark.slow
def test_the_papers_preset():
    evidence = sample()
    paper = confidence_bounds(evidence, radius=0.05, alpha=0.01, **PAPER)
    assert (paper.method, paper.split_alpha) == ("cdf", False)
    with pytest.raises(InputError, match="Expected `split_alpha` to be True or False, but got 'paper'"):
        confidence_bounds(evidence, radius=0.05, alpha=0.01, split_alpha="paper")
