"""C1 and PREDICT: sound at their stated rate, equal to independent arithmetic, abstaining by name."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from certcal.certificates import (
    PLANNED_SHARE,
    Decision,
    RunnerUp,
    average_certified_radius,
    certified_accuracy,
    certified_radius,
    certified_radius_with_runner_up,
    certify_radii,
    predict_classes,
)
from certcal.certificates.radius import _radius
from certcal.errors import InputError
from certcal.smoothing.evidence import threshold_grid
from smoothing_oracles import DIGITS, ProbitModel, at_most, evidence, normal_cdf, normal_quantile


def _allowed(alpha, repetitions):
    return alpha + 4 * math.sqrt(alpha * (1 - alpha) / repetitions)


def _voted(votes, *, selected=1, sigma=1.0, looks=1):
    """Evidence with these votes and all scores in one cell."""
    votes = np.asarray(votes)
    histogram = np.zeros((len(votes), 256), dtype=np.int64)
    histogram[:, 200] = votes.sum(axis=1)
    chosen = np.full(len(votes), selected)
    return evidence(histogram, votes=votes, selected=chosen, sigma=sigma, looks=looks)


def _exact_radius(votes, trials, sigma, alpha):
    """σ Φ⁻¹(p_A) to many digits: the failures' limit q solves P(X ≤ failures; q) = alpha."""
    failures = trials - votes
    start = mp.mpf(stats.beta.isf(alpha, failures + 1, votes))
    gap = lambda q: mp.log(at_most(failures, trials, q) / alpha)  # noqa: E731
    return -sigma * normal_quantile(mp.findroot(gap, (start, start * (1 - mp.mpf(1e-6))), tol=mp.mpf(10) ** -50))


@pytest.mark.slow
def test_radii_equal_many_digit_arithmetic_and_never_exceed_it(rng):
    with mp.workdps(DIGITS):
        for trials in (100, 1000, 100_000, 1_000_000):
            few = rng.integers(0, 20, 4)
            many = rng.integers(int(0.52 * trials) + 5, trials, 8)
            for votes in (trials - few).tolist() + many.tolist():
                sigma, alpha = float(rng.choice([0.12, 0.25, 0.5, 1.0])), float(rng.choice([1e-3, 5e-4, 0.05, 1e-8]))
                radius = float(certified_radius(votes, trials, sigma=sigma, alpha=alpha))
                exact = _exact_radius(votes, trials, sigma, alpha)
                if exact <= 0:
                    assert math.isnan(radius)
                else:
                    assert exact - mp.mpf(1e-9) < radius < exact


def test_radii_are_rounded_down_after_the_limits(rng):
    with mp.workdps(DIGITS):
        for _ in range(200):
            failure, rival = np.sort(rng.random(2) ** rng.choice([1, 8, 40]))[::-1] / 2
            alone, both = (float(_radius(np.array(failure), other, 0.3)) for other in (None, np.array(rival)))
            assert alone < -mp.mpf(0.3) * normal_quantile(failure) < alone * (1 + mp.mpf(1e-12)) + mp.mpf(1e-15)
            exact = -mp.mpf(0.3) * (normal_quantile(failure) + normal_quantile(rival)) / 2
            assert both < exact < both * (1 + mp.mpf(1e-12)) + mp.mpf(1e-15)


def test_radii_equal_the_quantiles_of_scipy(rng):
    votes = rng.integers(60_000, 100_001, 500)
    radius = certified_radius(votes, 100_000, sigma=0.25, alpha=0.001)
    p = stats.beta.ppf(0.001, votes, 100_000 - votes + 1)
    np.testing.assert_allclose(radius, 0.25 * stats.norm.ppf(p), rtol=0, atol=1e-9)


def test_abstains_at_one_half_and_below():
    radius = certified_radius([0, 40, 50, 60, 75, 100, 0], [100] * 6 + [0], sigma=1.0, alpha=0.01)
    assert np.isnan(radius).tolist() == [True, True, True, True, False, False, True]
    assert not (radius[:4] >= 0).any()  # an abstained input is certified at no radius, not even at 0


@pytest.mark.parametrize("alpha", [0.2, 0.02])
@pytest.mark.parametrize("margin", [0.05, 0.6, 1.5])
def test_radii_exceed_the_truth_no_more_often_than_stated(rng, alpha, margin):
    """For a half-space the radius is exactly σ Φ⁻¹(p_A), so the rate is nearly alpha: half of it would show."""
    model = ProbitModel(margin=margin, slope=2.0, sigma=0.5)
    votes = rng.binomial(200, model.vote(), 20_000)
    radius = certified_radius(votes, 200, sigma=0.5, alpha=alpha)
    missed = (radius > model.radius()).mean()
    assert 0.5 * alpha < missed <= _allowed(alpha, 20_000)


