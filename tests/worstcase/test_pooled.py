"""The pooled claim: its inequality, its tangents, and coverage where the truth is known."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from certcal import InputError, allowed_failures, certified_calibration_error, confidence_bounds
from certcal.certificates import ConfidenceIntervals, confidence_bounds_at, share_of_delta
from certcal.recalibration import ScoreMap
from certcal.smoothing import threshold_grid
from certcal.worstcase import jointly_certified_calibration_error, pooled, pooled_calibration_error, pooled_claims
from certcal.worstcase.pooled import _Tangents, split_draws
from certcal.worstcase.problem import choose_few_bins
from smoothing_oracles import evidence, evidence_from_scores

GRID, SPREAD = threshold_grid(), 0.6


def probit(rng, means, draws, *, sigma=0.5, wrong=0.2):
    """Evidence of a model with scores Φ(z), z ~ N(mean, SPREAD²) under noise; a share of its labels is wrong."""
    evidence = evidence_from_scores(
        stats.norm.cdf(rng.normal(means[:, None], SPREAD, (len(means), draws))), sigma=sigma
    )
    return replace(evidence, label=(rng.random(len(means)) >= wrong).astype(np.int64))


def truth(means, radius, sigma=0.5, levels=None):
    """The least and the greatest confidence within R, moving along the one direction that matters, (2, n)."""
    steps, first = (np.diff(GRID)[:-1], 0.0) if levels is None else (np.diff(levels), levels[0])
    at = [means + side * radius * SPREAD / sigma for side in (-1, 1)]
    if levels is None:
        return np.array([stats.norm.cdf(m / np.sqrt(1 + SPREAD**2)) for m in at])
    tails = [stats.norm.sf((stats.norm.ppf(GRID[1:-1]) - m[:, None]) / SPREAD) for m in at]
    return np.array([first + tail @ steps for tail in tails])


@pytest.mark.parametrize(
    ("levels", "radius"),
    [pytest.param(None, 0.4, marks=pytest.mark.slow), (np.repeat([0.1, 0.5, 0.9, 1.0], 64), 0.0)],
)
def test_sums_of_adjusted_bounds_fail_at_no_more_than_their_rate(rng, levels, radius):
    """With one sign vector: Σ of true lower bounds ≥ Σ of adjusted ones − margin, and the same above.

    At R = 0 a step function's tangent is itself, and the rate shows: a third of what is added would fail too often.
    """
    means, delta, failed, short = rng.normal(1.0, 0.5, 25), 0.1, 0, 0
    low, high = truth(means, radius, levels=levels)
    own = None if levels is None else ScoreMap(levels)
    for repeat in range(250):
        evidence = probit(rng, means, 80)
        pilot, rest = split_draws(evidence, seed=repeat)
        sums = _Tangents(pilot, rest, radius / 0.5, own, np.ones(25, dtype=bool))
        lower, upper, margin = sums.adjusted(0, delta)
        failed += (lower.sum() - margin > low.sum()) + (upper.sum() + margin < high.sum())
        plain = [side.mean.sum() for side in sums.sides]
        third = [(plain[0] - lower.sum() + margin) / 3, (upper.sum() - plain[1] + margin) / 3]
        short += (plain[0] - third[0] > low.sum()) + (plain[1] + third[1] < high.sum())
        assert abs(lower.sum() - low.sum()) < 8
        assert margin > 0
    assert failed / 500 <= delta
    assert radius > 0 or short / 500 > delta


@pytest.mark.slow
def test_the_claim_holds_at_its_level_and_beats_failed_certificates(rng):
    """True worst cases by the exact program at the true ranges, for those the claim counts; 40 sets of 60 inputs."""
    means, radius, delta = rng.normal(1.6, 0.4, 60), 0.15, 0.2
    low, high = truth(means, radius)
    broken, gained = 0, []
    for repeat in range(40):
        evidence = probit(rng, means, 1500)
        claim = pooled_calibration_error(
            evidence, radius=radius, alpha=0.01, delta=delta, population="all", seed=repeat
        )
        broken += claim.value < certified_calibration_error(low, high, evidence.correct).value
        if repeat < 5:
            own = confidence_bounds(evidence, radius=radius, alpha=0.01)
            failures = allowed_failures(own, delta=delta)
            joint = jointly_certified_calibration_error(own, population="all", failures=failures).value
            gained.append(joint - claim.value)
    assert broken <= 0.2 * 40
    assert np.mean(gained) > 0.01


@pytest.mark.parametrize("shift", [0.0, 0.8])
def test_what_is_added_is_that_of_one_exponential_inequality(rng, shift):
    """With ξ ≤ 1 and any λ in [0, 1) fixed before: Σ ξ ≤ (ψ(λ) Σ ξ² + log 1/δ) / λ, ψ(λ) = −log(1 − λ) − λ."""
    pilot, rest = split_draws(probit(rng, rng.normal(1.0, 0.5, 20), 1000), seed=0)
    made = _Tangents(pilot, rest, shift, None, np.ones(20, dtype=bool))
    lower, upper, margin = made.adjusted(3, 0.01)
    unit, tail = made.steepest / made.draws, np.log(2**3 / 0.01)  # what one draw can add to a sum of means
    rate = unit * tail / margin
    assert 0 < rate < 1
    for side, own, sign in zip(made.sides, (lower, upper), (-1, 1), strict=True):
        wanted = (-np.log1p(-rate) - rate) / rate * side.square / made.draws / unit
        np.testing.assert_allclose(sign * (own - side.mean), wanted, rtol=1e-9)


def by_every_sign(first, counted, bins, sums, delta):
    """The value read aloud: for all 2^M signs each input goes where the pilot's bounds earn most, N times the error."""
    lower, upper, margin = sums.adjusted(len(bins), delta)
    pooled, totals = first.certified, []
    ends = list(zip(first.lower[pooled], first.upper[pooled], first.correct[pooled], lower, upper, strict=True))
    for signs in itertools.product((1, -1), repeat=len(bins)):
        total = 0.0
        for low, high, right, own_low, own_high in ends:
            options = []  # what the pilot's bounds earn, and what counts for it
            for m in range(bins.assign(np.array([low]))[0], bins.assign(np.array([high]))[0] + 1):
                z, at = (low, own_low) if signs[m] > 0 else (high, own_high)
                edge = bins.edges[m] if signs[m] > 0 else bins.edges[m + 1]
                inside = edge <= low if signs[m] > 0 else edge > high
                options.append(
                    (signs[m] * (right - (z if inside else edge)), signs[m] * (right - (at if inside else edge)))
                )
            total += max(options)[1]
        best = max(max(1 - bins.edges[m] if sign > 0 else bins.edges[m + 1] for m, sign in enumerate(signs)), 0.0)
        totals.append(total + np.minimum(best, first.farthest[counted & ~pooled]).sum())
    return (max(*totals, 0.0) + margin + (pooled & ~counted).sum()) / counted.sum()


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(one, marks=pytest.mark.slow) for one in range(6, 40))])
def test_the_claim_is_that_of_every_sign_vector(seed):
    rng = np.random.default_rng(seed)
    drawn = probit(rng, rng.normal(0.8, 0.9, 7), 400, wrong=0.4)
    counted, delta = rng.random(7) < 0.8, 0.5
    bins, radius = choose_few_bins(int(rng.integers(2, 5)), None), float(rng.choice([0.0, 0.1, 0.3]))
    (claim,) = pooled_claims(drawn, [(radius, counted)], delta=delta, edges=bins.edges, seed=seed)
    spent = delta * share_of_delta(drawn)
    pilot, rest = split_draws(drawn, seed=seed)
    level = float(-np.expm1(np.log1p(-spent / 2) / 7))
    (first,) = confidence_bounds_at(pilot, radii=[radius], alpha=level)
    sums = _Tangents(pilot, rest, radius / 0.5, None, first.certified)
    wanted = by_every_sign(first, counted, bins, sums, spent / 2)
    assert claim.value == pytest.approx(min(wanted, 1.0), abs=1e-9)
    assert claim.value >= min(wanted, 1.0)


