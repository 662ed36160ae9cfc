"""One-sided errors, the largest bin gap and the KS error against the enumeration of every attack."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError, Kind, expected_calibration_error
from certcal.metrics import miscalibration
from certcal.worstcase import (
    certified_calibration_error,
    certified_ks_error,
    certified_largest_gap,
    certified_overconfidence,
    certified_underconfidence,
)
from enumeration import GRID, every_attack, grid_sets
from laws import examples
from problems import CATALOGUE

POINTS = np.unique([*GRID, *np.nextafter(GRID[1:], 0.0)])
CERTIFIED = {
    "overconfidence": certified_overconfidence,
    "underconfidence": certified_underconfidence,
    "largest_gap": certified_largest_gap,
    "ks": certified_ks_error,
}
EDGES = {1: [0, 1], 2: [0, 0.5, 1], 3: [0, 0.25, 0.75, 1], 4: [0, 0.25, 0.5, 0.75, 1]}


def gaps_of(z, c, edges):
    """Σ (c − z) per bin of each attack, over N, shape (attacks, bins)."""
    place = np.clip(np.searchsorted(edges, z, "right") - 1, 0, len(edges) - 2)
    return np.stack([((c - z) * (place == m)).sum(axis=1) for m in range(len(edges) - 1)], axis=1) / z.shape[1]


def errors_of(z, c, edges):
    """The four errors, of each attack, read aloud."""
    gap = gaps_of(z, c, np.array(edges, dtype=float))
    below = [np.abs(((c - z) * (z <= z[:, [n]])).sum(axis=1)) / z.shape[1] for n in range(z.shape[1])]
    return {
        "overconfidence": np.maximum(-gap, 0).sum(axis=1),
        "underconfidence": np.maximum(gap, 0).sum(axis=1),
        "largest_gap": np.abs(gap).max(axis=1),
        "ks": np.max(below, axis=0),
    }


def certify(name, problem, edges, **more):
    own = {} if name == "ks" else {"edges": edges}
    return CERTIFIED[name](*problem, **own, **more)


@examples(600)
@given(grid_sets(most=4), st.sampled_from(list(EDGES.values())), st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1)]))
def test_each_is_the_worst_of_every_attack(problem, edges, free):
    uncertified, failures = free
    if len(problem[0]) == 4 and (uncertified or failures):
        problem = tuple(part[:3] for part in problem)
    z, c = every_attack(*problem, POINTS, uncertified=uncertified, failures=failures)
    for name, values in errors_of(z, c, edges).items():
        solution = certify(name, problem, edges, uncertified=uncertified, failures=failures)
        assert solution.value >= values.max() - 1e-15, name
        if not failures:
            assert solution.value == pytest.approx(values.max(), abs=1e-11), name
            assert solution.kind is Kind.EXACT


@examples(300)
@given(grid_sets(most=6), st.sampled_from(list(EDGES.values())), st.integers(0, 2))
def test_the_witness_attains_the_value(problem, edges, uncertified):
    lower, upper, correct = problem
    for name in CERTIFIED:
        solution = certify(name, problem, edges, uncertified=uncertified)
        assert ((lower <= solution.confidence) & (solution.confidence <= upper)).all()
        z, c = solution.confidence, correct
        if solution.free is not None:
            z = np.append(z, np.full(uncertified, solution.free.confidence))
            c = np.append(c, np.full(uncertified, solution.free.correct))
        assert getattr(miscalibration(z, c, edges=edges), name) == pytest.approx(solution.value, abs=1e-9), name


@examples(100)
@given(grid_sets(most=8), st.sampled_from(list(EDGES.values())))
def test_the_plain_errors_are_what_they_say(problem, edges):
    z, _, c = problem
    found, expected = miscalibration(z, c, edges=edges), errors_of(z[None], c[None], edges)
    for name in CERTIFIED:
        assert getattr(found, name) == pytest.approx(expected[name][0])
    total = expected_calibration_error(z, c, edges=edges)
    assert found.overconfidence + found.underconfidence == pytest.approx(total)


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_side_is_worse_than_both(name):
    lower, upper, correct, clean = CATALOGUE[name]
    both = certified_calibration_error(lower, upper, correct).value
    own = miscalibration(clean, correct)
    for side, certified in CERTIFIED.items():
        value = certified(lower, upper, correct).value
        assert getattr(own, side) <= value
        if side != "ks":
            assert value <= both + 1e-9


def test_wrong_questions_are_refused():
    for certified in CERTIFIED.values():
        with pytest.raises(InputError, match="`failures` to be an integer"):
            certified([0.1], [0.2], [1], failures=-1)
