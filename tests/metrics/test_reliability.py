"""The reliability curve and its intervals."""

import numpy as np
import pytest
from scipy import stats

from certcal import expected_calibration_error, reliability_curve
from certcal.proportions import clopper_pearson


def test_curve_describes_its_bins(rng):
    confidence = rng.random(1000)
    correct = rng.random(1000) < confidence
    curve = reliability_curve(confidence, correct, n_bins=10)
    inside = (confidence >= curve.edges[3]) & (confidence < curve.edges[4])
    assert curve.count[3] == inside.sum()
    assert curve.confidence[3] == pytest.approx(confidence[inside].mean())
    assert curve.accuracy[3] == pytest.approx(correct[inside].mean())
    assert curve.error == pytest.approx(expected_calibration_error(confidence, correct, n_bins=10), abs=1e-14)


def test_empty_bins_say_so():
    curve = reliability_curve([0.9], [1], n_bins=3)
    assert curve.count.tolist() == [0, 0, 1]
    assert np.isnan(curve.accuracy[:2]).all()
    assert (curve.lower[0], curve.upper[0]) == (0.0, 1.0)
    assert curve.error == pytest.approx(0.1)


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3])
def test_clopper_pearson_is_the_beta_quantile_rounded_outward(alpha):
    n = np.repeat([1, 7, 100, 100_000], 4)
    k = np.array([0, 1, 1, 1, 0, 3, 6, 7, 0, 1, 50, 100, 0, 17, 99_000, 100_000])
    lower, upper = clopper_pearson(k, n, alpha=alpha)
    for i in range(len(n)):
        exact = stats.binomtest(int(k[i]), int(n[i])).proportion_ci(1 - alpha, method="exact")
        assert lower[i] == pytest.approx(exact.low, abs=1e-10)
        assert upper[i] == pytest.approx(exact.high, abs=1e-10)
        # Outward: the tail probabilities at the limits do not exceed alpha / 2.
        assert k[i] == 0 or stats.binom.sf(k[i] - 1, n[i], lower[i]) <= alpha / 2
        assert k[i] == n[i] or stats.binom.cdf(k[i], n[i], upper[i]) <= alpha / 2


@pytest.mark.slow
def test_bin_intervals_cover_at_their_rate(rng):
    """Over 2000 repetitions the interval of a bin's accuracy misses the truth in at most alpha of them."""
    missed = 0
    for _ in range(2000):
        correct = rng.random(30) < 0.83
        curve = reliability_curve(np.full(30, 0.9), correct, n_bins=2, alpha=0.2)
        missed += not curve.lower[1] <= 0.83 <= curve.upper[1]
    assert 0.02 < missed / 2000 <= 0.2
