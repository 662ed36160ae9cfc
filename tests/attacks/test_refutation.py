"""What attacks may say against certificates: sound ones are contradicted no more often than stated."""

import math

import numpy as np
import pytest
from scipy import stats

from certcal import (
    certified_brier_score,
    expected_calibration_error,
)
from certcal.attacks import SmoothedEstimate
from certcal.attacks.refutation import (
    Levels,
    confront,
    contradictions,
    directions,
    least_excess,
    most_brier_of_the_set,
    most_the_estimates_may_show,
)
from certcal.metrics.binning import Bins
from certcal.worstcase import WorstCaseProblem


def estimates(rng, truth, draws, *, votes=None):
    """Fresh estimates of scores that are 0 or 1: the widest that chance can make them."""
    hits = rng.binomial(draws, truth)
    table = np.column_stack([draws - hits, hits]) if votes is None else votes
    return SmoothedEstimate(np.ones(len(truth), dtype=np.int64), draws, hits.astype(float), hits.astype(float), table)


BINS = Bins.equal_width(10)


def bounded(lower, upper, correct=None):
    """Certificates of a set of inputs, all wrong unless it is said."""
    return WorstCaseProblem(lower, upper, np.zeros(len(upper), dtype=bool) if correct is None else correct, BINS)


def speaks_against(finding, judged, correct, allowed=0):
    """Whether a row with this finding would not hold."""
    return (
        finding.contradictions > allowed
        or finding.excess > 0
        or expected_calibration_error(judged.confidence, correct, n_bins=10) > finding.limit_ece
        or np.square(judged.confidence - correct).mean() > finding.limit_brier
    )


@pytest.mark.slow
def test_chance_contradicts_sound_certificates_no_more_often_than_stated(rng):
    # The narrowest sound certificate there is: the truth itself, as a point, with classes that are tied wherever the
    # attack got that far. Three rows share the draws' chances of delta / 2, here 20 %.
    delta, rows, runs = 0.4, 3, 1000
    truth = np.concatenate([np.full(20, 0.5), rng.uniform(0.5, 0.9, 20)])
    correct = rng.random(40) < truth
    options = {"levels": Levels.shared(delta, rows=rows, inputs=40), "allowed": 0}
    missed = 0
    for _ in range(runs):
        looks = [(estimates(rng, truth, 100), rng.binomial(32, truth) / 32) for _ in range(rows)]
        missed += any(
            speaks_against(confront(own, bounded(truth, truth, correct), seen=seen, **options), own, correct)
            for own, seen in looks
        )
    assert 0 < missed <= stats.binom.ppf(1 - 1e-6, runs, delta / 2)


@pytest.mark.slow
@pytest.mark.parametrize("way", [0, 1, 2])
def test_a_sum_of_sound_certificates_is_above_zero_no_more_often_than_stated(rng, way):
    # Each direction at a level of its own, for scores of 0 and 1 and for scores that hardly vary.
    level, runs, inputs, draws = 0.2, 3000, 12, 8
    truth, correct = rng.uniform(0.02, 0.98, inputs), rng.random(inputs) < 0.5
    above = np.zeros(2, dtype=int)
    for _ in range(runs):
        chosen = directions(rng.binomial(32, truth) / 32, bounded(truth, truth, correct))[way]
        small = np.clip(truth[:, None] + rng.uniform(-0.02, 0.02, (inputs, draws)), 0, 1)
        still = SmoothedEstimate(
            np.ones(inputs, int), draws, small.sum(1), np.square(small).sum(1), np.ones((inputs, 2))
        )
        for n, judged in enumerate((estimates(rng, truth, draws), still)):
            above[n] += least_excess(judged, bounded(truth, truth), chosen, level=level, allowed=0) > 0
    assert (above <= stats.binom.ppf(1 - 1e-6, runs, level)).all()


