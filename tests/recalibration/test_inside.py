"""Maps inside the expectation: certified by enumeration's truth, fitted to the exact optimum, saved and deployed."""

import dataclasses
import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from torch import nn

from certcal import InputError, certified_brier_score, certified_calibration_error, confidence_bounds, evaluate
from certcal.certificates import TailLimits
from certcal.files import sealed, unsealed
from certcal.recalibration import (
    FullMap,
    IdentityMap,
    IsotonicMap,
    RecalibratedModel,
    ScoreMap,
    fit_score_map,
    load_map,
    save_map,
)
from certcal.recalibration.simplex import least_on_simplex
from certcal.smoothing import cell_middles, threshold_grid
from laws import examples
from smoothing_oracles import beta_limits, evidence_from_scores, random_evidence

GRID = threshold_grid()


def rising(rng, steps=12):
    """A random step function with few steps."""
    jumps = np.zeros(256)
    jumps[rng.integers(0, 256, steps)] = rng.random(steps)
    return ScoreMap(np.minimum(np.cumsum(jumps) / (jumps.sum() + rng.random()), 1.0))


def labelled(rng, inputs=200, draws=1000, sigma=0.25):
    evidence = random_evidence(rng, inputs=inputs, draws=draws, sigma=sigma)
    return dataclasses.replace(evidence, label=(rng.random(inputs) < 0.2 + 0.7 * evidence.confidence).astype(np.int64))


class TestBounds:
    def test_what_another_class_can_have_stays_within_the_map(self, rng):
        """Rounded outward, and yet no more than the largest value: an input that never scored leaves it all."""
        hopeless = evidence_from_scores(np.zeros((2, 50)))
        for top in (1.0, 0.3, 1 / 3):
            own = confidence_bounds(hopeless, radius=0.5, alpha=0.1, score_map=ScoreMap(np.linspace(0, top, 256)))
            assert (own.other == top).all()

    def test_rounded_outward_of_exact_rational_arithmetic(self, rng):
        """At R = 0 the limits are floats as they stand: sums of steps times limits, and 1 minus the mirrored ones."""
        evidence = random_evidence(rng, inputs=30, draws=60)
        limits = TailLimits(evidence, alpha=0.01)
        lower, upper = (np.concatenate(side) for side in zip(*limits.at(0.0, np.ones(30, dtype=bool)), strict=True))
        own = ScoreMap(np.sort(rng.random(256)))
        found = confidence_bounds(evidence, radius=0.0, alpha=0.01, score_map=own)
        levels = [Fraction(value) for value in own.levels.tolist()]
        steps = [after - before for before, after in itertools.pairwise(levels)]

        def mean(tails):
            return levels[0] + sum(step * tail for step, tail in zip(steps, tails, strict=True))

        for n in range(30):
            low, high = ([Fraction(value) for value in side[n].tolist()] for side in (lower, upper))
            other = mean([Fraction(1), *(1 - low[256 - j] for j in range(2, 256))])  # of s_j: 1 − limit at s_{257 − j}
            for bound, exact in (
                (found.upper[n], mean(high)),
                (found.other[n], other),
                (1 - found.lower[n], 1 - mean(low)),
            ):
                assert 0 <= Fraction(float(bound)) - exact < 1e-12

    @examples(10)
    @given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.4]))
    def test_equal_the_sum_over_steps_read_aloud(self, seed, radius):
        rng = np.random.default_rng(seed)
        evidence, own = random_evidence(rng, inputs=2, draws=60), rising(rng, 5)
        found = confidence_bounds(evidence, radius=radius, alpha=0.1, score_map=own)
        for n in range(2):
            lower = upper = own.levels[0]
            for j in 1 + np.flatnonzero(np.diff(own.levels)):
                count = int(evidence.histogram[n, j:].sum())
                low, high = beta_limits(count, 60, 0.9 * 0.05 / 255)
                step = own.levels[j] - own.levels[j - 1]
                lower += step * stats.norm.cdf(stats.norm.ppf(low) - radius / 0.25)
                upper += step * stats.norm.cdf(stats.norm.ppf(high) + radius / 0.25)
            assert found.lower[n] <= lower + 1e-12
            assert found.upper[n] >= upper - 1e-12
            np.testing.assert_allclose([found.lower[n], found.upper[n]], [lower, upper], atol=1e-9)
        np.testing.assert_allclose(found.confidence, evidence.histogram @ own.levels / 60)

    def test_hold_the_truth_of_a_probit_model(self, rng):
        """score = Φ(z), z ~ N(m, s²) under noise: within R the mean of z moves by R s / σ, and E h is a sum of Φ's."""
        sigma, spread, draws, radius = 0.5, 0.8, 400, 0.3
        missed = 0
        for _ in range(60):
            mean, own = rng.normal(1.0, 0.7), rising(rng)
            scores = stats.norm.cdf(rng.normal(mean, spread, (1, draws)))
            found = confidence_bounds(
                evidence_from_scores(scores, sigma=sigma), radius=radius, alpha=0.1, score_map=own
            )
            steps = np.diff(own.levels)
            for moved in (mean - radius * spread / sigma, mean, mean + radius * spread / sigma):
                truth = own.levels[0] + steps @ stats.norm.sf((stats.norm.ppf(GRID[1:-1]) - moved) / spread)
                missed += not found.lower[0] - 1e-12 <= truth <= found.upper[0] + 1e-12
        assert missed <= 6  # of 180; the band is far wider than its level needs

    @examples(15)
    @given(st.integers(0, 10_000), st.sampled_from(["cdf", "cdf-cp"]))
    def test_a_step_function_closer_to_the_score_than_a_cell_brackets_the_identity(self, seed, method):
        rng = np.random.default_rng(seed)
        evidence = random_evidence(rng, inputs=5, draws=300)
        options = {"radius": 0.1, "alpha": 0.01, "method": method}
        plain = confidence_bounds(evidence, **options)
        low = confidence_bounds(evidence, score_map=ScoreMap(GRID[:-1]), **options)
        high = confidence_bounds(evidence, score_map=ScoreMap(GRID[1:]), **options)
        np.testing.assert_allclose(low.lower, plain.lower, atol=1e-12)  # the CDF certificate rounds scores down
        np.testing.assert_allclose(high.upper, plain.upper, atol=1e-12)  # and up

    def test_a_constant_is_certified_exactly(self, rng):
        evidence = random_evidence(rng, inputs=4, draws=100)
        found = confidence_bounds(evidence, radius=0.2, alpha=0.01, score_map=ScoreMap(np.full(256, 1 / 3)))
        assert (found.lower == 1 / 3).all()
        assert (found.upper == 1 / 3).all()

    def test_mean_methods_and_other_maps_are_refused(self, rng):
        evidence = random_evidence(rng, inputs=4, draws=100)
        with pytest.raises(InputError, match="Expected `method` to be 'cdf' or 'cdf-cp' with a map of scores"):
            confidence_bounds(evidence, radius=0.1, alpha=0.1, method="cdf-cp-mean", score_map=ScoreMap(GRID[1:]))
        with pytest.raises(InputError, match="Expected `score_map` to be a map of scores, from `fit_score_map`"):
            confidence_bounds(evidence, radius=0.1, alpha=0.1, score_map=IsotonicMap([0.0, 1.0], [0.0, 1.0]))
        with pytest.raises(InputError, match="Expected `levels` to never fall"):
            ScoreMap(GRID[:0:-1])
        with pytest.raises(InputError, match="Expected `levels` to be 256 values"):
            ScoreMap([0.0, 1.0])


