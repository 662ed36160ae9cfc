"""Certificates hold however often one looks: planned looks by their number of draws, all others at once."""

import dataclasses
import json

import mpmath as mp
import numpy as np
import pytest
from experiments.looks import widths
from scipy import stats

from certcal import confidence_bounds, population_bound
from certcal.certificates import (
    PLANNED_SHARE,
    Method,
    RunnerUp,
    StopWhenDecided,
    certify_radii,
    predict_classes,
    share_of_delta,
)
from certcal.means import anytime_limits, anytime_p_value
from certcal.proportions import clopper_pearson
from places import ROOT
from smoothing_oracles import ProbitModel, evidence, evidence_from_scores

MODEL = ProbitModel(margin=0.8, slope=2.0, sigma=0.5)
LOOKS = (100, 200, 400, 800, 1600)


def planned(found, *stages):
    """The same evidence with another plan."""
    return dataclasses.replace(found, header=dataclasses.replace(found.header, looks=len(stages), stages=stages))


def allowed(alpha, repetitions):
    return alpha + 4 * np.sqrt(alpha * (1 - alpha) / repetitions)


class TestAnytimeLimits:
    @pytest.mark.parametrize("n", [1, 7, 1000, 100_000])
    @pytest.mark.parametrize("alpha", [0.05, 1e-7, 1e-250])
    def test_everything_outside_them_is_refuted_in_exact_arithmetic(self, n, alpha):
        mp.mp.dps = 50
        counts = sorted({0, 1, n // 100, n // 2, n - 1, n})
        for s, lower, upper in zip(
            counts, *(part.tolist() for part in anytime_limits(counts, n, alpha=alpha)), strict=True
        ):
            assert 0 <= lower <= s / n <= upper <= 1
            bets = mp.log(mp.beta(s + mp.mpf(1) / 4, n - s + mp.mpf(1) / 4) / mp.beta(mp.mpf(1) / 4, mp.mpf(1) / 4))
            for p in (mp.mpf(end) for end in (lower, upper) if 0 < end < 1):
                wealth = bets - s * mp.log(p) - (n - s) * mp.log(1 - p)
                assert 0 <= wealth + mp.log(mp.mpf(alpha)) < 0.05

    @pytest.mark.parametrize("p", [0.3, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.003, 0.98))])
    def test_of_many_sequences_few_ever_leave_them(self, rng, p):
        """Looked at after every ten of 600 draws; fixed limits, looked at as often, are left by many."""
        alpha, repetitions = 0.1, 4000
        counts = np.cumsum(rng.random((repetitions, 600)) < p, axis=1)
        left = {limits: np.zeros(repetitions, dtype=bool) for limits in (anytime_limits, clopper_pearson)}
        for n in range(10, 601, 10):
            for limits, ever in left.items():
                lower, upper = (part[counts[:, n - 1]] for part in limits(np.arange(n + 1), n, alpha=alpha))
                ever |= (lower > p) | (upper < p)
        assert 0 < left[anytime_limits].mean() <= allowed(alpha, repetitions)
        assert left[clopper_pearson].mean() > 1.5 * alpha or p < 0.01

    def test_means_of_scores_are_covered_as_proportions_are(self, rng):
        sums = np.cumsum(rng.beta(0.3, 0.1, size=(2000, 400)), axis=1)[:, 19::20]
        lower, upper = anytime_limits(sums, np.broadcast_to(np.arange(20, 401, 20), sums.shape), alpha=0.1)
        assert ((lower > 0.75) | (upper < 0.75)).any(axis=1).mean() <= allowed(0.1, 2000)
        assert (upper - lower)[:, -1].max() < 0.25

    def test_a_sum_that_may_be_off_widens_them(self):
        exact, off = (anytime_limits(300.0, 1000, alpha=0.01, rounding=by) for by in (0.0, 0.5))
        assert off[0] < exact[0] < exact[1] < off[1]

    def test_no_trials_say_nothing(self):
        assert [part.tolist() for part in anytime_limits([0], [0], alpha=0.5)] == [[0.0], [1.0]]

    def test_p_values_of_a_majority_hold_at_all_times(self, rng):
        counts = np.cumsum(rng.random((3000, 500)) < 0.5, axis=1)
        p_value = anytime_p_value(counts, np.broadcast_to(np.arange(1, 501), counts.shape))
        assert 0 < (p_value.min(axis=1) <= 0.2).mean() <= allowed(0.2, 3000)
        assert anytime_p_value([400], [500]) < 1e-30
        assert anytime_p_value([250, 100], [500, 500]).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "method", [own if own == Method.CDF_CP else pytest.param(own, marks=pytest.mark.slow) for own in Method]
)
def test_whoever_adds_draws_until_it_looks_good_is_covered(rng, method):
    """At the first look at which a claim is false, the adder stops: at most alpha of them ever get there."""
    alpha, inputs = 0.05, 1500
    scores = stats.norm.cdf(rng.normal(MODEL.margin, MODEL.sigma * MODEL.slope, size=(inputs, LOOKS[-1])))
    wrong, naive = np.zeros(inputs, dtype=bool), np.zeros(inputs, dtype=bool)
    for n in LOOKS:
        found = evidence_from_scores(scores[:, :n], sigma=MODEL.sigma)
        for radius in (0.0, 0.3):
            own = confidence_bounds(planned(found, LOOKS[0]), radius=radius, alpha=alpha, method=method)
            low, high = MODEL.confidence(-radius), MODEL.confidence(radius)
            wrong |= (own.lower > low) | (own.upper < high) | (own.certified_radius > MODEL.radius())
        naive |= certify_radii(found, alpha=alpha).radius > MODEL.radius()
    assert wrong.mean() <= alpha
    assert naive.mean() > 1.5 * alpha  # every look as if it were the only one


