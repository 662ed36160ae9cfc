"""The certified calibration error against enumeration, a mixed-integer solver, and the laws it must obey."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import Kind, adaptive_calibration_error, certified_calibration_error, expected_calibration_error
from certcal.metrics import equal_count_edges
from certcal.worstcase import Status
from laws import examples
from oracles import bin_of, plain_ece, worst_case_by_enumeration, worst_case_by_milp
from problems import CATALOGUE, bounded_sets, mixed


def with_free_inputs(solution, correct):
    """The witness with the uncertified inputs where the solution puts them."""
    if solution.free is None:
        return solution.confidence, correct
    count = solution.free.count
    confidence = np.concatenate([solution.confidence, np.full(count, solution.free.confidence)])
    return confidence, np.concatenate([correct, np.full(count, solution.free.correct)])


@examples(300)
@given(bounded_sets(), st.integers(0, 3))
def test_equals_enumeration_of_all_sign_vectors(problem, uncertified):
    lower, upper, correct, edges = problem
    solution = certified_calibration_error(lower, upper, correct, edges=edges, uncertified=uncertified)
    expected = worst_case_by_enumeration(lower, upper, correct, edges, uncertified)
    assert solution.value == pytest.approx(expected, abs=1e-12)
    assert solution.value >= expected - 1e-16
    assert (solution.kind, solution.status) == (Kind.EXACT, Status.SOLVED)


@examples(300)
@given(bounded_sets(), st.integers(0, 3))
def test_the_witness_attains_the_value_within_the_bounds(problem, uncertified):
    lower, upper, correct, edges = problem
    solution = certified_calibration_error(lower, upper, correct, edges=edges, uncertified=uncertified)
    assert (solution.confidence >= lower).all()
    assert (solution.confidence <= upper).all()
    assert [bin_of(z, edges) for z in solution.confidence] == solution.bins.tolist()
    assert plain_ece(*with_free_inputs(solution, correct), edges) == pytest.approx(solution.value, abs=1e-9)
    if solution.free:
        assert bin_of(solution.free.confidence, edges) == solution.free.bin


@examples(40)
@given(bounded_sets(most_inputs=6, most_bins=4))
def test_equals_the_mixed_integer_program(problem):
    lower, upper, correct, edges = problem
    solution = certified_calibration_error(lower, upper, correct, edges=edges)
    # HiGHS works to feasibility tolerances of 1e-6 on rows with coefficients of order N.
    assert solution.value == pytest.approx(worst_case_by_milp(lower, upper, correct, edges), abs=2e-5)


@examples(200)
@given(bounded_sets(), st.integers(0, 2**32 - 1))
def test_no_point_in_the_box_is_worse(problem, seed):
    lower, upper, correct, edges = problem
    rng = np.random.default_rng(seed)
    value = certified_calibration_error(lower, upper, correct, edges=edges).value
    for share in (rng.random(len(lower)), rng.integers(0, 2, len(lower))):
        point = np.clip(lower + share * (upper - lower), lower, upper)
        assert expected_calibration_error(point, correct, edges=edges) <= value


@examples(200)
@given(bounded_sets(), st.floats(0, 1), st.floats(0, 1))
def test_grows_with_the_intervals(problem, down, up):
    lower, upper, correct, edges = problem
    narrow = certified_calibration_error(lower, upper, correct, edges=edges).value
    wider = certified_calibration_error(lower * down, upper + (1 - upper) * up, correct, edges=edges).value
    assert wider >= narrow - 1e-14


@examples(200)
@given(bounded_sets(), st.integers(0, 2**32 - 1))
def test_order_is_irrelevant(problem, seed):
    lower, upper, correct, edges = problem
    order = np.random.default_rng(seed).permutation(len(lower))
    value = certified_calibration_error(lower, upper, correct, edges=edges).value
    shuffled = certified_calibration_error(lower[order], upper[order], correct[order], edges=edges).value
    assert shuffled == pytest.approx(value, abs=1e-14)


@examples(200)
@given(bounded_sets())
def test_points_give_the_plain_error(problem):
    lower, _, correct, edges = problem
    value = certified_calibration_error(lower, lower, correct, edges=edges).value
    assert value == pytest.approx(expected_calibration_error(lower, correct, edges=edges), abs=1e-12)


@examples(100)
@given(bounded_sets())
def test_uncertified_inputs_pull_towards_one(problem):
    """Whatever the others do, a free input can be right at confidence 0, an error of 1."""
    lower, upper, correct, edges = problem
    values = [
        certified_calibration_error(lower, upper, correct, edges=edges, uncertified=free).value
        for free in (0, 10, 1000, 10**6)
    ]
    assert values == sorted(values)
    assert values[-1] > 0.9999


def test_only_uncertified_inputs_can_be_as_wrong_as_possible():
    solution = certified_calibration_error([], [], [], uncertified=7)
    assert solution.value == 1.0
    assert (solution.free.count, len(solution.confidence)) == (7, 0)


def test_many_inputs_over_several_blocks_equal_their_sum_of_tables():
    """100 003 inputs: more than one block, and not a multiple of it."""
    lower, upper, correct, _ = mixed(100_003)
    solution = certified_calibration_error(lower, upper, correct)
    assert expected_calibration_error(solution.confidence, correct) == pytest.approx(solution.value, abs=1e-9)
    assert solution.stats["rounding"] < 1e-11


@pytest.mark.parametrize("n_bins", [1, 2, 15, 100, 400])
@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue_witnesses(name, n_bins):
    lower, upper, correct, clean = CATALOGUE[name]
    solution = certified_calibration_error(lower, upper, correct, n_bins=n_bins)
    witness = expected_calibration_error(solution.confidence, correct, n_bins=n_bins)
    assert witness == pytest.approx(solution.value, abs=1e-9)
    assert solution.value >= expected_calibration_error(clean, correct, n_bins=n_bins)


def test_signs_say_which_way_each_bin_errs():
    lower, upper, correct, _ = CATALOGUE["smoothed"]
    solution = certified_calibration_error(lower, upper, correct)
    gaps = np.bincount(solution.bins, correct - solution.confidence, minlength=15)
    assert (gaps * solution.signs >= -1e-9).all()


def test_quantile_edges_certify_the_adaptive_error():
    lower, upper, correct, clean = CATALOGUE["smoothed"]
    edges = equal_count_edges(clean)
    certified = certified_calibration_error(lower, upper, correct, edges=edges).value
    assert certified >= adaptive_calibration_error(clean, correct)


class TestPaperExample:
    """App. E.2: N = 2, M = 3, with e_{2,2} and e_{2,3} printed without their minus sign."""

    lower, upper, correct = [0.1, 0.5], [0.6, 0.9], [1, 0]

    def test_program_variables(self):
        from certcal.worstcase import WorstCaseProblem
        from certcal.worstcase.admm import per_bin_bounds

        low, high, blocked = per_bin_bounds(WorstCaseProblem.checked(self.lower, self.upper, self.correct, n_bins=3))
        np.testing.assert_allclose(low.ravel(), [0.1, 1 / 3, 0, 0, 0.5, 2 / 3])
        np.testing.assert_allclose(high.ravel(), [1 / 3, 0.6, 0, 0, 2 / 3, 0.9])
        np.testing.assert_array_equal(blocked.ravel(), [0, 0, 1, 1, 0, 0])

    def test_gaps_with_the_sign_slip_corrected(self):
        z = np.array([[0.23, 0.45, 0], [0, 0.6, 0.78]])
        gaps = np.array(self.correct)[:, None] - z
        np.testing.assert_allclose(gaps, [[0.77, 0.55, 1], [0, -0.6, -0.78]])
        a = np.array([[1, 0, 0], [0, 0, 1]])
        objective = np.abs((gaps * a).sum(axis=0)).sum() / 2  # Eq. (5)
        assert objective == pytest.approx(expected_calibration_error([0.23, 0.78], self.correct, n_bins=3))

    def test_worst_case(self):
        solution = certified_calibration_error(self.lower, self.upper, self.correct, n_bins=3)
        assert solution.value == pytest.approx(0.9)
        assert solution.confidence.tolist() == [0.1, 0.9]


@pytest.mark.parametrize("edges", [[0, 0.3, 1], [0, 0.7, 1]])
def test_free_inputs_gain_from_the_first_run_or_from_the_last(edges):
    """20 wrong at 0.2 and 20 right at 0.9 fix the signs (−, +): the free inputs then take an inner edge."""
    points, correct = np.repeat([0.2, 0.9], 20), np.repeat([False, True], 20)
    solution = certified_calibration_error(points, points, correct, edges=edges, uncertified=3)
    assert solution.value * 43 == pytest.approx(8.1)
    assert solution.value == pytest.approx(worst_case_by_enumeration(points, points, correct, np.array(edges), 3))


def test_the_value_is_never_below_the_true_supremum_however_sums_round():
    """Equal bounds whose running sum rounds down at every step of its second half, against exact arithmetic."""
    inputs = 1 << 15
    lower = np.full(inputs, 0.5 + 2.0**-40 - 2.0**-53)
    correct = np.zeros(inputs, dtype=bool)
    solution = certified_calibration_error(lower, lower, correct)
    assert Fraction(solution.value) >= Fraction(lower[0])
    assert solution.value - solution.stats["rounding"] < lower[0]  # without the margin it would be below


@examples(150)
@given(bounded_sets(most_inputs=6, most_bins=4))
def test_the_value_is_never_below_exact_rational_arithmetic(problem):
    lower, upper, correct, edges = ([Fraction(float(x)) for x in part] for part in problem)
    value = certified_calibration_error(*problem[:3], edges=problem[3]).value
    assert Fraction(value) >= worst_case_by_enumeration(lower, upper, correct, edges)