def test_parts_of_the_draws_are_independent_samples(rng):
    evidence = probit(rng, rng.normal(1, 1, 3), 400)
    pilot, rest = split_draws(evidence, seed=3)
    np.testing.assert_array_equal(pilot.histogram + rest.histogram, evidence.histogram)
    assert (pilot.draws == 300).all()
    shares = np.array([split_draws(evidence, seed=s)[0].histogram[0, 200:].sum() for s in range(300)])
    np.testing.assert_allclose(shares.mean(), 0.75 * evidence.histogram[0, 200:].sum(), rtol=0.03)
    np.testing.assert_array_equal(pilot.votes[:, 1], pilot.histogram[:, 129:].sum(axis=1))  # s_128 = 1/2 is no majority


def test_certified_inputs_and_what_it_is_made_of(rng):
    evidence = probit(rng, rng.normal(1.0, 0.8, 80), 1000)
    claim = pooled_calibration_error(evidence, radius=0.2, alpha=0.01, delta=0.01)
    kept = confidence_bounds(evidence, radius=0.2, alpha=0.01).certified
    assert claim.inputs == kept.sum()
    assert 0 < claim.pooled <= claim.inputs
    assert 0 < claim.sampling < claim.value <= 1
    constant = ScoreMap(np.full(256, 0.8))
    flat = pooled_calibration_error(evidence, radius=0.2, alpha=0.01, delta=0.01, score_map=constant)
    assert flat.value < claim.value


