"""C2: bounds that contain the closed-form truth, for every method, at every radius, and are as tight as promised."""

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from certcal.certificates import PLANNED_SHARE, Method, confidence_bounds, confidence_bounds_at
from certcal.certificates.limits import clopper_pearson_limits
from certcal.certificates.shift import greatest_probability, least_probability
from certcal.errors import InputError
from certcal.smoothing.evidence import threshold_grid
from laws import examples
from smoothing_oracles import (
    DIGITS,
    ProbitModel,
    beta_limits,
    cdf_bounds,
    evidence,
    evidence_from_scores,
    normal_cdf,
    normal_quantile,
    random_evidence,
)

METHODS = tuple(Method)


def _allowed(alpha, repetitions):
    return alpha + 4 * math.sqrt(alpha * (1 - alpha) / repetitions)


def _width(intervals):
    return float((intervals.upper - intervals.lower).mean())


MODELS = {
    "middling": ProbitModel(margin=0.2, slope=2.0, sigma=0.5),
    "confident": ProbitModel(margin=2.5, slope=1.0, sigma=0.5),
    "saturated": ProbitModel(margin=9.0, slope=8.0, sigma=0.5),
    "doubtful": ProbitModel(margin=-1.5, slope=1.0, sigma=1.0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("draws", [pytest.param(5, marks=pytest.mark.slow), 100])
def test_bounds_contain_the_truth_at_their_rate(rng, name, draws):
    """Per input, one event for all radii: the interval holds the whole true range at each of them."""
    model, repetitions = MODELS[name], 1500
    found = model.evidence(rng, inputs=repetitions, draws=draws)
    for method in METHODS:
        missed = np.zeros(repetitions, dtype=bool)
        for c in confidence_bounds_at(found, radii=[0.0, 0.1, 0.5, 1.0], alpha=0.2, method=method, split_alpha=False):
            missed |= (c.lower > model.confidence(-c.radius)) | (c.upper < model.confidence(c.radius))
        assert missed.mean() <= _allowed(0.2, repetitions), method


@pytest.mark.parametrize("method", METHODS)
def test_both_certificates_hold_together_at_the_joint_rate(rng, method):
    model, repetitions = ProbitModel(margin=0.5, slope=2.0, sigma=0.5), 2000
    found = model.evidence(rng, inputs=repetitions, draws=50)
    radii = np.linspace(0, 0.5, 6)
    rates = {}
    for joint in (True, False):
        missed = np.zeros(repetitions, dtype=bool)
        for c in confidence_bounds_at(found, radii=radii, alpha=0.2, method=method, split_alpha=joint):
            missed |= (c.lower > model.confidence(-c.radius)) | (c.upper < model.confidence(c.radius))
            missed |= c.certified & (c.radius > model.radius())
        rates[joint] = missed.mean()
    assert rates[True] <= _allowed(0.2, repetitions)
    assert rates[True] < rates[False] <= _allowed(0.4, repetitions)


def test_the_mean_may_not_be_trusted_with_less_than_the_bound_says(rng):
    """Two-valued scores are the worst case of the Standard certificate: shrinking its limits must lose the truth."""
    scores = (rng.random((4000, 60)) < 0.5).astype(float)
    c = confidence_bounds(evidence_from_scores(scores), radius=0.0, alpha=0.2, method="standard", split_alpha=False)
    half = math.sqrt(math.log(2 / (0.2 * PLANNED_SHARE)) / 120)
    np.testing.assert_allclose((c.upper - c.lower) / 2, half, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
def test_distribution_bounds_equal_a_plain_reading_of_the_paper(rng, shift):
    found = random_evidence(rng, inputs=6, draws=400)
    empty = np.zeros((2, 256), dtype=np.int64)
    empty[0, 0] = empty[1, 255] = 400  # all in the first interval, whose probability is 1, and all in the last
    found = evidence(np.vstack([found.histogram, empty]), sigma=0.25)
    band = math.sqrt(math.log(2 / 0.01) / 800)
    plain = {
        "cdf": lambda k, n: (max(k / n - band, 0.0), min(k / n + band, 1.0)),
        "cdf-cp": lambda k, n: beta_limits(k, n, 0.01 / 255),
    }
    for method, limits in plain.items():
        c = confidence_bounds(found, radius=0.25 * shift, alpha=0.01 / PLANNED_SHARE, method=method, split_alpha=False)
        wanted = np.array([cdf_bounds(row, limits, shift) for row in found.histogram.tolist()])
        np.testing.assert_allclose(c.lower, wanted[:, 0], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(c.upper, wanted[:, 1], rtol=1e-8, atol=1e-12)
        assert (c.lower <= wanted[:, 0] + 1e-13).all()
        assert (c.upper >= wanted[:, 1] - 1e-13).all()


@pytest.mark.parametrize("method", ["standard", "standard-bernstein"])
def test_mean_bounds_equal_a_plain_reading_of_the_paper(rng, method):
    found = random_evidence(rng, inputs=20, draws=400)
    c = confidence_bounds(found, radius=0.1, alpha=0.01 / PLANNED_SHARE, method=method, split_alpha=False)
    mean = found.score_sum / 400
    variance = (found.score_square_sum - 400 * mean**2) / 399
    half = {
        "standard": math.sqrt(math.log(200) / 800),
        "standard-bernstein": np.sqrt(2 * variance * math.log(400) / 400) + 7 * math.log(400) / (3 * 399),
    }[method]
    norm = stats.norm
    np.testing.assert_allclose(c.lower, norm.cdf(norm.ppf(np.maximum(mean - half, 0)) - 0.4), rtol=1e-8)
    np.testing.assert_allclose(c.upper, norm.cdf(norm.ppf(np.minimum(mean + half, 1)) + 0.4), rtol=1e-8)


def test_the_combined_bounds_solve_the_problem_they_state(rng):
    """The least Σ w g(a) over a in the cell limits with a mean at least m, found by a solver for convex programs."""
    from scipy.optimize import LinearConstraint, minimize

    from certcal.certificates.cells import CellLimits, MeanLimits

    widths = np.array([0.1, 0.3, 0.4, 0.2])
    lower, upper = np.array([[0.8, 0.5, 0.2, 0.0]]), np.array([[1.0, 0.95, 0.6, 0.35]])
    position = np.arange(4)[None]
    cells = CellLimits(widths, lower[0], position, upper[0], position)
    for low, high in ((0.4, 0.5), (0.45, 0.6), (0.1, 0.95)):
        held = cells.held_to(MeanLimits(np.array([low]), np.array([high])))
        for shift in (0.0, 0.5, 1.5):
            ends = []
            for sign, mean in ((1, (low, 1.0)), (-1, (0.0, high))):
                problem = minimize(
                    lambda a, s=sign, r=shift: s * special.ndtr(special.ndtri(a) - s * r) @ widths,
                    (lower[0] + upper[0]) / 2,
                    bounds=list(zip(np.maximum(lower[0], 1e-9), np.minimum(upper[0], 1 - 1e-9), strict=True)),
                    constraints=LinearConstraint(widths, *mean),
                    method="SLSQP",
                    options={"ftol": 1e-13, "maxiter": 500},
                )
                ends.append(sign * problem.fun)
            found = [float(end[0]) for end in held.at(shift)]
            assert found == pytest.approx(ends, abs=1e-6)
            assert cells.at(shift)[0][0] <= found[0] + 1e-15
            assert cells.at(shift)[1][0] >= found[1] - 1e-15


def test_the_combined_bounds_at_the_input_itself_are_the_better_of_both(rng):
    found = random_evidence(rng, inputs=50, draws=2000)

    def bounds(method, alpha):
        return confidence_bounds(found, radius=0.0, alpha=alpha, method=method, split_alpha=False)

    both, cdf, mean = bounds("cdf-cp-mean", 0.04), bounds("cdf-cp", 0.03), bounds("standard-bernstein", 0.01)
    np.testing.assert_allclose(both.lower, np.maximum(cdf.lower, mean.lower), rtol=1e-9)
    np.testing.assert_allclose(both.upper, np.minimum(cdf.upper, mean.upper), rtol=1e-9)
    assert (both.lower <= np.maximum(cdf.lower, mean.lower)).all()
    assert (both.upper >= np.minimum(cdf.upper, mean.upper)).all()


def test_shifted_probabilities_stay_outside_many_digit_arithmetic(rng):
    with mp.workdps(DIGITS):
        for _ in range(600):
            p = float((rng.random(), 10 ** rng.uniform(-30, 0), 1 - 10 ** rng.uniform(-15, 0))[rng.integers(3)])
            shift = float(10 ** rng.uniform(-6, 1.2))
            low = float(least_probability(np.array([p]), shift)[0])
            high = float(greatest_probability(np.array([p]), shift)[0])
            exact_low, exact_high = normal_cdf(normal_quantile(p) - shift), normal_cdf(normal_quantile(p) + shift)
            assert exact_low * (1 - mp.mpf(1e-10)) - mp.mpf(1e-299) <= low < exact_low
            assert high == 1.0 or exact_high < high <= exact_high * (1 + mp.mpf(1e-10))


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_integrals_stay_outside_many_digit_arithmetic(rng, shift):
    found = random_evidence(rng, inputs=2, draws=700)
    cells = clopper_pearson_limits(found, 0.01)
    lower, upper = cells.at(shift)
    with mp.workdps(DIGITS):
        for row in range(2):
            low, high = cells.lower[cells.lower_at[row]], cells.upper[cells.upper_at[row]]
            least = [normal_cdf(normal_quantile(p) - shift) if p > 0 else mp.mpf(0) for p in low]
            most = [normal_cdf(normal_quantile(p) + shift) if p < 1 else mp.mpf(1) for p in high]
            widths = [mp.mpf(width) for width in np.diff(threshold_grid())]
            assert lower[row] < mp.fsum(w * p for w, p in zip(widths, least, strict=True))
            assert upper[row] > mp.fsum(w * p for w, p in zip(widths, most, strict=True))


def test_shifting_leaves_certainty_and_zero_alone():
    ends = np.array([0.0, 1.0])
    for shift in (0.0, 1e-9, 1.0, 50.0, math.inf):
        assert least_probability(ends, shift).tolist() == [0.0, 1.0]
        assert greatest_probability(ends, shift).tolist() == [0.0, 1.0]
    assert greatest_probability(np.array([1e-310]), 1.0)[0] > 0.0


def test_confident_distributions_gain_most_from_exact_tails(rng):
    """Mean .990, R/σ = 2, 1e5 draws, alpha .001: the lower bound rises from .56 over .66 to .90."""
    share = np.diff(special.betainc(59.4, 0.6, threshold_grid()))
    found = evidence(rng.multinomial(100_000, share / share.sum(), size=20), sigma=0.5)
    c = {m: confidence_bounds(found, radius=1.0, alpha=0.001, method=m, split_alpha=False) for m in METHODS}
    lower = {method: float(intervals.lower.mean()) for method, intervals in c.items()}
    assert found.confidence.mean() == pytest.approx(0.990, abs=1e-3)
    assert lower["standard"] == pytest.approx(0.557, abs=0.005)
    assert lower["cdf"] == pytest.approx(0.664, abs=0.005)
    assert lower["cdf-cp"] == pytest.approx(0.900, abs=0.005)
    assert lower["cdf-cp-mean"] == pytest.approx(lower["cdf-cp"], abs=0.002)


def test_widths_order_the_methods(rng):
    found = random_evidence(rng, inputs=300, draws=10_000)
    for radius in (0.0, 0.1, 0.25, 0.5):
        w = {m: _width(confidence_bounds(found, radius=radius, alpha=0.001, method=m)) for m in METHODS}
        assert w["cdf-cp"] < w["cdf"]
        assert w["standard-bernstein"] < w["standard"]
        assert w["cdf-cp-mean"] < 1.01 * min(w["cdf-cp"], 1.1 * w["standard-bernstein"])
        assert radius == 0.0 or w["cdf-cp"] < w["standard-bernstein"]


@examples(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    draws=st.sampled_from([1, 2, 10, 1000, 100_000]),
    radii=st.lists(st.integers(0, 3000), min_size=2, max_size=6),
    alpha=st.sampled_from([1e-9, 0.001, 0.2, 0.9]),
    method=st.sampled_from(METHODS),
)
def test_intervals_nest_as_the_radius_grows_and_as_alpha_shrinks(seed, draws, radii, alpha, method):
    found = random_evidence(np.random.default_rng(seed), inputs=5, draws=draws)
    previous = None
    for c in confidence_bounds_at(found, radii=[r / 1000 for r in sorted(radii)], alpha=alpha, method=method):
        assert (c.lower >= 0.0).all()
        assert (c.upper <= 1.0).all()
        if alpha < 0.5:
            assert (c.lower <= found.confidence).all()
            assert (c.upper >= found.confidence).all()
        if previous is not None:
            assert (c.lower <= previous.lower).all()
            assert (c.upper >= previous.upper).all()
            assert not (c.certified & ~previous.certified).any()
        previous = c
    stricter = confidence_bounds(found, radius=c.radius, alpha=alpha / 10, method=method)
    assert (stricter.lower <= c.lower).all()
    assert (stricter.upper >= c.upper).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_radius_or_many_makes_no_difference(rng, method):
    found = random_evidence(rng, inputs=30, draws=500)
    many = confidence_bounds_at(found, radii=[0.3, 0.0, 0.1], alpha=0.05, method=method)
    for c in many:
        one = confidence_bounds(found, radius=c.radius, alpha=0.05, method=method)
        for field in dataclasses.fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(c, field.name))
    with pytest.raises(InputError, match="Expected `radii` to hold at least one value"):
        confidence_bounds_at(found, radii=[], alpha=0.05, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_inputs_with_different_draws_are_certified_as_if_alone(rng, method):
    parts = [random_evidence(rng, inputs=4, draws=draws) for draws in (300, 50, 1000, 300)]
    whole = evidence(np.vstack([part.histogram for part in parts]), sigma=0.25)
    c = confidence_bounds(whole, radius=0.1, alpha=0.05, method=method)
    for row in range(len(whole)):
        alone = confidence_bounds(
            evidence(whole.histogram[row : row + 1], sigma=0.25), radius=0.1, alpha=0.05, method=method
        )
        assert c.lower[row] == pytest.approx(alone.lower[0], rel=1e-12)
        assert c.upper[row] == pytest.approx(alone.upper[0], rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_alpha_is_split_over_certificates_and_looks(rng, method):
    found = MODELS["middling"].evidence(rng, inputs=5, draws=400)
    staged = dataclasses.replace(found, header=dataclasses.replace(found.header, looks=4))
    joint = confidence_bounds(staged, radius=0.1, alpha=0.08, method=method)
    each = confidence_bounds(found, radius=0.1, alpha=0.01, method=method, split_alpha=False)
    for name in ("lower", "upper", "certified_radius", "certified"):
        np.testing.assert_array_equal(getattr(joint, name), getattr(each, name))
    assert (joint.alpha, joint.split_alpha, joint.method) == (0.08, True, method)
    assert (each.alpha, each.split_alpha) == (0.01, False)