def test_the_excess_of_a_set_is_found_where_no_input_shows_it(rng):
    # At the ends of their true ranges, confidences of certificates that claim only a share of these.
    n, draws, levels = 150, 1000, Levels.shared(0.001, rows=16, inputs=200)
    middle, width = rng.uniform(0.5, 0.85, n), rng.uniform(0.05, 0.15, n)
    correct = rng.random(n) < middle
    truth = np.where(correct, middle - width, middle + width)
    caught = []
    for share in (0.5, 0.6, 0.7, 0.8, 1.0):
        lower, upper = middle - share * width, middle + share * width
        judged, seen = estimates(rng, truth, draws, votes=np.tile([0, draws], (n, 1))), rng.binomial(32, truth) / 32
        found = confront(judged, bounded(lower, upper, correct), seen=seen, levels=levels, allowed=0)
        caught.append((found.excess > 0, found.contradictions > 0))
        gap = np.abs(truth - np.where(correct, lower, upper)).mean()
        assert share == 1.0 or 0 < found.excess <= gap + 1e-3
    assert [by_set for by_set, _ in caught] == [True, True, True, True, False]
    assert [alone for _, alone in caught][-2:] == [False, False]


def test_failures_are_taken_off_the_excess_at_their_worst(rng):
    n, draws = 20, 4000
    upper, truth = np.linspace(0.3, 0.6, n), np.linspace(0.3, 0.6, n)
    truth[:3] = 0.99  # three certificates fail, by as much as they can
    judged = estimates(rng, truth, draws)
    excess = [least_excess(judged, bounded(0 * upper, upper), np.ones(n, int), level=0.01, allowed=k) for k in range(5)]
    assert excess[0] > excess[1] > excess[2] > 0 > excess[3] > excess[4]
    np.testing.assert_allclose(-np.diff(excess), np.sort(1 - upper)[::-1][:4] / n)
    assert least_excess(judged, bounded(upper, upper), np.zeros(n, int), level=0.01, allowed=0) == -1.0
    half = np.arange(n) % 2  # a mean over all inputs, though only some are looked at
    some = least_excess(judged, bounded(0 * upper, upper), half, level=0.01, allowed=0)
    assert some == pytest.approx((judged.confidence - upper)[half > 0].sum() / n, abs=0.02)
    down = least_excess(judged, bounded(truth - 0.1, upper), -np.ones(n, int), level=0.01, allowed=0)
    assert down == pytest.approx(-0.1, abs=0.02)


def test_the_brier_score_of_a_set_is_above_its_limit_no_more_often_than_stated(rng):
    level, runs, n = 0.2, 3000, 6
    upper, correct = rng.uniform(0.3, 0.9, n), np.zeros(n, dtype=bool)
    own = bounded(0 * upper, upper, correct)
    limit = most_brier_of_the_set(own, draws=4, level=level, allowed=0)
    scores = rng.binomial(4, upper, (runs, n)) / 4
    above = int((np.square(scores).mean(axis=1) > limit).sum())
    assert above <= stats.binom.ppf(1 - 1e-6, runs, level)
    # In expectation it is P² + P (1 − P) / m, and what remains is the price of chance.
    assert np.square(scores).mean() == pytest.approx((upper**2 + upper * (1 - upper) / 4).mean(), abs=0.01)
    chance = math.sqrt(2 * math.log(1 / level) / (6 * 10_000))
    expected = (upper**2 + upper * (1 - upper) / 10_000).mean() + chance
    large = most_brier_of_the_set(own, draws=10_000, level=level, allowed=0)
    assert large == pytest.approx(expected, abs=1e-9)
    more = most_brier_of_the_set(own, draws=10**9, level=level, allowed=0)
    assert more == pytest.approx(certified_brier_score(0 * upper, upper, correct).value, abs=1e-3)
    failing = most_brier_of_the_set(own, draws=10**9, level=level, allowed=2)
    assert failing == pytest.approx(more + np.sort(1 - upper**2)[-2:].sum() / n, abs=1e-6)