@pytest.mark.slow
def test_looks_at_times_chosen_by_what_was_seen_are_covered(rng):
    """A look after every chunk, and any number of them: the plan's end is one look, the others one event together."""
    alpha, inputs = 0.1, 2000
    votes = np.cumsum(rng.random((inputs, 1500)) < MODEL.vote(), axis=1)
    wrong = np.zeros(inputs, dtype=bool)
    for n in range(50, 1501, 50):
        table = np.column_stack([n - votes[:, n - 1], votes[:, n - 1]])
        found = evidence(np.eye(256, dtype=int)[[200] * inputs] * n, votes=table, sigma=MODEL.sigma)
        for rule in RunnerUp:
            wrong |= certify_radii(planned(found, 500), alpha=alpha, runner_up=rule).radius > MODEL.radius()
    assert 0 < wrong.mean() <= allowed(alpha, inputs)


@pytest.mark.parametrize("method", Method)
def test_planned_looks_share_nine_tenths_and_others_get_wider(rng, method):
    found = MODEL.evidence(rng, inputs=4, draws=400)
    plain = planned(found, 400)
    staged = confidence_bounds(planned(found, 100, 200, 400), radius=0.1, alpha=0.09, method=method)
    single = confidence_bounds(plain, radius=0.1, alpha=0.03, method=method)
    for name in ("lower", "upper", "certified_radius"):
        np.testing.assert_allclose(getattr(staged, name), getattr(single, name), rtol=1e-12)
    added = confidence_bounds(planned(found, 300), radius=0.1, alpha=0.03, method=method)
    if method not in (Method.STANDARD, Method.CDF):  # whose own limits are wider than these
        assert (added.upper - added.lower > single.upper - single.lower).all()
    assert (added.certified_radius < single.certified_radius).all()
    assert PLANNED_SHARE == 0.9


def test_inputs_at_planned_and_at_other_looks_are_certified_as_if_alone(rng):
    parts = [MODEL.evidence(rng, inputs=3, draws=draws) for draws in (200, 300)]
    whole = evidence(
        np.vstack([part.histogram for part in parts]), votes=np.vstack([part.votes for part in parts]), sigma=0.5
    )
    for method in Method:
        together = confidence_bounds(planned(whole, 200), radius=0.1, alpha=0.05, method=method)
        for rows in (slice(0, 3), slice(3, 6)):
            alone = confidence_bounds(planned(whole.select(rows), 200), radius=0.1, alpha=0.05, method=method)
            for name in ("lower", "upper", "certified_radius"):
                np.testing.assert_allclose(getattr(together, name)[rows], getattr(alone, name), rtol=1e-9)


def test_predictions_at_any_time(rng):
    draws = rng.multinomial(1, [0.32, 0.34, 0.34], size=(1500, 400)).cumsum(axis=1)  # class 0 is not the prediction
    claimed = np.zeros(1500, dtype=bool)
    for n in range(20, 401, 20):
        found = evidence(np.eye(256, dtype=int)[[200] * 1500] * n, votes=draws[:, n - 1])
        made = predict_classes(planned(found, 200), alpha=0.2)
        claimed |= ~made.abstained & (made.predicted == 0)
    assert claimed.mean() <= 0.2
    sure = evidence(np.eye(256, dtype=int)[[200]] * 400, votes=[[20, 360, 20]])
    assert not predict_classes(planned(sure, 200), alpha=0.01).abstained.any()


def test_claims_about_the_population_spend_delta_once(rng):
    found = MODEL.evidence(rng, inputs=3, draws=400)
    assert share_of_delta(planned(found, 100, 400)) == PLANNED_SHARE / 2  # one of two looks
    shares = [share_of_delta(planned(MODEL.evidence(rng, inputs=1, draws=100 * m), 50)) for m in range(1, 30)]
    assert sum(shares) < 1 - PLANNED_SHARE
    assert shares[0] == pytest.approx((1 - PLANNED_SHARE) / 2)


def test_the_page_quotes_the_record():
    """docs/certificates.md shows the figures of experiments/looks.py."""
    record = json.loads((ROOT / "experiments" / "results" / "looks.json").read_text())
    page = (ROOT / "docs" / "certificates.md").read_text()
    for found in record["draws"].values():
        assert f"| {found['draws']:,} | {found['share']:.1%} |" in page
    for row in record["widths"]:
        spent = " / ".join(f"{row[f'look {look}']:.2f}" for look in range(1, 6))
        assert f"| {row['planned']:.3f} | {spent} | {row['any time']:.2f} |" in page
    assert record["widths"] == widths()


def test_the_rule_decides_at_other_looks_too(rng):
    found = planned(MODEL.evidence(rng, inputs=5, draws=3000), 1000)
    assert StopWhenDecided(radii=0.1, alpha=0.001)(found).all()


def test_numbers_of_draws_chosen_across_inputs_leave_nothing_for_the_population(rng):
    """Somebody may have drawn on where all inputs together looked worst: no bound is given then."""
    found = MODEL.evidence(rng, inputs=3, draws=400)
    chosen = dataclasses.replace(found, draws=np.array([400, 400, 200]))
    assert share_of_delta(planned(chosen, 100)) == 0.0
    bounds = confidence_bounds(planned(found, 100), radius=0.1, alpha=0.01)
    none = dataclasses.replace(bounds, delta_share=0.0)
    assert population_bound(none, delta=0.05).value == 1.0
