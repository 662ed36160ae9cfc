"""Proportion and mean bounds: exact coverage, independent values, and rounding that never helps."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from certcal.errors import InputError
from certcal.means import dkw_half_width, empirical_bernstein, hoeffding
from certcal.proportions import (
    clopper_pearson,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from smoothing_oracles import DIGITS, at_least, at_most, beta_limits


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 0.05, 0.3])
@pytest.mark.parametrize("n", [1, 7, 60])
def test_one_sided_coverage_is_exact_where_it_is_tightest(n, alpha):
    """Just beyond a limit the chance to miss is alpha, to nine digits: neither tail nor level can be off unnoticed."""
    counts = np.arange(n + 1)
    lower, upper = clopper_pearson_lower(counts, n, alpha=alpha), clopper_pearson_upper(counts, n, alpha=alpha)
    for k in counts[1:]:
        missed = stats.binom.pmf(counts, n, np.nextafter(lower[k], 0))[lower >= lower[k]].sum()
        assert alpha * (1 - 1e-7) < missed < alpha
    for k in counts[:-1]:
        missed = stats.binom.pmf(counts, n, np.nextafter(upper[k], 1))[upper <= upper[k]].sum()
        assert alpha * (1 - 1e-7) < missed < alpha


@pytest.mark.parametrize("p", [1e-4, 0.01, 0.3, 0.5, 0.97, 0.9999])
@pytest.mark.parametrize("n", [20, 500])
def test_two_sided_coverage_by_enumeration(n, p):
    counts = np.arange(n + 1)
    lower, upper = clopper_pearson(counts, n, alpha=0.2)
    assert stats.binom.pmf(counts, n, p)[(lower > p) | (upper < p)].sum() <= 0.2


def test_limits_are_those_of_the_beta_quantiles(rng):
    n = rng.integers(1, 100_000, 300)
    k = rng.integers(0, n + 1)
    lower, upper = clopper_pearson(k, n, alpha=0.001)
    wanted = np.array([beta_limits(*pair, 0.001) for pair in zip(k, n, strict=True)])
    np.testing.assert_allclose(lower, wanted[:, 0], rtol=1e-9)
    np.testing.assert_allclose(upper, wanted[:, 1], rtol=1e-9)


def _random_counts(rng, size):
    """Counts of every kind: anywhere, few, all but few, and on a logarithmic scale."""
    for _ in range(size):
        n = int(10 ** rng.uniform(0, 6.5))
        few = int(rng.integers(0, 30))
        k = (int(rng.integers(0, n + 1)), few, n - few, int(n * 10 ** rng.uniform(-6, 0)))[rng.integers(4)]
        yield min(max(k, 0), n), n, float(10 ** rng.uniform(-12, -0.1))


@pytest.mark.slow
def test_limits_stay_outside_the_exact_ones(rng):
    """At every limit the exact tail is below alpha, and a relative 1e-7 further in it is above."""
    with mp.workdps(DIGITS):
        for k, n, alpha in _random_counts(rng, 400):
            lower = float(clopper_pearson_lower(k, n, alpha=alpha))
            upper = float(clopper_pearson_upper(k, n, alpha=alpha))
            assert lower <= k / n <= upper or alpha > 0.4
            if k > 0:
                assert at_least(k, n, lower) <= alpha
                slip = 1e-7 * min(lower, 1 - lower) + 2.0**-51
                assert at_least(k, n, mp.mpf(lower) + slip) > alpha
            if k < n:
                assert at_most(k, n, upper) <= alpha
                slip = 1e-7 * min(upper, 1 - upper) + 2.0**-51
                assert at_most(k, n, mp.mpf(upper) - slip) > alpha


def test_a_limit_survives_an_inverse_that_is_wrong_in_the_eighth_digit():
    """scipy's inverse is 5e-8 too high here, which a fixed margin of 1e-12 would have passed on."""
    with mp.workdps(DIGITS):
        lower = float(clopper_pearson_lower(1000, 16_948_137, alpha=0.047))
        assert at_least(1000, 16_948_137, lower) <= 0.047