@pytest.mark.parametrize("p", [(0.5, 0.3, 0.2), (0.4, 0.35, 0.25), (0.55, 0.45, 0.0), (0.3, 0.1, 0.1, 0.1, 0.1, 0.3)])
def test_radii_with_a_bounded_runner_up_are_sound(rng, p):
    votes = rng.multinomial(150, p, 20_000)
    selected = rng.integers(0, len(p), 20_000)  # also wrong selections must not be certified beyond their rate
    radius = certified_radius_with_runner_up(votes, selected, sigma=0.5, alpha=0.2)
    own = np.array(p)[selected]
    rival = np.array([max(np.delete(p, a)) for a in range(len(p))])[selected]
    truth = 0.25 * (stats.norm.ppf(own) - stats.norm.ppf(rival))
    assert (radius > truth).mean() <= _allowed(0.2, 20_000)


def test_a_bounded_runner_up_matches_its_definition(rng):
    votes = rng.multinomial(5000, [0.5, 0.2, 0.2, 0.1], 30)
    radius = certified_radius_with_runner_up(votes, np.zeros(30, dtype=int), sigma=2.0, alpha=0.01)
    for row, found in zip(votes, radius, strict=True):
        p_a = stats.beta.ppf(0.005, row[0], 5000 - row[0] + 1)
        p_b = max(stats.beta.isf(0.005 / 3, k + 1, 5000 - k) for k in row[1:])
        assert found == pytest.approx(stats.norm.ppf(p_a) - stats.norm.ppf(min(p_b, 1 - p_a)), abs=1e-8)


def test_a_bounded_runner_up_pays_when_votes_are_spread():
    spread, single = _voted([[200, 600, 200]]), _voted([[400, 600, 0]])
    one, both = (
        [certify_radii(e, alpha=0.001, runner_up=rule).radius[0] for e in (spread, single)] for rule in RunnerUp
    )
    assert both[0] > 1.5 * one[0]
    assert 0.9 * one[1] < both[1] < one[1]


def test_staged_evidence_splits_alpha_over_its_looks():
    votes = [[10, 990], [300, 700]]
    for rule in RunnerUp:
        staged = certify_radii(_voted(votes, looks=5), alpha=0.01, runner_up=rule)
        plain = certify_radii(_voted(votes), alpha=0.002, runner_up=rule)
        assert staged.radius.tolist() == plain.radius.tolist()
        assert staged.alpha == 0.01
    assert predict_classes(_voted([[40, 60]], looks=2), alpha=0.1).abstained.tolist() == [True]
    assert predict_classes(_voted([[40, 60]]), alpha=0.1).abstained.tolist() == [False]


def test_radii_survive_stopping_at_the_worst_moment(rng):
    """Whoever may stop at any of four looks picks the one whose radius is wrong; the split over looks pays for it."""
    model = ProbitModel(margin=0.8, slope=2.0, sigma=0.5)
    votes = np.cumsum([rng.binomial(n, model.vote(), 10_000) for n in (50, 150, 600, 2400)], axis=0)
    rates = {}
    for looks in (4, 1):
        wrong = np.zeros(10_000, dtype=bool)
        for draws, won in zip((50, 200, 800, 3200), votes, strict=True):
            found = _voted(np.column_stack([draws - won, won]), sigma=0.5, looks=looks)
            wrong |= certify_radii(found, alpha=0.2).radius > model.radius()
        rates[looks] = wrong.mean()
    assert rates[4] <= _allowed(0.2, 10_000) < rates[1]


def test_radii_say_what_they_are_about():
    radii = certify_radii(_voted([[1, 99], [50, 50], [99, 1]]), alpha=0.01)
    assert radii.decision.tolist() == [Decision.CERTIFIED, Decision.ABSTAINED, Decision.ABSTAINED]
    assert radii.predicted.tolist() == [1, 1, 1]
    assert radii.correct.all()
    assert len(radii) == 3


def test_predict_uses_the_binomial_test(rng):
    votes = rng.multinomial(300, [0.4, 0.35, 0.25], 200)
    found = predict_classes(_voted(votes), alpha=0.05)
    for row, p_value in zip(votes, found.p_value, strict=True):
        second, first = np.sort(row)[-2:]
        exact = stats.binomtest(int(first), int(first + second), 0.5).pvalue
        assert exact <= p_value + 1e-14
        assert p_value == pytest.approx(exact, rel=1e-9)
    assert found.predicted.tolist() == votes.argmax(axis=1).tolist()
    assert found.abstained.tolist() == (found.p_value > PLANNED_SHARE * 0.05).tolist()  # its part of alpha
    assert set(found.decision) == {Decision.PREDICTED, Decision.ABSTAINED}