def test_the_directions_are_those_of_the_errors():
    seen, correct = np.array([0.95, 0.92, 0.12, 0.15, 0.55]), np.array([True, False, True, False, True])
    lower, upper = np.array([0.9, 0.93, 0.1, 0.1, 0.1]), np.array([0.94, 0.95, 0.2, 0.2, 0.6])
    away, gaps, outside = directions(seen, bounded(lower, upper, correct))
    assert away.tolist() == [-1, 1, -1, 1, -1]
    assert gaps.tolist() == [1, 1, -1, -1, -1]  # confidence above accuracy in the last bin, below in the others
    assert outside.tolist() == [1, -1, 0, 0, 0]


def test_levels_add_up_to_half_of_delta():
    own = Levels.shared(0.001, rows=6, inputs=200)
    assert 6 * (200 * own.each + 4 * own.of_sum) == pytest.approx(0.0005)


def test_an_input_is_judged_at_half_its_level_by_confidence_and_at_half_by_votes():
    level, k, draws = 1e-3, 5, 400
    scores = np.full(1, 200.0)
    votes = np.array([[200, 50, 50, 50, 50]])
    own = SmoothedEstimate(np.zeros(1, dtype=np.int64), draws, scores, scores, votes)
    (loose, _), (strict, _) = own.limits(alpha=level), own.limits(alpha=level / 2)
    between = (loose + strict) / 2
    assert not contradictions(own, bounded(0 * between, between), level=level).any()
    assert contradictions(own, bounded(0 * between, strict - 1e-6), level=level).all()
    wide = most_the_estimates_may_show(own, bounded(between - 0.1, between), level=level, allowed=0)[1]
    assert wide == pytest.approx((between + 0.5 - strict).item() ** 2, abs=1e-9)
    # P(X ≤ own) for votes of two classes: half of the level is shared by the k − 1 rivals.
    for rival in range(100, 200):
        votes = np.array([[100, rival, 0, 0, 0]])
        seen = SmoothedEstimate(np.zeros(1, dtype=np.int64), draws, scores, scores, votes)
        chance = stats.binom.cdf(100, 100 + rival, 0.5)
        said = contradictions(seen, bounded(np.zeros(1), np.ones(1)), level=level).item()
        assert said == (chance <= level / 2 / (k - 1)), rival


def test_a_tie_of_two_classes_is_no_contradiction(rng):
    # As many votes for the certified class as for another, in the long run; a third takes the rest.
    level, seen = 0.1, 0
    for _ in range(40):
        votes = rng.multinomial(300, [0.4, 0.4, 0.2], size=50)
        scores = np.full(50, 150.0)
        own = SmoothedEstimate(np.zeros(50, dtype=np.int64), 300, scores, scores / 2, votes)
        seen += int(contradictions(own, bounded(np.zeros(50), np.ones(50)), level=level).sum())
    assert 0 < seen <= stats.binom.ppf(1 - 1e-6, 2000, level / 2)


def test_limits_cover_estimates_at_the_far_end_of_their_bounds(rng):
    # Truth on the upper bound, so that estimates lie outside the bounds half the time; the widened ones hold them.
    truth = rng.uniform(0.2, 0.8, 80)
    lower, correct = truth - 0.15, rng.random(80) < 0.5
    for _ in range(50):
        seen = estimates(rng, truth, 300, votes=np.tile([100, 200], (80, 1)))
        own = bounded(lower, truth, correct)
        ece, brier = most_the_estimates_may_show(seen, own, level=1e-6, allowed=0)
        assert expected_calibration_error(seen.confidence, correct, n_bins=10) <= ece
        assert np.square(seen.confidence - correct).mean() <= brier
        assert not contradictions(seen, own, level=1e-6).any()
    assert contradictions(seen, bounded(truth - 0.9, truth - 0.6), level=1e-6).all()
    some = most_the_estimates_may_show(seen, own, level=1e-6, allowed=4)
    assert some == pytest.approx((min(ece + 0.1, 1.0), min(brier + 0.05, 1.0)))
