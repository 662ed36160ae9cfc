"""The guarantee for the whole set: what certificates that fail can do."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import (
    InputError,
    Kind,
    allowed_failures,
    certified_brier_score,
    certified_calibration_error,
    jointly_certified_brier_score,
    jointly_certified_calibration_error,
)
from laws import examples
from oracles import (
    bin_of,
    plain_ece,
    worst_case_with_failures,
    worst_case_with_failures_by_signs,
)
from problems import CATALOGUE, bounded_sets, mixed, smoothed_like


@examples(120)
@given(bounded_sets(most_inputs=5, most_bins=4), st.integers(1, 4), st.integers(0, 2))
def test_equals_every_choice_of_failures(problem, failures, uncertified):
    lower, upper, correct, edges = problem
    failures = min(failures, len(lower))
    solution = jointly_certified_calibration_error(
        *problem[:3], failures=failures, edges=edges, uncertified=uncertified
    )
    expected = worst_case_with_failures(lower, upper, correct, edges, failures, uncertified)
    assert solution.kind is Kind.EXACT
    assert solution.value == pytest.approx(expected, abs=1e-12)
    assert solution.value >= expected - 1e-16


@examples(150)
@given(bounded_sets(most_inputs=25, most_bins=6), st.integers(1, 25), st.integers(0, 2))
def test_equals_the_best_failures_against_every_sign_vector(problem, failures, uncertified):
    *parts, edges = problem
    solution = jointly_certified_calibration_error(*parts, failures=failures, edges=edges, uncertified=uncertified)
    expected = worst_case_with_failures_by_signs(*parts, edges, failures, uncertified)
    assert solution.value == pytest.approx(expected, abs=1e-12)
    assert solution.value >= expected - 1e-15


def clusters(seed):
    """A few kinds of inputs, many of each, and few bins: also inputs that escape from their run have to fail."""
    rng = np.random.default_rng(seed)
    edges = np.array([0, *np.sort(rng.random(rng.integers(1, 4))), 1])
    kind = rng.integers(0, rng.integers(2, 5), rng.integers(10, 40))
    lower, upper = np.sort(rng.random((2, 4)), axis=0)
    return lower[kind], upper[kind], rng.integers(0, 2, 4)[kind] > 0, edges


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(one, marks=pytest.mark.slow) for one in range(20, 80))])
def test_equals_the_best_failures_among_kinds_of_inputs(seed):
    *parts, edges = clusters(seed)
    for failures in (1, 2, 5, 9):
        value = jointly_certified_calibration_error(*parts, failures=failures, edges=edges).value
        expected = worst_case_with_failures_by_signs(*parts, edges, failures)
        assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(80))
def test_steps_bound_the_exact_value_also_where_runs_are_emptied(seed, monkeypatch):
    *parts, edges = clusters(seed)
    options = [{"failures": k, "edges": edges} for k in range(1, len(parts[0]))]
    exact = [jointly_certified_calibration_error(*parts, **option).value for option in options]
    monkeypatch.setattr("certcal.worstcase.failing.MOST_WORK", 900)
    monkeypatch.setattr("certcal.worstcase.failing.most_to_gain", lambda *_: np.inf)  # a bound of its own
    coarse = [jointly_certified_calibration_error(*parts, **option).value for option in options]
    assert (np.array(coarse) >= np.array(exact) - 1e-13).all()
    assert np.diff(coarse).min() >= -1e-13


@examples(60)
@given(bounded_sets(most_inputs=5, most_bins=3), st.integers(1, 3))
def test_is_never_below_exact_rational_arithmetic(problem, failures):
    lower, upper, correct, edges = ([Fraction(float(x)) for x in part] for part in problem)
    value = jointly_certified_calibration_error(*problem[:3], failures=failures, edges=problem[3]).value
    assert Fraction(value) >= worst_case_with_failures(lower, upper, correct, edges, min(failures, len(lower)))


@examples(150)
@given(bounded_sets(most_inputs=20), st.integers(1, 20), st.integers(0, 2))
def test_the_witness_attains_the_value_with_that_many_failures(problem, failures, uncertified):
    lower, upper, correct, edges = problem
    solution = jointly_certified_calibration_error(
        *problem[:3], failures=failures, edges=edges, uncertified=uncertified
    )
    failed, kept = solution.stats["failed"], np.ones(len(lower), bool)
    kept[failed] = False
    assert len(set(failed)) == min(failures, len(lower))
    assert (solution.confidence >= lower)[kept].all()
    assert (solution.confidence <= upper)[kept].all()
    assert [bin_of(z, edges) for z in solution.confidence] == solution.bins.tolist()
    confidence, right = solution.confidence, np.where(kept, correct, solution.stats["failed_correct"])
    if uncertified:
        confidence = np.append(confidence, np.full(uncertified, solution.free.confidence))
        right = np.append(right, np.full(uncertified, solution.free.correct))
    assert plain_ece(confidence, right, edges) == pytest.approx(solution.value, abs=1e-9)
    assert solution.stats["attained"] == pytest.approx(solution.value, abs=1e-9)


@examples(60)
@given(bounded_sets(most_inputs=20), st.integers(0, 3))
def test_starts_at_the_certified_error_and_grows_with_failures(problem, uncertified):
    *parts, edges = problem
    options = {"edges": edges, "uncertified": uncertified}
    plain = certified_calibration_error(*parts, **options).value
    inputs = len(parts[0])
    values = [jointly_certified_calibration_error(*parts, failures=k, **options).value for k in range(inputs + 1)]
    assert values[0] == plain
    assert np.diff(values).min() >= -1e-13
    assert values[-1] == pytest.approx(1.0)
    for k, value in enumerate(values):
        assert value <= plain + 2 * k / (inputs + uncertified) + 1e-12


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("failures", [1, 7, 60])
def test_catalogue(name, failures):
    lower, upper, correct, _ = CATALOGUE[name]
    solution = jointly_certified_calibration_error(lower, upper, correct, failures=failures)
    assert solution.kind is Kind.EXACT
    assert solution.stats["attained"] == pytest.approx(solution.value, abs=1e-9)


@pytest.mark.parametrize("make", [smoothed_like, mixed])
def test_too_many_failures_to_count_one_by_one_give_an_upper_bound_between_exact_and_crude(make, monkeypatch):
    lower, upper, correct, _ = make(400)
    counts = [0, 3, 10, 11, 12, 25, 40, 41, 90, 200, 400]

    def solve():
        return [jointly_certified_calibration_error(lower, upper, correct, failures=k) for k in counts]

    exact, bounds = solve(), {}
    for limit in (400_000, 60_000, 1000):
        monkeypatch.setattr("certcal.worstcase.failing.MOST_WORK", limit)
        coarse = solve()
        assert {solution.kind for solution in coarse[8:]} == {Kind.UPPER}
        for k, best, bound in zip(counts, exact, coarse, strict=True):
            assert bound.value >= best.value - 1e-12
            assert bound.value <= best.value + 2 * k / 400
            assert bound.stats["attained"] <= best.value + 1e-12
            assert bound.stats["failures"] == len(bound.stats["failed"]) == k
        assert np.diff([bound.value for bound in coarse]).min() >= -1e-13
        bounds[limit] = np.array([bound.value for bound in coarse])
    assert (bounds[1000] >= bounds[400_000] - 1e-12).all()
    assert exact[8].value < bounds[400_000][8] < bounds[1000][8]  # they can be told apart


@pytest.mark.slow
def test_many_failures_take_little_memory(rng):
    """The scores of all runs at once would be over a gigabyte here."""
    lower = rng.random(60_000) * 0.9
    upper = np.minimum(lower + 0.3 * rng.random(60_000), 1.0)
    tracemalloc.start()
    try:
        found = jointly_certified_calibration_error(lower, upper, rng.random(60_000) < lower, failures=30_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.stats["attained"] <= found.value < 1
    assert peak < 150e6


def test_only_uncertified_inputs_have_nothing_to_fail():
    assert jointly_certified_calibration_error([], [], [], failures=3, uncertified=2).value == 1.0
    assert jointly_certified_brier_score([], [], [], failures=3, uncertified=2).value == 1.0


class TestBrier:
    @examples(150)
    @given(bounded_sets(), st.integers(0, 12), st.integers(0, 3))
    def test_equals_sorting_the_losses(self, problem, failures, uncertified):
        lower, upper, correct, _ = problem
        losses = sorted(
            max((right - low) ** 2, (right - high) ** 2) for low, high, right in zip(*problem[:3], strict=True)
        )
        expected = (sum(losses[failures:]) + min(failures, len(losses)) + uncertified) / (len(losses) + uncertified)
        solution = jointly_certified_brier_score(lower, upper, correct, failures=failures, uncertified=uncertified)
        assert solution.value == pytest.approx(expected, abs=1e-12)
        assert solution.value >= expected - 1e-16
        kept = np.ones(len(lower), bool)
        kept[solution.stats["failed"]] = False
        attained = np.square(np.where(kept, correct, solution.stats["failed_correct"]) - solution.confidence).sum()
        assert (attained + uncertified) / (len(lower) + uncertified) == pytest.approx(solution.value)

    def test_no_failures_give_the_certified_score(self):
        lower, upper, correct, _ = smoothed_like(100)
        joint = jointly_certified_brier_score(lower, upper, correct, failures=0)
        assert joint.value == certified_brier_score(lower, upper, correct).value

    def test_losses_that_underflow_are_no_reason_to_claim_zero(self):
        """(1e-200)² is less than any float above 0, and more than 0."""
        score = jointly_certified_brier_score
        assert score([0.0], [1e-200], [0], failures=0).value > 0
        assert score([0.0, 1.0], [0.0, 1.0], [0, 1], failures=0).value == 0
        assert score([0.0] * 3, [5e-324] * 3, [0] * 3, failures=0).value > 0

    @examples(100)
    @given(bounded_sets(most_inputs=6), st.integers(0, 3))
    def test_is_never_below_exact_rational_arithmetic(self, problem, failures):
        parts = ([Fraction(float(x)) for x in part] for part in problem[:3])
        losses = sorted(max((c - a) ** 2, (c - b) ** 2) for a, b, c in zip(*parts, strict=True))
        exact = (sum(losses[failures:]) + min(failures, len(losses))) / Fraction(len(losses))
        assert Fraction(jointly_certified_brier_score(*problem[:3], failures=failures).value) >= exact


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: jointly_certified_calibration_error([0.1], [0.5], [1], failures=-1),
            "Expected `failures` to be an integer ≥ 0, but got -1.",
        ),
        (
            lambda: jointly_certified_brier_score([0.1], [0.5], [1], failures=1.0),
            "Expected `failures` to be an integer ≥ 0, but got 1.0.",
        ),
        (
            lambda: jointly_certified_calibration_error([0.7], [0.5], [1], failures=1),
            "Expected `lower` to be at most `upper`, but got lower = 0.7 > upper = 0.5 at index 0.",
        ),
        (lambda: allowed_failures(0, alpha=0.1, delta=0.1), "Expected `inputs` to be an integer ≥ 1, but got 0."),
        (
            lambda: allowed_failures(5, alpha=0.0, delta=0.1),
            "Expected `alpha` to lie in the open interval (0, 1), but got 0.0.",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message