def test_limits_at_the_ends():
    lower, upper = clopper_pearson([0, 0, 5], [0, 5, 5], alpha=0.1)
    assert lower[0] == 0.0
    assert lower[1] == 0.0
    assert upper[0] == 1.0
    assert upper[2] == 1.0
    assert clopper_pearson_lower(5, 5, alpha=0.1) == pytest.approx(0.1 ** (1 / 5), rel=1e-9)
    assert clopper_pearson_upper(0, 5, alpha=0.1) == pytest.approx(1 - 0.1 ** (1 / 5), rel=1e-9)


def test_limits_rise_with_the_count():
    for alpha in (1e-6, 0.05):
        lower, upper = clopper_pearson(np.arange(2001), 2000, alpha=alpha)
        assert (np.diff(lower) > 0).all()
        assert (np.diff(upper) > 0).all()


def test_nothing_is_claimed_where_tails_underflow():
    """Binomial tails near the smallest floats have few digits or none: at 1e-320 limits used to be 1e11 too sure."""
    for alpha in (1e-310, 1e-320):
        assert [part.tolist() for part in clopper_pearson([0, 10, 499, 1000], 1000, alpha=alpha)] == [[0] * 4, [1] * 4]
    lower, upper = (float(part) for part in clopper_pearson(10, 1000, alpha=1e-270))
    for p, counts in ((lower, range(10, 1001)), (upper, range(11))):
        p = mp.mpf(p)
        assert mp.fsum(mp.binomial(1000, k) * p**k * (1 - p) ** (1000 - k) for k in counts) <= mp.mpf(1e-270) / 2


def test_limits_at_a_share_of_alpha_cover_all_thresholds_at_once(rng):
    true = np.linspace(0.99, 0.01, 15)
    scores = rng.random((4000, 60, 1))
    lower, upper = clopper_pearson((scores < true).sum(axis=1), 60, alpha=0.2 / 15)
    missed = ((lower > true) | (upper < true)).any(axis=1).mean()
    assert 0.01 < missed <= _allowed(0.2, 4000)


DISTRIBUTIONS = {
    "rare": lambda rng, size: (rng.random(size) < 0.01).astype(float),
    "often": lambda rng, size: (rng.random(size) < 0.97).astype(float),
    "even": lambda rng, size: (rng.random(size) < 0.5).astype(float),
    "uniform": lambda rng, size: rng.random(size),
    "confident": lambda rng, size: rng.beta(20, 1, size),
}
MEANS = {"rare": 0.01, "often": 0.97, "even": 0.5, "uniform": 0.5, "confident": 20 / 21}


def _allowed(alpha, repetitions):
    return alpha + 4 * math.sqrt(alpha * (1 - alpha) / repetitions)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("n", [2, 40, 300])
def test_mean_limits_contain_the_mean_at_their_rate(rng, name, n):
    values = DISTRIBUTIONS[name](rng, (4000, n))
    total, square = values.sum(axis=1), np.square(values).sum(axis=1)
    for lower, upper in (hoeffding(total, n, alpha=0.2), empirical_bernstein(total, square, n, alpha=0.2)):
        assert ((lower > MEANS[name]) | (upper < MEANS[name])).mean() <= _allowed(0.2, 4000)
        assert (lower <= total / n).all()
        assert (upper >= total / n).all()


@pytest.mark.parametrize("n", [30, 400])
def test_dkw_band_holds_everywhere_at_its_rate_and_hardly_more(rng, n):
    """For a continuous distribution Massart's constant is nearly sharp, so a narrower band would be caught."""
    ordered = np.sort(rng.random((4000, n)), axis=1)
    above = (np.arange(1, n + 1) / n - ordered).max(axis=1)
    below = (ordered - np.arange(n) / n).max(axis=1)
    missed = (np.maximum(above, below) > dkw_half_width(n, alpha=0.2)).mean()
    assert 0.12 < missed <= _allowed(0.2, 4000)


