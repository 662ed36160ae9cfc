"""The guarantee for the whole set: how many certificates may fail, and that the rate is kept."""

from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from certcal import (
    InputError,
    allowed_failures,
    certified_calibration_error,
    jointly_certified_calibration_error,
)
from certcal.certificates import confidence_bounds_at
from certcal.worstcase import alpha_for_set, guarantee
from laws import examples
from smoothing_oracles import DIGITS, ProbitModel, at_least


class TestAllowedFailures:
    @examples(200)
    @given(st.integers(1, 60), st.floats(1e-6, 0.999), st.floats(1e-12, 0.999))
    def test_is_the_smallest_in_exact_arithmetic(self, inputs, alpha, delta):
        p, level = Fraction(alpha), Fraction(delta)

        def tail(k):  # P(X > k)
            return sum(comb(inputs, x) * p**x * (1 - p) ** (inputs - x) for x in range(k + 1, inputs + 1))

        found = allowed_failures(inputs, alpha=alpha, delta=delta)
        assert tail(found) <= level
        # Rounded up only if the tail one below misses the level by less than its own error.
        assert found == 0 or tail(found - 1) > level * (1 - Fraction(1, 2**30))

    @pytest.mark.parametrize(("inputs", "alpha"), [(500, 0.001), (10_000, 0.001), (10**6, 0.001), (3000, 0.05)])
    @pytest.mark.parametrize("delta", [0.1, 0.01, 1e-6])
    def test_agrees_with_scipy_and_with_many_digits(self, inputs, alpha, delta):
        found = allowed_failures(inputs, alpha=alpha, delta=delta)
        assert found == stats.binom.isf(delta, inputs, alpha)
        with mp.workdps(DIGITS):
            assert at_least(found + 1, inputs, alpha) <= mp.mpf(delta) < at_least(found, inputs, alpha)

    def test_a_tail_equal_to_the_level_is_rounded_the_safe_way(self):
        """P(X > 5) for Binomial(10, 1/2) is 386 / 1024: at that level 5 is enough, one float below it is not."""
        assert allowed_failures(10, alpha=0.5, delta=386 / 1024) in (5, 6)
        assert allowed_failures(10, alpha=0.5, delta=np.nextafter(386 / 1024, 0)) == 6
        assert allowed_failures(10, alpha=0.5, delta=386 / 1024 * (1 + 1e-9)) == 5

    def test_a_tail_that_is_nearly_the_level_counts_the_error_of_its_computation(self, monkeypatch):
        """A level just above the computed tail is not enough: the tail may be that much larger."""
        tail = float(stats.binom.sf(3, 500, 0.001))
        assert allowed_failures(500, alpha=0.001, delta=tail * (1 + 1e-9)) == 3
        monkeypatch.setattr(guarantee, "tail_error", lambda total: 1e-6)
        assert allowed_failures(500, alpha=0.001, delta=tail * (1 + 1e-9)) == 4
        assert allowed_failures(500, alpha=0.001, delta=tail * (1 + 1e-5)) == 3

    @pytest.mark.parametrize("delta", [1e-270, 1e-285, 1e-300, 1e-320])
    def test_tails_too_small_for_floats_are_not_taken_for_nothing(self, delta):
        found = allowed_failures(1000, alpha=0.001, delta=delta)
        with mp.workdps(DIGITS):
            assert found == 1000 or at_least(found + 1, 1000, 0.001) <= mp.mpf(delta)

    @pytest.mark.parametrize(("inputs", "alpha", "delta"), [(124, 0.000278, 1.09e-315), (930, 0.4028, 4.3e-297)])
    def test_no_digits_are_trusted_where_tails_underflow(self, inputs, alpha, delta):
        """There scipy's tails are a few times too small, or 0."""
        assert allowed_failures(inputs, alpha=alpha, delta=delta) == inputs

    def test_ends(self):
        assert allowed_failures(1, alpha=0.01, delta=0.02) == 0
        assert allowed_failures(1, alpha=0.01, delta=0.005) == 1

    @given(st.integers(1, 5000), st.floats(1e-4, 0.5), st.floats(1e-9, 0.9), st.floats(1e-9, 0.9))
    def test_grows_as_delta_falls(self, inputs, alpha, one, other):
        loose, strict = (
            allowed_failures(inputs, alpha=alpha, delta=delta) for delta in (max(one, other), min(one, other))
        )
        assert loose <= strict


