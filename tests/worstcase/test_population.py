"""The bound for the population: its parts, against enumeration of signs, and the rate it states."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from certcal import InputError, certified_calibration_error, population_bound
from certcal.worstcase import WorstCaseProblem, solve_exact
from certcal.worstcase.population import BERNSTEIN_FROM, _largest_with_spread
from laws import examples
from oracles import reachable, worst_case_by_enumeration
from problems import bounded_sets, mixed, smoothed_like


def largest_with_spread(lower, upper, correct, edges, factor, uncertified):
    """max over s of the mean of v(s) plus factor times its standard deviation, by trying all signs."""
    best = 0.0
    for signs in product((-1, 1), repeat=len(edges) - 1):
        scores = [
            max(signs[m] * (right - z) for m, a, b in reachable(low, high, edges) for z in (a, b))
            for low, high, right in zip(lower, upper, correct, strict=True)
        ]
        free = max(s * (right - z) for m, s in enumerate(signs) for right in (0, 1) for z in edges[m : m + 2])
        scores += [free] * uncertified
        best = max(best, np.mean(scores) + factor * np.std(scores, ddof=1))
    return best


@pytest.mark.slow
@examples(150)
@given(bounded_sets(most_inputs=20, most_bins=5), st.floats(0.01, 0.5), st.integers(1, 3))
def test_mean_and_spread_are_bounded_together(problem, factor, uncertified):
    *parts, edges = problem
    stated = WorstCaseProblem.checked(*parts, edges=edges, uncertified=uncertified)
    found = _largest_with_spread(stated, solve_exact(stated), factor)
    assert found >= largest_with_spread(*parts, edges, factor, uncertified) - 1e-12


@pytest.mark.parametrize("make", [smoothed_like, mixed])
def test_mean_and_spread_are_bounded_tightly_for_many_inputs(make):
    lower, upper, correct, _ = make(100)
    edges = np.arange(7) / 6
    for factor in (0.05, 0.15):
        stated = WorstCaseProblem.checked(lower, upper, correct, edges=edges)
        found = _largest_with_spread(stated, solve_exact(stated), factor)
        best = largest_with_spread(lower, upper, correct, edges, factor, 0)
        assert best <= found <= best + 0.03 * factor


def test_parts():
    lower, upper, correct, _ = smoothed_like(400)
    edges = np.arange(7) / 6
    bound = population_bound(lower, upper, correct, alpha=0.01, delta=0.05, edges=edges, uncertified=4)
    assert bound.certified == certified_calibration_error(lower, upper, correct, edges=edges, uncertified=4).value
    level = np.log(2 / 0.05)
    spread = largest_with_spread(lower, upper, correct, edges, np.sqrt(2 * level / 404), 4) - bound.certified
    assert bound.sampling == pytest.approx(spread + 14 * level / (3 * 403), abs=2e-3)
    assert bound.sampling >= spread + 14 * level / (3 * 403) - 1e-12
    assert bound.value == float(bound) == pytest.approx(bound.certified + 0.02 + bound.sampling)
    assert bound.sampling < np.sqrt(2 * np.log(20) / 404)  # Hoeffding's


def test_any_number_of_uncertified_inputs():
    assert population_bound([], [], [], alpha=0.01, delta=0.05, uncertified=10**12).value == 1.0
    one = population_bound([0.1], [0.2], [0], alpha=0.01, delta=0.05, uncertified=10**12)
    assert one.sampling < 1e-4


def test_few_inputs_take_hoeffding():
    lower, upper, correct, _ = smoothed_like(BERNSTEIN_FROM - 1)
    bound = population_bound(lower, upper, correct, alpha=0.01, delta=0.05)
    assert bound.sampling == pytest.approx(np.sqrt(2 * np.log(20) / (BERNSTEIN_FROM - 1)))
    assert population_bound(lower[:3], upper[:3], correct[:3], alpha=0.01, delta=0.05).value == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.3, 0.05])
@pytest.mark.parametrize(("inputs", "share"), [(50, 0.5), (100, 0.5), (150, 0.03), (400, 0.9)])
def test_holds_at_the_stated_rate(rng, inputs, share, delta):
    """Right at confidence 0 with some probability: that is the population's error, and the spread is at its widest."""
    repetitions, alpha = 500, 0.02
    broken = unguarded = 0
    for _ in range(repetitions):
        correct = rng.random(inputs) < share
        lies = rng.random(inputs) < alpha
        point = np.where(lies, 1.0 * ~correct, 0.0)  # a lie: the most wrong it can be in the other direction
        bound = population_bound(point, point, correct, alpha=alpha, delta=delta, n_bins=1)
        broken += bound.value < share
        unguarded += bound.certified + bound.failing / 2 < share
    assert stats.binomtest(broken, repetitions, delta, alternative="greater").pvalue > 1e-3
    assert unguarded > 0.05 * repetitions


def test_covers_the_worst_case_of_a_population_of_intervals(rng):
    """A finite population of 60 equally likely inputs, whose worst case is known; samples of 120 with lies."""
    lower, upper, correct, _ = mixed(60)
    edges = np.arange(5) / 4
    truth = worst_case_by_enumeration(lower, upper, correct, edges)
    broken = 0
    for _ in range(150):
        pick = rng.integers(0, 60, 120)
        lies = rng.random(120) < 0.05
        told = [np.where(lies, correct[pick], side[pick]) for side in (lower, upper)]
        broken += population_bound(*told, correct[pick], alpha=0.05, delta=0.2, edges=edges).value < truth
    assert broken <= 0.2 * 150


def test_bad_input():
    with pytest.raises(InputError, match=r"Expected `delta` to lie in the open interval \(0, 1\), but got 1"):
        population_bound([0.1], [0.5], [1], alpha=0.1, delta=1)
    with pytest.raises(InputError, match="Expected `alpha` to lie in"):
        population_bound([0.1], [0.5], [1], alpha=0.0, delta=0.1)
