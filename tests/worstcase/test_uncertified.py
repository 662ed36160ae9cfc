"""Uncertified inputs: what their bounds still say, against enumeration of all they may do."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from certcal import (
    ConfidenceIntervals,
    Kind,
    certified_brier_score,
    certified_calibration_error,
    confidence_bounds,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
    population_bound,
)
from certcal.metrics import choose_bins
from certcal.recalibration import BetaMap, ScoreMap
from certcal.worstcase import WorstCaseProblem, certified_log_score, certified_overconfidence
from laws import examples
from smoothing_oracles import evidence_from_scores, random_evidence

BINS = choose_bins(3, None)


@st.composite
def certificates(draw, most=4):
    """A few certificates with bounds on hundredths; some inputs are not certified, and some are known to stay low."""
    count = draw(st.integers(1, most))
    pairs = [sorted(draw(st.tuples(st.integers(0, 100), st.integers(0, 100)))) for _ in range(count)]
    lower, upper = (np.array(side) / 100 for side in zip(*pairs, strict=True))
    flags = np.array([draw(st.tuples(st.booleans(), st.booleans())) for _ in range(count)])
    least = draw(st.sampled_from([0.0, 0.1]))
    other = np.maximum(np.array([draw(st.integers(0, 100)) for _ in range(count)]) / 100, least)
    return intervals(lower, upper, flags[:, 0], flags[:, 1], other, least)


def intervals(lower, upper, correct, certified, other, least=0.0):
    count = len(lower)
    return ConfidenceIntervals(
        lower=lower, upper=upper, confidence=lower, predicted=np.zeros(count, int), correct=correct,
        index=np.arange(count), label=(~correct).astype(int), certified=certified,
        certified_radius=certified.astype(float), radius=0.5, alpha=0.001, method="cdf-cp", other=other, least=least,
    )  # fmt: skip


def positions(low, high):
    """Where in an interval the calibration error can be largest: its ends, and both sides of the edges in it."""
    return {low, high, *(z for z in (*BINS.edges, *BINS.tops) if low <= z <= high)}


def choices(own, n, *, free=False):
    """Every (correct, confidence) that input n may have."""
    if free:
        return [(c, z) for c in (0, 1) for z in positions(0.0, 1.0)]
    c = int(own.correct[n])
    found = [(c, z) for z in positions(own.lower[n], own.upper[n])]
    if not own.certified[n]:
        news = (0,) if c else (0, 1)
        found += [(new, z) for new in news for z in positions(own.least, own.other[n])]
    return found


def worst(own, measure, failed=()):
    """The largest measure over all that the inputs may do together."""
    every = [choices(own, n, free=n in failed) for n in range(len(own))]
    ways = np.array(list(itertools.product(*every)))  # (ways, n, 2)
    return measure(ways[..., 0], ways[..., 1]).max()


def ece(correct, confidence):
    place = BINS.assign(confidence.ravel()).reshape(confidence.shape)
    gaps = [np.abs(np.where(place == m, correct - confidence, 0.0).sum(axis=1)) for m in range(3)]
    return np.sum(gaps, axis=0) / confidence.shape[1]


def brier(correct, confidence):
    return np.square(correct - confidence).mean(axis=1)


class TestAgainstEnumeration:
    @examples(60)
    @given(certificates(most=3))
    def test_calibration_error_is_never_below_and_never_above_free_inputs(self, own):
        found = certified_calibration_error(own, population="all", n_bins=3)
        kept = own.certified
        free = certified_calibration_error(
            own.lower[kept], own.upper[kept], own.correct[kept], n_bins=3, uncertified=int((~kept).sum())
        )
        assert worst(own, ece) <= found.value + 1e-12
        assert found.value <= free.value + 1e-12
        assert found.kind is (Kind.UPPER if (own.farthest[~kept] < 1).any() else Kind.EXACT)

    @examples(60)
    @given(certificates())
    def test_brier_score_is_exact(self, own):
        found = certified_brier_score(own, population="all").value
        np.testing.assert_allclose(found, worst(own, brier), atol=1e-12)
        assert found >= worst(own, brier)

    @examples(25)
    @given(certificates(most=3), st.integers(1, 2))
    def test_failures_may_be_among_certified_and_uncertified_inputs(self, own, failures):
        ways = list(itertools.combinations(range(len(own)), min(failures, len(own))))
        joint = jointly_certified_calibration_error(own, population="all", n_bins=3, failures=failures)
        assert max(worst(own, ece, failed) for failed in ways) <= joint.value + 1e-12
        score = jointly_certified_brier_score(own, population="all", failures=failures).value
        np.testing.assert_allclose(score, max(worst(own, brier, failed) for failed in ways), atol=1e-12)

    def test_log_score_is_finite_where_nobody_can_be_sure_and_wrong(self):
        own = intervals(np.array([0.6]), np.array([0.9]), np.array([True]), np.array([False]), np.array([0.4]))
        np.testing.assert_allclose(certified_log_score(own, population="all").value, -np.log(0.6))
        assert certified_log_score(replace(own, other=None), population="all").value == np.inf


def test_the_same_where_nothing_is_known(rng):
    """Without bounds of other classes the inputs are free, as they were: by enumeration of the signs in test_exact."""
    lower = rng.random(30) * 0.8
    own = intervals(lower, lower + 0.1, rng.random(30) < 0.7, rng.random(30) < 0.5, None)
    parts = [side[own.certified] for side in (own.lower, own.upper, own.correct)]
    free = int((~own.certified).sum())
    pairs = [
        (f(own, population="all", **more).value, f(*parts, uncertified=free, **more).value)
        for f, more in (
            (certified_calibration_error, {}),
            (jointly_certified_calibration_error, {"failures": 2}),
            (jointly_certified_brier_score, {"failures": 2}),
        )
    ]
    np.testing.assert_allclose(*zip(*pairs, strict=True), atol=1e-13)


def test_a_correct_uncertified_input_costs_what_a_certified_one_does(rng):
    evidence = random_evidence(rng, inputs=80, draws=500, sigma=0.25)
    own = confidence_bounds(evidence, radius=0.3, alpha=0.01)
    assert (~own.certified).sum() > 10
    assert own.correct.all()
    np.testing.assert_allclose(own.farthest, 1 - own.lower, atol=1e-6)
    np.testing.assert_allclose(
        certified_brier_score(own, population="all").value, np.square(1 - own.lower).mean(), atol=1e-5
    )


def test_how_far_an_input_can_be_is_rounded_outward(rng):
    lower = rng.random(200) / 3  # whose distance from 1 is no float
    own = intervals(lower, np.ones(200), np.ones(200, bool), np.zeros(200, bool), np.zeros(200))
    assert all(
        Fraction(far) >= 1 - Fraction(low) for far, low in zip(own.farthest.tolist(), lower.tolist(), strict=True)
    )


@pytest.mark.parametrize(("outputs", "slack"), [("logits", 2.0**-20), ("probabilities", 1e-3)])
def test_probabilities_of_a_draw_may_add_up_to_a_little_more_than_one(rng, outputs, slack):
    evidence = random_evidence(rng, inputs=20, draws=500)
    evidence = replace(evidence, header=replace(evidence.header, outputs=outputs))
    own = confidence_bounds(evidence, radius=0.1, alpha=0.01)
    np.testing.assert_allclose(own.other, np.minimum(1 - own.lower + slack, 1), rtol=0, atol=1e-12)
    assert (own.other < 1).any()


def test_certificates_fail_where_most_was_known():
    far = np.array([0.9, 0.2, 0.5])
    own = WorstCaseProblem(np.empty(0), np.empty(0), np.empty(0, bool), BINS, 3, far)
    assert own.after_failures(1).farthest.tolist() == [1.0, 0.5, 0.9]
    assert own.after_failures(5).farthest.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("own_map", ["none", "score", "beta"])
def test_other_classes_stay_below_their_bound_in_a_probit_model(rng, own_map):
    """Two classes with scores Φ(z) and 1 − Φ(z), z ~ N(m, s²): within R the mean of z moves by R s / σ."""
    sigma, spread, radius, sample = 0.5, 0.8, 0.6, 4000
    for mean in (-0.3, 0.2, 1.0):
        scores = stats.norm.cdf(rng.normal(mean, spread, (1, 2000)))
        levels = np.sort(rng.random(256))
        h = ScoreMap(levels) if own_map == "score" else None
        found = confidence_bounds(evidence_from_scores(scores, sigma=sigma), radius=radius, alpha=0.01, score_map=h)
        g = BetaMap(0.5, 1.5, 0.2)
        found = g.intervals(found) if own_map == "beta" else found
        z = mean - radius * spread / sigma + spread * stats.norm.ppf((np.arange(sample) + 0.5) / sample)
        others = 1 - stats.norm.cdf(z)
        truth = (others if h is None else h.transform(others)).mean()
        truth = g.transform([truth])[0] if own_map == "beta" else truth
        assert truth <= found.other[0] + 1e-4
        assert found.other[0] <= truth + 0.25  # and it says something
        assert found.least == (levels[0] if h is not None else found.least)


def test_the_population_bound_uses_it_and_holds(rng):
    """All inputs of the population are right, uncertified, and within 0.3 of right: no attack earns more."""
    sample = np.full(400, 0.7)
    own = intervals(sample, sample + 0.2, np.ones(400, bool), np.zeros(400, bool), np.full(400, 0.3))
    bound = population_bound(own, delta=0.01)
    assert 0.3 <= bound.value <= 0.3 + 2 * 0.001 + 0.08
    assert population_bound(replace(own, other=None), delta=0.01).value == 1.0


@pytest.mark.parametrize("certified", [0, 4])
def test_one_sided_errors_allow_for_failures_of_uncertified_inputs(certified):
    """Of 60 right inputs at most 0.6 away, nine that fail are 1 away; before, no more could fail than are certified."""
    held = np.arange(60) < certified
    own = intervals(np.full(60, 0.6), np.full(60, 0.6), np.ones(60, bool), held, np.full(60, 0.6))
    found = certified_overconfidence(own, population="all", failures=9)
    assert found.value >= (9 + (51 - certified) * 0.6) / 60
    assert found.kind == "upper"