@pytest.mark.slow
def test_lying_certificates_stay_inside_the_bound_at_the_stated_rate(rng):
    """A share α of the certificates lies, and says what makes the set look best; the truth is then the worst there is.

    3000 repetitions. Allowing two failures fewer must break the rate, so the test is sharp.
    """
    inputs, alpha, delta, repetitions = 40, 0.05, 0.1, 3000
    failures = allowed_failures(inputs, alpha=alpha, delta=delta)
    assert failures == 4
    centre = rng.beta(4, 1.5, inputs)
    lower, upper = np.clip(centre - 0.1, 0, 1), np.clip(centre + 0.05, 0, 1)
    correct = rng.random(inputs) < centre
    broken = too_few = 0
    for repetition in range(repetitions):
        lies = rng.random(inputs) < alpha
        told = np.where(lies, correct, lower), np.where(lies, correct, upper), correct  # a lie: no error at all
        truth = certified_calibration_error(
            lower[~lies], upper[~lies], correct[~lies], uncertified=int(lies.sum()), n_bins=5
        ).value
        broken += truth > jointly_certified_calibration_error(*told, failures=failures, n_bins=5).value
        if repetition < 500:
            too_few += truth > jointly_certified_calibration_error(*told, failures=failures - 2, n_bins=5).value
    assert stats.binomtest(broken, repetitions, delta, alternative="greater").pvalue > 1e-3
    assert broken > 0
    assert too_few > delta * 500


def test_failures_are_counted_over_all_inputs_because_the_draws_that_fail_are_those_that_certify(rng):
    """No input can truthfully be certified; a share α is all the same, with a flawless certificate."""
    inputs, alpha, delta, repetitions = 500, 0.01, 0.05, 4000
    failures = allowed_failures(inputs, alpha=alpha, delta=delta)
    certified = rng.binomial(inputs, alpha, repetitions)
    certified = certified[certified > 0]
    values = {
        (count, k): jointly_certified_calibration_error([1.0] * count, [1.0] * count, [1] * count, failures=k).value
        for count in set(certified)
        for k in (failures, allowed_failures(int(count), alpha=alpha, delta=delta))
    }
    truth = 1.0  # all of them are free
    over_all = np.mean([truth > values[count, failures] for count in certified])
    assert 0 < over_all <= delta + 3 * np.sqrt(delta / repetitions)
    over_certified = np.mean(
        [truth > values[count, allowed_failures(int(count), alpha=alpha, delta=delta)] for count in certified]
    )
    assert over_certified > 0.9


@pytest.mark.slow
def test_real_certificates_keep_the_claim_at_all_radii_at_once(rng):
    """Probit models whose truth is known: their worst calibration error within R, at four radii together."""
    radii, sigma, repetitions = (0.0, 0.1, 0.25, 0.5), 0.5, 40
    models = [ProbitModel(margin, 1.5, sigma) for margin in rng.uniform(0.0, 2.0, 24)]
    failures = allowed_failures(len(models), alpha=0.1, delta=0.1)
    samples = [model.evidence(rng, inputs=repetitions, draws=300) for model in models]
    bounds = [confidence_bounds_at(sample, radii=radii, alpha=0.1, method="standard") for sample in samples]
    broken = 0
    for r in range(repetitions):
        holds = True
        for k, radius in enumerate(radii):
            own = [sample[k] for sample in bounds]
            kept = np.array([b.certified[r] for b in own])
            truth = [(model.confidence(-radius), model.confidence(radius)) for model in models]
            # Within R of the boundary the prediction flips: free correctness, whatever the confidence.
            safe = np.array([model.radius() >= radius for model in models])
            free = int((~safe).sum())
            low, high = (np.array(side)[safe] for side in zip(*truth, strict=True))
            worst = certified_calibration_error(low, high, np.ones(len(low)), uncertified=free).value
            claim = jointly_certified_calibration_error(
                *(np.array([getattr(b, side)[r] for b in own])[kept] for side in ("lower", "upper", "correct")),
                failures=failures,
                uncertified=int((~kept).sum()),
            ).value
            holds &= worst <= claim + 1e-12
        broken += not holds
    assert broken <= 0.1 * repetitions + 3 * np.sqrt(0.09 * repetitions)


class TestAlphaForSet:
    @examples(30)
    @given(st.integers(1, 3000), st.integers(1, 10**6), st.sampled_from([1e-6, 0.001, 0.05, 0.5]))
    def test_is_the_largest_for_its_failures_and_the_cheapest_by_the_rule(self, inputs, draws, delta):
        found = alpha_for_set(inputs, draws=draws, delta=delta)
        most = allowed_failures(inputs, alpha=found, delta=delta)
        assert stats.binom.sf(most, inputs, found) <= delta
        if most < inputs - 1:
            assert stats.binom.sf(most, inputs, found * 1.00001) > delta  # no larger one allows so few

        def cost(failures):
            level = stats.beta.ppf(delta, failures + 1, inputs - failures)
            return failures / inputs - stats.norm.ppf(level / 1020) / (4 * np.sqrt(draws))

        assert cost(most) <= min(cost(k) for k in range(min(inputs, 20))) + 1e-9

    def test_more_draws_want_fewer_failures(self):
        allowed = [
            allowed_failures(5000, alpha=alpha_for_set(5000, draws=n, delta=0.001), delta=0.001)
            for n in (100, 10**4, 10**6)
        ]
        assert allowed == sorted(allowed, reverse=True)
        assert allowed[0] > allowed[-1]

    def test_bad_numbers_are_refused(self):
        for options in ({"draws": 0, "delta": 0.1}, {"draws": 1, "delta": 0.0}):
            with pytest.raises(InputError):
                alpha_for_set(10, **options)