def test_numbers_of_draws_that_differ_or_were_not_planned_are_refused(rng):
    evidence = probit(rng, rng.normal(1, 1, 4), 100)
    more = evidence.histogram.copy()
    more[0, 0] += 1
    votes = evidence.votes + (np.arange(4) == 0)[:, None] * np.array([1, 0])
    other = replace(evidence, draws=more.sum(axis=1), histogram=more, votes=votes)
    with pytest.raises(InputError, match="the same planned number of draws"):
        pooled_calibration_error(other, radius=0.1, alpha=0.01, delta=0.01, population="all")
    late = replace(evidence, header=replace(evidence.header, stages=(50,)))
    with pytest.raises(InputError, match="the same planned number of draws"):
        pooled_calibration_error(late, radius=0.1, alpha=0.01, delta=0.01, population="all")


@pytest.mark.parametrize(
    "counted", [np.arange(20), np.ones(19, dtype=bool), [1] * 20, "all", np.ones((20, 1), dtype=bool)]
)
def test_what_is_no_mask_is_refused(rng, counted):
    evidence = probit(rng, rng.normal(1.0, 0.5, 20), 200)
    with pytest.raises(InputError, match=r"`questions` to have masks of booleans, one for each of the 20 inputs"):
        pooled_claims(evidence, [(0.1, counted)], delta=0.01)
    every = [True] * 20
    assert pooled_claims(evidence, [(0.1, every)], delta=0.01)[0].inputs == 20


def test_radii_share_delta_and_one_pilot(rng):
    """Each of three radii has a third of what is left of δ: the logarithm in the margin shows it."""
    evidence, every = probit(rng, rng.normal(1.0, 0.5, 60), 2000), np.ones(60, dtype=bool)
    (one,) = pooled_claims(evidence, [(0.1, every)], delta=0.01)
    three = pooled_claims(evidence, [(0.1, every)] * 3, delta=0.01)
    tails = [15 * np.log(2) - np.log(0.01 * share_of_delta(evidence) / 2 / count) for count in (1, 3)]
    assert len({claim.value for claim in three}) == 1
    assert three[0].value > one.value
    assert three[0].pooled == one.pooled
    assert three[0].sampling / one.sampling == pytest.approx(np.sqrt(tails[1] / tails[0]), rel=1e-6)
    nobody, again = pooled_claims(evidence, [(0.1, ~every), (0.1, every)], delta=0.01)
    assert nobody is None
    assert one.value < again.value < three[0].value


def test_noise_that_is_not_quite_normal_is_paid_for_by_every_pooled_input(rng):
    """At R = 0 tangents are the score itself, so that a mean is off by as much as one draw is in total variation."""
    exact = probit(rng, rng.normal(1.5, 0.3, 50), 2000)
    drawn = replace(exact, header=replace(exact.header, noise="philox-2", elements=10**7))
    claims = [
        pooled_calibration_error(own, radius=0.0, alpha=0.01, delta=0.01, population="all") for own in (exact, drawn)
    ]
    assert claims[0].pooled == claims[1].pooled == 50
    assert drawn.header.slip > 1e-4
    assert claims[1].sampling - claims[0].sampling == pytest.approx(drawn.header.slip, rel=1e-3)
    assert claims[1].value > claims[0].value