def test_mean_limits_stay_outside_the_exact_ones(rng):
    with mp.workdps(DIGITS):
        for _ in range(300):
            n, alpha = int(10 ** rng.uniform(0.4, 5)), float(10 ** rng.uniform(-9, -0.1))
            values = DISTRIBUTIONS[list(DISTRIBUTIONS)[rng.integers(5)]](rng, n)
            if rng.random() < 0.3:
                values = values[0] * 0.9 + 1e-8 * values + 0.01  # hardly any variance: the difference of sums cancels
            total, square = values.sum(), np.square(values).sum()
            exact = [mp.mpf(float(v)) for v in values] if n < 2000 else None
            mean = mp.fsum(exact) / n if exact else mp.mpf(float(math.fsum(values))) / n
            spread = (
                mp.fsum((v - mean) ** 2 for v in exact) / (n - 1) if exact else mp.mpf(float(np.var(values, ddof=1)))
            )
            log2, log4 = mp.log(2 / mp.mpf(alpha)), mp.log(4 / mp.mpf(alpha))
            simple = mp.sqrt(log2 / (2 * n))
            sharp = mp.sqrt(2 * spread * log4 / n) + 7 * log4 / (3 * mp.mpf(n - 1))
            for half, (lower, upper) in (
                (simple, hoeffding(total, n, alpha=alpha)),
                (sharp, empirical_bernstein(total, square, n, alpha=alpha)),
            ):
                assert float(lower) == 0.0 or mean - half - half / 1000 <= float(lower) < mean - half
                assert float(upper) == 1.0 or mean + half < float(upper) <= mean + half + half / 1000
            assert simple <= float(dkw_half_width(n, alpha=alpha)) < simple * (1 + mp.mpf(1e-13))


def test_mean_limits_without_enough_draws_say_nothing():
    for lower, upper in (hoeffding(0.0, 0, alpha=0.1), empirical_bernstein([0.4], [0.16], [1], alpha=0.1)):
        assert lower == 0.0
        assert upper == 1.0
    assert np.isinf(dkw_half_width(0, alpha=0.1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clopper_pearson(3, 2, alpha=0.1), "Expected `successes` to be at most `trials`, but got 3 of 2."),
        (lambda: clopper_pearson(-1, 2, alpha=0.1), "Expected `successes` to be whole numbers ≥ 0, but got -1.0."),
        (lambda: clopper_pearson(0.5, 2, alpha=0.1), "Expected `successes` to be whole numbers ≥ 0, but got 0.5."),
        (
            lambda: clopper_pearson([1, 2], [3, 4, 5], alpha=0.1),
            "Expected `successes` to have a shape that fits `trials`, (3,), but got (2,).",
        ),
        (lambda: clopper_pearson_lower(1, 2, alpha=0.0), "Expected `alpha` to lie in the open interval (0, 1)"),
        (lambda: clopper_pearson_upper(1, 2, alpha=1.0), "Expected `alpha` to lie in the open interval (0, 1)"),
        (lambda: hoeffding(3.0, 2, alpha=0.1), "Expected `total` to lie in [0, trials], but got 3 of 2 trials."),
        (lambda: hoeffding([1.0, 1.0], [2, 2, 2], alpha=0.1), "Expected `total` to have a shape that fits `trials`"),
        (lambda: hoeffding(math.nan, 2, alpha=0.1), "Expected `total` to lie in [0, trials]"),
        (lambda: hoeffding(1.0, 2.5, alpha=0.1), "Expected `trials` to be whole numbers ≥ 0, but got 2.5."),
        (lambda: empirical_bernstein(1.0, 1.5, 2, alpha=0.1), "Expected `total_square` to lie in"),
        (lambda: empirical_bernstein(1.0, 0.2, 2, alpha=0.1), "Expected `total_square` to lie in"),
        (lambda: dkw_half_width(10, alpha=2), "Expected `alpha` to lie in the open interval (0, 1), but got 2."),
    ],
)
def test_bad_input_is_answered_in_one_sentence(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("trials", [100, [100, 7, 7, 0, 1], [[6], [9]]], ids=str)
def test_both_limits_are_those_of_each_side(trials):
    n = np.asarray(trials, dtype=float)
    k = np.minimum(np.arange(5.0) * 3, n) if n.ndim < 2 else np.minimum(np.arange(8.0), n)
    lower, upper = clopper_pearson(k, trials, alpha=0.02)
    assert lower.tobytes() == clopper_pearson_lower(k, trials, alpha=0.01).tobytes()
    assert upper.tobytes() == clopper_pearson_upper(k, trials, alpha=0.01).tobytes()


def test_a_level_near_the_smallest_float_gives_no_nan():
    lower, upper = empirical_bernstein([0.0], [0.0], [1000], alpha=1e-308)
    assert lower == 0
    assert 0 < upper <= 1