@pytest.mark.parametrize("p", [(0.51, 0.49), (0.36, 0.33, 0.31), (0.26, 0.25, 0.25, 0.24)])
def test_predict_errs_no_more_often_than_stated(rng, p):
    found = predict_classes(_voted(rng.multinomial(100, p, 20_000)), alpha=0.2)
    wrong = (found.predicted != 0) & ~found.abstained
    assert 0.01 < wrong.mean() <= _allowed(0.2, 20_000)


def test_predict_abstains_on_a_tie_and_without_votes():
    found = predict_classes(_voted([[50, 50, 0], [0, 0, 100]]), alpha=0.01)
    assert found.p_value[0] == 1.0
    assert found.abstained.tolist() == [True, False]


def test_a_model_with_known_boundary_is_certified_up_to_it(rng):
    """With many draws the radius tends to the margin of a linear classifier."""
    model = ProbitModel(margin=1.0, slope=2.0, sigma=0.5)
    radius = certified_radius(round(model.vote() * 10_000_000), 10_000_000, sigma=0.5, alpha=0.001)
    assert 0.998 * model.radius() < radius < model.radius()


def test_certified_accuracy_and_average_radius():
    radius, correct = [0.5, math.nan, 0.25, 1.0], [1, 1, 1, 0]
    assert [certified_accuracy(radius, correct, at=at) for at in (0.0, 0.25, 0.3, 2.0)] == [0.5, 0.5, 0.25, 0.0]
    assert average_certified_radius(radius, correct) == pytest.approx(0.1875, rel=1e-12)
    assert average_certified_radius(radius, correct) <= 0.1875
    assert average_certified_radius([math.nan], [1]) == 0.0


def test_the_oracle_agrees_with_itself():
    with mp.workdps(DIGITS):
        assert abs(normal_cdf(normal_quantile(0.975)) - mp.mpf(0.975)) < mp.mpf(10) ** -40
        assert float(at_most(3, 10, 0.3)) == pytest.approx(stats.binom.cdf(3, 10, 0.3), rel=1e-12)
    assert threshold_grid()[[0, 256]].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: certified_radius(3, 2, sigma=1, alpha=0.1),
            "Expected `votes` to be at most `trials`, but got 3 of 2.",
        ),
        (
            lambda: certified_radius(1.5, 2, sigma=1, alpha=0.1),
            "Expected `votes` to be whole numbers ≥ 0, but got 1.5.",
        ),
        (lambda: certified_radius(1, 2, sigma=0, alpha=0.1), "Expected `sigma` to be a finite number > 0, but got 0."),
        (lambda: certified_radius(1, 2, sigma=math.nan, alpha=0.1), "Expected `sigma` to be a finite number > 0"),
        (lambda: certified_radius(1, 2, sigma=1, alpha=1.5), "Expected `alpha` to lie in the open interval (0, 1)"),
        (lambda: certified_radius_with_runner_up([1, 2], [0], sigma=1, alpha=0.1), "Expected `votes` to have shape"),
        (lambda: certified_radius_with_runner_up([[1, 2]], [2], sigma=1, alpha=0.1), "Expected `selected` to name"),
        (lambda: certify_radii(_voted([[1, 2]]), alpha=0), "Expected `alpha` to lie in the open interval (0, 1)"),
        (lambda: certify_radii(_voted([[1, 2]]), alpha=0.1, runner_up="both"), "Expected `runner_up` to be one of"),
        (lambda: predict_classes(_voted([[1, 2]]), alpha=-1), "Expected `alpha` to lie in the open interval (0, 1)"),
        (lambda: certified_accuracy([0.5], [1], at=-0.1), "Expected `at` to be a finite number ≥ 0, but got -0.1."),
        (lambda: certified_accuracy([0.5], [1, 0], at=0.1), "Expected `correct` to have as many entries"),
        (lambda: average_certified_radius([-0.5], [1]), "Expected `radius` to be ≥ 0, or NaN where it abstains"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_p_value_that_underflows_in_scipy_is_not_zero():
    """SciPy gives 0 for a tail of 1.06e-254."""
    found = evidence(np.eye(256, dtype=int)[[200]] * 1077, votes=[[1039, 38]])
    assert predict_classes(found, alpha=1e-250).abstained.all()