@pytest.mark.parametrize("shift", [0.0, 0.4, 2.0])
def test_tangents_are_moved_outward_past_their_rounding(shift):
    """Where a tangent touches, it is the bound itself: one pilot draw and four others have the same shares there."""
    pilot, rest = np.zeros((1, 256), dtype=np.int64), np.zeros((1, 256), dtype=np.int64)
    pilot[0, 100] = 1  # shares (1 + ½) / 2 up to threshold 100, ½ / 2 beyond it
    rest[0, [0, 100, 255]] = 1, 2, 1
    made = _Tangents(evidence(pilot), evidence(rest), shift, None, np.ones(1, dtype=bool))
    share = np.where(np.arange(1, 256) <= 100, 0.75, 0.25)
    steps = np.diff(GRID)
    lower = stats.norm.cdf(stats.norm.ppf(share) - shift) @ steps[:-1]
    upper = GRID[1] + stats.norm.cdf(stats.norm.ppf(share) + shift) @ steps[1:]
    assert 1e-11 < lower - made.sides[0].mean[0] < 1e-8
    assert 1e-11 < made.sides[1].mean[0] - upper < 1e-8


def test_all_pilots_hold_together(rng, monkeypatch):
    """Half of δ is for limits of N inputs at once, which are independent: (1 − level)^N = 1 − δ / 2."""
    asked = []

    def certify(part, **options):
        asked.append(options["alpha"])
        return confidence_bounds_at(part, **options)

    monkeypatch.setattr(pooled, "confidence_bounds_at", certify)
    drawn = probit(rng, rng.normal(1.0, 0.5, 30), 400)
    pooled_claims(drawn, [(0.1, np.ones(30, dtype=bool))], delta=0.02)
    assert asked == pytest.approx([1 - (1 - 0.01 * share_of_delta(drawn)) ** (1 / 30)], rel=1e-9)


def test_whoever_is_pooled_and_not_counted_costs_one_input(rng):
    drawn, every = probit(rng, rng.normal(1.5, 0.3, 60), 2000), np.ones(60, dtype=bool)
    fewer = every & (np.arange(60) > 1)
    (whole,), (part,) = (pooled_claims(drawn, [(0.1, some)], delta=0.01) for some in (every, fewer))
    assert whole.pooled == part.pooled == 60
    assert part.inputs == 58
    assert 58 * part.value == pytest.approx(60 * whole.value + 2, abs=1e-6)


def test_what_is_known_of_inputs_that_are_not_pooled_counts(rng, monkeypatch):
    drawn = probit(rng, np.append(rng.normal(1.5, 0.3, 40), np.full(20, 0.1)), 2000, wrong=0.0)
    terms = {"radius": 0.1, "alpha": 0.01, "delta": 0.01, "population": "all"}
    known = pooled_calibration_error(drawn, **terms)
    assert known.pooled == 40
    monkeypatch.setattr(ConfidenceIntervals, "farthest", property(lambda own: np.ones(len(own))))
    free = pooled_calibration_error(drawn, **terms)
    assert known.value < free.value - 0.05


@pytest.mark.parametrize("shift", [0.3, 1.5])
def test_tangents_stay_outside_the_bounds_of_every_distribution(rng, shift):
    """The lower bound is convex in the distribution and the upper one concave: a line that touches never crosses."""
    pilot, rest = (rng.multinomial(40, rng.dirichlet(np.full(256, 0.1), 50)) for _ in range(2))
    made = _Tangents(evidence(pilot), evidence(rest), shift, None, np.ones(50, dtype=bool))
    share = rest[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] / 40
    steps = np.diff(GRID)
    assert (made.sides[0].mean < stats.norm.cdf(stats.norm.ppf(share) - shift) @ steps[:-1]).all()
    assert (made.sides[1].mean > GRID[1] + stats.norm.cdf(stats.norm.ppf(share) + shift) @ steps[1:]).all()


def test_what_is_no_evidence_is_refused():
    with pytest.raises(InputError, match=r"Expected `evidence` to be an? Evidence"):
        pooled_claims(np.zeros(3), [(0.1, np.ones(3, dtype=bool))], delta=0.1)
