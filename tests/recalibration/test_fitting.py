"""Fitting maps: the isotonic one is optimal, parametric ones are the best of their kind, and bad input is answered."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from certcal import InputError, certified_brier_score, certified_calibration_error, recalibrate, top_label_brier_score
from certcal.certificates import confidence_bounds_at
from certcal.metrics import sharpness
from certcal.recalibration import (
    BetaMap,
    IdentityMap,
    IsotonicMap,
    TemperatureMap,
    recalibrate_bounds,
)
from certcal.recalibration.fitting import isotonic_fit
from certcal.worstcase import certified_log_score
from laws import examples
from problems import maps, smoothed_like
from smoothing_oracles import random_evidence


class TestIsotonicOptimum:
    @examples(150)
    @given(st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.integers(1, 5)), min_size=1, max_size=14))
    def test_equals_a_quadratic_program(self, points):
        """Σ w (t − g)² with g a sum of non-negative steps is a non-negative least-squares problem."""
        x, target, weight = (np.array(part, dtype=float) for part in zip(*points, strict=True))
        knots, values = isotonic_fit(x / 10, target, weight)
        fitted = IsotonicMap(knots, values).transform(x / 10)
        levels, place = np.unique(x, return_inverse=True)
        steps = np.tril(np.ones((len(levels), len(levels))))[place] * np.sqrt(weight)[:, None]
        solution, _ = nnls(steps, target * np.sqrt(weight))
        np.testing.assert_allclose(fitted, np.cumsum(solution)[place], atol=1e-9)

    def test_equals_another_implementation_on_many_points(self, rng):
        x, target = rng.random(3000).round(3), rng.integers(0, 2, 3000).astype(float)
        weight = rng.random(3000) + 0.01
        knots, values = isotonic_fit(x, target, weight)
        reference = IsotonicRegression().fit(x, target, sample_weight=weight)
        at = rng.random(500)
        np.testing.assert_allclose(
            IsotonicMap(knots, values).transform(at),
            np.interp(at, reference.X_thresholds_, reference.y_thresholds_),
            atol=1e-12,
        )

    @examples(40)
    @given(st.integers(0, 10_000), st.floats(0, 1), st.lists(st.integers(0, 3), min_size=2, max_size=2))
    def test_minimises_the_mix_of_scores_it_states(self, seed, share, weights):
        """(1 − λ) Σ w_r CBS_r + λ · clean Brier, by definition, against a program over all monotone maps."""
        rng = np.random.default_rng(seed)
        evidence = random_evidence(rng, inputs=60, draws=200)
        evidence = dataclasses.replace(evidence, label=rng.integers(0, 2, 60))
        several = confidence_bounds_at(evidence, radii=[0.0, 0.05], alpha=0.5)
        weights = [w + 1 for w in weights]
        fitted = recalibrate_bounds(several, weights=weights, clean_weight=share)

        def loss(recalibration):
            mapped = [recalibration.intervals(b) for b in several]
            certified = [
                certified_brier_score(b.lower[b.certified], b.upper[b.certified], b.correct[b.certified]).value
                for b in mapped
            ]
            clean = top_label_brier_score(mapped[0].confidence, mapped[0].correct)
            return (1 - share) * np.dot(weights, certified) / sum(weights) + share * clean

        rows = []
        for b, w in zip(several, weights, strict=True):
            kept = b.certified
            worst = np.where(b.correct, b.lower, b.upper)[kept]
            rows += [
                (z, c, (1 - share) * w / sum(weights) / kept.sum()) for z, c in zip(worst, b.correct[kept], strict=True)
            ]
        rows += [(z, c, share / 60) for z, c in zip(several[0].confidence, several[0].correct, strict=True)]
        x, target, weight = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
        levels, place = np.unique(x, return_inverse=True)
        steps = np.tril(np.ones((len(levels), len(levels))))[place] * np.sqrt(weight)[:, None]
        _, residual = nnls(steps, target * np.sqrt(weight))
        assert loss(fitted) == pytest.approx(residual**2, abs=1e-9)

    @examples(60)
    @given(maps(), st.floats(0, 1))
    def test_no_other_map_is_better(self, other, share):
        lower, upper, correct, clean = smoothed_like(80)
        fitted = recalibrate(lower, upper, correct, confidence=clean, clean_weight=share)
        losses = [
            (1 - share) * certified_brier_score(*g.bounds(lower, upper), correct).value
            + share * top_label_brier_score(g.transform(clean), correct)
            for g in (fitted, other)
        ]
        assert losses[0] <= losses[1] + 1e-12

    def test_it_is_optimal_for_the_log_score_too(self):
        lower, upper, correct, _ = smoothed_like(200)
        fitted = recalibrate(lower, upper, correct, objective="log")
        np.testing.assert_array_equal(fitted.y, recalibrate(lower, upper, correct).y)
        best = certified_log_score(*fitted.bounds(lower, upper), correct).value
        for method in ("beta", "temperature"):
            other = recalibrate(lower, upper, correct, method=method, objective="log")
            assert best <= certified_log_score(*other.bounds(lower, upper), correct).value + 1e-9

    def test_clean_and_certified_scores_trade_against_each_other(self):
        """Of exact minimisers, more weight on one score never makes it worse."""
        lower, upper, correct, clean = smoothed_like(500)
        certified, plain = [], []
        for share in np.linspace(0, 1, 9):
            g = recalibrate(lower, upper, correct, confidence=clean, clean_weight=share)
            certified.append(certified_brier_score(*g.bounds(lower, upper), correct).value)
            plain.append(top_label_brier_score(g.transform(clean), correct))
        assert np.diff(certified).min() >= -1e-12
        assert np.diff(plain).max() <= 1e-12
        assert certified[0] < certified[-1]
        assert plain[-1] < plain[0]


class TestParametric:
    @pytest.mark.parametrize("objective", ["brier", "log", "calibration"])
    def test_temperature_is_the_best_of_a_dense_grid(self, objective):
        lower, upper, correct, _ = smoothed_like(300)

        def loss(g):
            score = {
                "brier": certified_brier_score,
                "log": certified_log_score,
                "calibration": certified_calibration_error,
            }
            return score[objective](*g.bounds(lower, upper), correct).value

        fitted = recalibrate(lower, upper, correct, method="temperature", objective=objective)
        grid = min(loss(TemperatureMap(float(t))) for t in np.exp(np.linspace(-4, 4, 500)))
        assert loss(fitted) <= grid + (2e-3 if objective == "calibration" else 1e-9)
        assert loss(fitted) <= loss(IdentityMap()) + 1e-12

    @pytest.mark.slow
    @pytest.mark.parametrize("share", [0.7, pytest.param(0.95, marks=pytest.mark.slow)])
    def test_clean_points_count_beside_the_calibration_error_by_their_brier_score(self, share):
        lower, upper, correct, clean = smoothed_like(300)

        def loss(g):
            certified = certified_calibration_error(*g.bounds(lower, upper), correct).value
            return (1 - share) * certified + share * top_label_brier_score(g.transform(clean), correct)

        options = {"method": "temperature", "objective": "calibration", "confidence": clean, "clean_weight": share}
        best = min(loss(TemperatureMap(float(t))) for t in np.exp(np.linspace(-4, 4, 500)))
        assert loss(recalibrate(lower, upper, correct, **options)) <= best + 2e-3
        without = recalibrate(lower, upper, correct, **(options | {"clean_weight": 0.0}))
        assert loss(without) > best + 1e-2

    def test_beta_for_the_log_score_is_logistic_regression(self, rng):
        z = rng.beta(4, 1.5, 4000).clip(0.01, 0.99)
        correct = rng.random(4000) < BetaMap(0.7, 1.4, -0.3).transform(z)
        fitted = recalibrate(z, z, correct, method="beta", objective="log")
        features = np.column_stack([np.log(z), -np.log1p(-z)])
        reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(features, correct)
        np.testing.assert_allclose([fitted.a, fitted.b], reference.coef_[0], atol=0.02)
        assert fitted.c == pytest.approx(reference.intercept_[0], abs=0.02)

    @pytest.mark.slow
    def test_wider_families_and_own_objectives_win(self):
        lower, upper, correct, clean = smoothed_like(300)
        score = {"brier": certified_brier_score, "calibration": certified_calibration_error}
        found = {
            (method, objective): recalibrate(
                lower, upper, correct, method=method, objective=objective, confidence=clean, clean_weight=0.0
            ).bounds(lower, upper)
            for method in ("temperature", "beta")
            for objective in score
        }
        values = {(*key, name): score[name](*b, correct).value for key, b in found.items() for name in score}
        for objective in score:
            assert values["beta", objective, objective] <= values["temperature", objective, objective] + 1e-9
        for method in ("temperature", "beta"):
            assert values[method, "calibration", "calibration"] <= values[method, "brier", "calibration"] + 1e-9
            assert values[method, "brier", "brier"] <= values[method, "calibration", "brier"] + 1e-6

    def test_a_constant_map_may_win_and_is_seen_for_what_it_is(self):
        """The certified calibration error of the constant that equals the accuracy is 0, and so is its use."""
        lower, upper, correct, clean = smoothed_like(300)
        g = recalibrate(lower, upper, correct, method="beta", objective="calibration")
        assert certified_calibration_error(*g.bounds(lower, upper), correct).value < 0.02
        sharp = sharpness(g.transform(clean), correct)
        assert sharp.auroc < 0.6
        mixed = recalibrate(
            lower, upper, correct, method="beta", objective="calibration", confidence=clean, clean_weight=0.9
        )
        assert sharpness(mixed.transform(clean), correct).auroc > sharpness(clean, correct).auroc - 1e-9


OFFER = " No map can be learned from that; on_failure='identity' keeps the confidences as they are."


@pytest.mark.parametrize(
    ("inputs", "correct", "message"),
    [
        (19, [1, 0] * 9 + [1], "Expected `lower` to hold at least 20 inputs, but got 19."),
        (
            25,
            [1] * 25,
            "Expected `correct` to hold right and wrong predictions among the inputs, but got 25 right ones.",
        ),
        (
            25,
            [0] * 25,
            "Expected `correct` to hold right and wrong predictions among the inputs, but got 25 wrong ones.",
        ),
    ],
)
def test_inputs_that_cannot_teach_a_map_are_named_and_the_identity_is_offered(inputs, correct, message):
    bounds = np.full(inputs, 0.4), np.full(inputs, 0.9)
    with pytest.raises(InputError) as caught:
        recalibrate(*bounds, correct)
    assert str(caught.value) == message + OFFER
    identity = recalibrate(*bounds, correct, on_failure="identity")
    assert isinstance(identity, IdentityMap)
    assert identity.about["reason"] == message + OFFER
    np.testing.assert_array_equal(identity.bounds(*bounds), bounds)


def test_a_radius_that_certifies_nobody_is_named(rng):
    several = confidence_bounds_at(random_evidence(rng, inputs=50, draws=500), radii=[0.0, 5.0], alpha=0.01)
    with pytest.raises(InputError) as caught:
        recalibrate_bounds(several)
    expected = "Expected `correct` to hold right and wrong predictions among the inputs certified at R = 0"
    assert str(caught.value).startswith(expected)
    wrong = [dataclasses.replace(b, correct=np.arange(50) % 2 > 0) for b in several]
    with pytest.raises(InputError) as caught:
        recalibrate_bounds(wrong)
    assert str(caught.value) == f"Expected `bounds` to hold at least 20 inputs certified at R = 5, but got 0.{OFFER}"
    assert isinstance(recalibrate_bounds(wrong, on_failure="identity"), IdentityMap)
    alone, beside = recalibrate_bounds(wrong[0]), recalibrate_bounds(wrong, weights=[1, 0])
    assert beside.parameters() == alone.parameters()  # a radius without weight asks for nothing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clean_weight": 1.5}, "Expected `clean_weight` to lie in [0, 1], but got 1.5."),
        ({"clean_weight": 0.5}, "Expected `confidence` to be given for clean_weight = 0.5, but got None."),
        ({"confidence": [0.5]}, "Expected `confidence` to have as many entries as `lower` (30), but got 1."),
        (
            {"method": "platt"},
            "Expected `method` to be one of 'isotonic', 'temperature', 'beta', 'steps', but got 'platt'.",
        ),
        ({"objective": "ece"}, "Expected `objective` to be one of 'brier', 'log', 'calibration', but got 'ece'."),
        (
            {"objective": "calibration"},
            "Expected `objective` to be 'brier' or 'log' for isotonic maps, but got 'calibration'.",
        ),
        ({"on_failure": "hope"}, "Expected `on_failure` to be one of 'raise', 'identity', but got 'hope'."),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError) as caught:
        recalibrate([0.4] * 30, [0.9] * 30, [0, 1] * 15, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "Expected `weights` to have one entry per radius (3), but got 1."),
        ([1.0, -1.0, 0.0], "Expected `weights` to hold numbers ≥ 0, but got -1.0."),
        ([0, 0, 0], "Expected `weights` to have a positive, finite sum, but got 0.0."),
    ],
)
def test_bad_weights(bounds, weights, message):
    with pytest.raises(InputError) as caught:
        recalibrate_bounds(bounds, weights=weights)
    assert str(caught.value) == message


def test_bounds_must_be_of_the_same_inputs(bounds):
    with pytest.raises(InputError, match="Expected `bounds` to have as many entries as"):
        recalibrate_bounds([bounds[0], bounds[1].select(np.arange(200))])