class TestFit:
    @examples(20)
    @given(st.integers(0, 10_000))
    def test_least_on_the_simplex_is_that_of_another_solver(self, seed):
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(rng.integers(1, 12), 6)) + rng.normal()
        quadratic = root.T @ root
        found = least_on_simplex(quadratic)
        assert (found >= 0).all()
        assert abs(found.sum() - 1) < 1e-12
        other = optimize.minimize(
            lambda v: v @ quadratic @ v,
            np.full(6, 1 / 6),
            jac=lambda v: 2 * quadratic @ v,
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert found @ quadratic @ found <= other.fun + 1e-9

    @pytest.mark.parametrize(("share", "weights"), [(0.0, [1, 1]), (0.4, [1, 3]), (1.0, [1, 1])])
    def test_no_step_function_does_better(self, rng, share, weights):
        """The score is convex in h: at the optimum no mixture with any other h is better, by the definition of both."""
        evidence, radii = labelled(rng), [0.0, 0.1]

        def loss(own):
            bounds = own.certify(evidence, radii=radii, alpha=0.01)
            certified = np.dot(weights, [certified_brier_score(b).value for b in bounds]) / sum(weights)
            clean = np.square(bounds[0].confidence - bounds[0].correct).mean()
            return (1 - share) * certified + share * clean

        fitted = fit_score_map(evidence, radii=radii, alpha=0.01, clean_weight=share, weights=weights)
        least = loss(fitted)
        others = [rising(rng, steps) for steps in (1, 3, 20)] + [ScoreMap(np.full(256, level)) for level in (0.0, 0.8)]
        for other in [*others, ScoreMap(cell_middles())]:
            for part in (1.0, 0.1, 0.001):
                mixed = ScoreMap((1 - part) * fitted.levels + part * other.levels)
                assert loss(mixed) >= least - 1e-10

    def test_calibration_objective_is_no_worse_than_the_brier_map_and_keeps_sharp(self, rng):
        evidence = labelled(rng, inputs=400)
        options = {"radii": 0.1, "alpha": 0.01, "clean_weight": 0.3}

        def loss(own):
            bounds = own.certify(evidence, radii=0.1, alpha=0.01)[0]
            clean = np.square(bounds.confidence - bounds.correct).mean()
            return 0.7 * certified_calibration_error(bounds).value + 0.3 * clean

        brier, direct = (fit_score_map(evidence, objective=goal, **options) for goal in ("brier", "calibration"))
        assert loss(direct) < loss(brier) - 0.003
        assert len(np.unique(direct.certify(evidence, radii=0.1, alpha=0.01)[0].confidence)) > 100

    def test_nothing_to_learn_is_said(self, rng):
        evidence = random_evidence(rng, inputs=30, draws=100)
        with pytest.raises(InputError, match="right and wrong predictions among the inputs certified at R = 0"):
            fit_score_map(evidence, radii=0.0, alpha=0.01)
        kept = fit_score_map(evidence, radii=0.0, alpha=0.01, on_failure="identity")
        assert "right and wrong" in kept.about["reason"]
        np.testing.assert_array_equal(kept.levels, cell_middles())


class TestUse:
    def test_saved_bit_for_bit_and_certified_alike(self, rng, tmp_path):
        evidence, other = labelled(rng), labelled(rng)
        other = dataclasses.replace(other, content=other.content + len(evidence))
        inside = fit_score_map(evidence, radii=[0.0, 0.1], alpha=0.01)
        full = FullMap(inside, IsotonicMap([0.1, 0.8], [0.3, 0.9]), about={"note": "both"})
        for own in (inside, full):
            save_map(own, tmp_path / "map.json")
            again = load_map(tmp_path / "map.json")
            assert again.as_dict() == own.as_dict()
            rows = [evaluate(other, radii=0.1, alpha=0.01, recalibration=g)[0] for g in (own, again)]
            assert str(rows[0]) == str(rows[1])  # with NaN, where nobody is accepted
            assert rows[0].certified_brier < rows[0].before.certified_brier
        body = unsealed(json.loads((tmp_path / "map.json").read_text()))
        body["inside"]["levels"][3] = 2.0
        (tmp_path / "bad.json").write_text(json.dumps(sealed(body)))
        with pytest.raises(InputError, match=r"Expected `levels` to lie in \[0, 1\]"):
            load_map(tmp_path / "bad.json")

    def test_the_outer_map_comes_after_the_mean(self, rng):
        evidence, inside = labelled(rng), rising(rng)
        outside = IsotonicMap([0.1, 0.8], [0.3, 0.9])
        both = FullMap(inside, outside).certify(evidence, radii=0.1, alpha=0.01)[0]
        alone = outside.intervals(confidence_bounds(evidence, radius=0.1, alpha=0.01, score_map=inside))
        np.testing.assert_array_equal([both.lower, both.upper], [alone.lower, alone.upper])
        with pytest.raises(InputError, match="Expected `inside` to be a map from `fit_score_map`"):
            FullMap(outside, outside)

    def test_deployed_is_the_mean_of_the_map(self):
        """A model that is sure or unsure by the sign of the noise: the mean of h, 0.9 and 0.5, not h of the mean."""

        class Sign(nn.Module):
            def forward(self, x):
                sure = torch.where(x[:, :1] > 0, 1.0, 0.625)
                return torch.cat([sure, 1 - sure], dim=1)

        inside = ScoreMap(np.where(GRID[:-1] < 0.5, 0.1, np.where(GRID[:-1] < 0.9, 0.25, 0.75)))
        for own, wanted in ((inside, 0.5), (FullMap(inside, IsotonicMap([0.4, 0.6], [0.0, 1.0])), 0.5)):
            model = RecalibratedModel(Sign(), own, sigma=1.0, draws=4000, outputs="probabilities", seed=1)
            said = model(torch.zeros(2, 3))
            assert said.predicted.tolist() == [0, 0]
            np.testing.assert_allclose(said.confidence, wanted, atol=0.15)
        one = RecalibratedModel(Sign(), FullMap(inside, IdentityMap()), sigma=0.0, outputs="probabilities")
        assert one(torch.zeros(1, 3)).confidence.tolist() == [0.25]
