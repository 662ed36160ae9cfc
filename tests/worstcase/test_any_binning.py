"""The worst case over every binning against the enumeration of attacks and partitions, and against HiGHS."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import (
    InputError,
    Kind,
    adaptive_calibration_error,
    certified_calibration_error,
    expected_calibration_error,
)
from certcal.metrics import equal_count_edges
from certcal.worstcase import WorstCaseProblem, any_binning_calibration_error, equal_count_calibration_error
from certcal.worstcase.cuts import Below, RunProgram, best_runs
from enumeration import GRID, any_binning_errors, equal_count_errors, every_attack, grid_sets
from laws import examples
from problems import CATALOGUE, mixed, smoothed_like

POINTS = np.unique([*GRID, *np.nextafter(GRID[1:], 0.0), *np.nextafter(GRID[:-1], 2.0)])
INSIDE = GRID[1:-1]  # fewer points, so that there can be more inputs
FEW = np.unique([*INSIDE, *np.nextafter(INSIDE, 0.0), *np.nextafter(INSIDE, 2.0)])


@examples(1500)
@given(grid_sets(most=3), st.integers(1, 4))
def test_equals_the_enumeration_of_attacks_and_partitions(problem, bins):
    solution = any_binning_calibration_error(*problem, n_bins=bins)
    expected = any_binning_errors(*every_attack(*problem, POINTS), bins).max()
    assert solution.value == pytest.approx(expected, abs=1e-12)
    assert solution.value >= expected - 1e-16
    assert solution.kind is Kind.EXACT


@examples(800)
@given(grid_sets(most=4, least=2, grid=INSIDE), st.integers(1, 4))
def test_equals_the_enumeration_for_more_inputs(problem, bins):
    value = any_binning_calibration_error(*problem, n_bins=bins).value
    assert value == pytest.approx(any_binning_errors(*every_attack(*problem, FEW), bins).max(), abs=1e-12)


@examples(400)
@given(grid_sets(most=2), st.integers(1, 3), st.sampled_from([(1, 0), (0, 1), (1, 1), (2, 0)]))
def test_free_inputs_are_the_worst_of_every_attack(problem, bins, free):
    uncertified, failures = free
    attacks = every_attack(*problem, POINTS, uncertified=uncertified, failures=failures)
    expected = any_binning_errors(*attacks, bins).max()
    solution = any_binning_calibration_error(*problem, n_bins=bins, uncertified=uncertified, failures=failures)
    if failures:
        assert solution.kind is Kind.UPPER
        assert solution.value >= expected - 1e-15
    else:
        assert solution.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("bins", [1, 2, 15])
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_witness_attains_the_value_and_no_fixed_bins_do_worse(name, bins):
    lower, upper, correct, clean = CATALOGUE[name]
    solution = any_binning_calibration_error(lower, upper, correct, n_bins=bins)
    assert ((lower <= solution.confidence) & (solution.confidence <= upper)).all()
    edges = solution.stats["edges"]
    assert len(edges) <= bins + 1
    attained = expected_calibration_error(solution.confidence, correct, edges=edges)
    assert attained == pytest.approx(solution.value, abs=1e-9) == solution.stats["attained"]
    assert solution.value >= certified_calibration_error(lower, upper, correct, n_bins=bins).value - 1e-11
    assert solution.value >= adaptive_calibration_error(clean, correct, n_bins=bins)
    assert solution.value <= solution.stats["without_bins"]


def test_more_bins_end_at_the_mean_of_the_far_ends():
    lower, upper, correct, _ = smoothed_like(60)
    values = [any_binning_calibration_error(lower, upper, correct, n_bins=bins).value for bins in (1, 2, 5, 15, 60)]
    assert values == sorted(values)
    far = np.abs(correct - np.where(correct, lower, upper)).mean()
    assert values[-1] == pytest.approx(far, abs=1e-9)


def test_many_inputs_are_rounded_outward(monkeypatch):
    lower, upper, correct, _ = mixed(300)
    exact = any_binning_calibration_error(lower, upper, correct)
    monkeypatch.setattr("certcal.worstcase.any_binning.MOST_INPUTS", 0)
    coarse = any_binning_calibration_error(lower, upper, correct)
    assert coarse.kind is Kind.UPPER
    assert exact.value <= coarse.value <= exact.value + 2 * 2.0**-11
    assert coarse.stats["attained"] <= exact.value


@pytest.mark.parametrize("cells", [0, 10**6])
def test_points_below_two_thresholds_are_counted_in_blocks_and_at_once(cells, monkeypatch, rng):
    monkeypatch.setattr("certcal.worstcase.cuts._CELLS", cells)
    for points in (1, 2, 15, 16, 17, 100):
        x, y = rng.integers(0, 12, (2, points)) / 12
        amount = rng.integers(-9, 9, points)
        rises, falls = np.arange(-1, 14) / 12, np.arange(-1, 15) / 12
        rise, fall = (own.ravel() for own in np.meshgrid(np.arange(len(rises)), np.arange(len(falls))))
        below = (x < rises[rise, None]) & (y < falls[fall, None])
        count, total = Below(rises, falls, x, y, amount)(rise, fall)
        assert count.tolist() == below.sum(axis=1).tolist()
        assert total.tolist() == (below * amount).sum(axis=1).tolist()


@pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_every_start_of_every_run_gives_no_more_than_the_search_by_halves(accuracy, rng):
    """The plain program: all pairs of a rise and a fall, run by run."""
    lower, upper, _, _ = mixed(60)
    problem = WorstCaseProblem.checked(lower, upper, rng.random(60) < accuracy)
    program = RunProgram(problem)
    rise, fall = np.arange(len(program.rises)), np.arange(len(program.falls))
    at_rise, at_fall = (np.where(place == 0, 0.0, -np.inf) for place in (rise, fall))
    ahead = program.rises[:, None] < program.falls
    plus = np.where(ahead, program.plus(*np.meshgrid(rise, fall, indexing="ij")), -np.inf)
    minus = np.where(
        (program.falls[:, None] < program.rises), program.minus(*np.meshgrid(fall, rise, indexing="ij")), -np.inf
    )
    for bins in (1, 2, 3, 4, 5):
        to_fall, to_rise = (at_rise[:, None] + plus).max(axis=0), (at_fall[:, None] + minus).max(axis=0)
        at_fall, at_rise = np.maximum(at_fall, to_fall), np.maximum(at_rise, to_rise)
        assert float(best_runs(program, bins).total * int(program.unit)) == max(at_fall[-1], at_rise[-1])


@examples(150)
@given(grid_sets(most=3, grid=INSIDE), st.integers(1, 4))
def test_the_equal_count_bound_holds_for_every_attack(problem, bins):
    lower, upper, correct = problem
    bound = equal_count_calibration_error(*problem, n_bins=bins)
    attacks = every_attack(*problem, FEW)
    values = [adaptive_calibration_error(z, c, n_bins=bins) for z, c in zip(*attacks, strict=True)]
    assert bound.value >= max(values) - 1e-15
    assert (
        bound.value
        <= any_binning_calibration_error(np.nextafter(lower, 0), np.nextafter(upper, 1), correct, n_bins=bins).value
    )
    assert ((lower <= bound.confidence) & (bound.confidence <= upper)).all()
    own = adaptive_calibration_error(bound.confidence, correct, n_bins=bins)
    assert own == bound.stats["attained"] == pytest.approx(bound.value - bound.stats["gap"])


@pytest.mark.slow
@examples(60)
@given(grid_sets(most=6), st.integers(1, 3))
def test_the_equal_count_bound_is_above_the_mixed_integer_program(problem, bins):
    bound = equal_count_calibration_error(*problem, n_bins=bins)
    exact = equal_count_calibration_error(*problem, n_bins=bins, method="milp")
    assert bound.value >= exact.value - 1e-5
    assert exact.stats["attained"] == pytest.approx(exact.value, abs=1e-4)


def adaptive_counts(inputs, bins):
    """How many of distinct confidences `adaptive_calibration_error` puts into each bin, by its own edges."""
    distinct = np.arange(1, inputs + 1) / (inputs + 1)
    return np.histogram(distinct, equal_count_edges(distinct, n_bins=bins))[0]


@pytest.mark.slow
@examples(100)
@given(grid_sets(most=4), st.integers(1, 4))
def test_the_mixed_integer_program_equals_enumeration(problem, bins):
    exact = equal_count_calibration_error(*problem, n_bins=bins, method="milp")
    attacks = every_attack(*problem, GRID)
    expected = equal_count_errors(*attacks, adaptive_counts(len(problem[0]), bins)).max()
    assert exact.value == pytest.approx(expected, abs=exact.stats["tolerance"])


@examples(200)
@given(grid_sets(most=4), st.integers(1, 4))
def test_the_equal_count_bound_holds_however_ties_are_shared(problem, bins):
    attacks = every_attack(*problem, GRID)
    expected = equal_count_errors(*attacks, adaptive_counts(len(problem[0]), bins)).max()
    assert equal_count_calibration_error(*problem, n_bins=bins).value >= expected - 1e-15


def test_a_few_inputs_are_solved_exactly():
    problem = [0.2, 0.4, 0.5, 0.3, 0.6], [0.6, 0.7, 0.9, 0.35, 0.8], [1, 0, 1, 0, 1]
    bound, exact = (equal_count_calibration_error(*problem, n_bins=2, method=way) for way in ("bound", "milp"))
    assert exact.stats["attained"] == pytest.approx(exact.value, abs=1e-5)
    assert bound.stats["attained"] <= exact.value + 1e-5 <= bound.value + 2e-5
    assert np.bincount(exact.bins).tolist() == [2, 3]


def test_points_give_the_plain_equal_count_error():
    """But for the inputs at the cuts, which may lie on either side."""
    _, _, correct, clean = smoothed_like(1000)
    bound = equal_count_calibration_error(clean, clean, correct)
    assert bound.stats["attained"] == adaptive_calibration_error(clean, correct)
    assert 0 <= bound.stats["gap"] < 15 / 1000


def test_the_equal_count_bound_is_tighter_than_any_binning():
    lower, upper, correct, _ = smoothed_like(400)
    narrow = 0.1 * lower + 0.9 * (lower + upper) / 2, 0.1 * upper + 0.9 * (lower + upper) / 2, correct
    bound = equal_count_calibration_error(*narrow)
    assert bound.stats["attained"] < bound.value < any_binning_calibration_error(*narrow).value - 0.005


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: any_binning_calibration_error([0.1], [0.2], [1], n_bins=0), "`n_bins` to be an integer ≥ 1"),
        (lambda: any_binning_calibration_error([0.1], [0.2], [1], failures=-1), "`failures` to be an integer"),
        (lambda: equal_count_calibration_error([0.1], [0.2], [1], method="x"), "`method` to be one of"),
        (lambda: equal_count_calibration_error([0.1], [0.2], [1], uncertified=1, method="milp"), "'bound' with"),
        (lambda: equal_count_calibration_error([0.1] * 99, [0.2] * 99, [1] * 99, method="milp"), "'bound' beyond 400"),
    ],
)
def test_wrong_questions_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_upper_bound_does_not_call_itself_optimal():
    bound = equal_count_calibration_error([0.1, 0.5, 0.6, 0.7], [0.6, 0.9, 0.8, 0.9], [1, 0, 1, 0], n_bins=2)
    assert bound.kind is Kind.UPPER
    assert "optimality" not in str(bound.status)
