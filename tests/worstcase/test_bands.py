"""Confidences that a map confines to bands: the worst case among them, by enumeration and within intervals."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError, expected_calibration_error, population_bound
from certcal.certificates import ConfidenceIntervals
from certcal.metrics import Bins
from certcal.worstcase import (
    WorstCaseProblem,
    any_binning_calibration_error,
    approximate_certified_calibration_error,
    certified_ks_error,
    certified_largest_gap,
    certified_overconfidence,
    certified_underconfidence,
    equal_count_calibration_error,
    solve_exact,
)
from certcal.worstcase.failing import solve_with_failures

EDGES = np.array([0.0, 0.2, 0.35, 0.5, 0.55, 0.8, 1.0])


@st.composite
def banded(draw, most=5):
    """Inputs whose bounds lie in bands, some of which cross edges of bins; bounds of arrays (lower, upper, correct)."""
    points = draw(st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True).filter(lambda x: len(x) % 2 == 0))
    bands = np.sort(np.array(points)).reshape(-1, 2) / 40
    shown = draw(st.booleans())
    if shown:  # steps without a rise
        bands[:, 1] = bands[:, 0]
    values = np.unique(np.concatenate([bands.ravel(), bands.mean(axis=1)]))
    inputs = draw(st.integers(1, most))
    ends = [sorted(draw(st.lists(st.sampled_from(values.tolist()), min_size=2, max_size=2))) for _ in range(inputs)]
    correct = draw(st.lists(st.booleans(), min_size=inputs, max_size=inputs))
    lower, upper = np.array(ends).T
    return bands, lower, upper, np.array(correct)


def reachable(low, high, bands, bins):
    """The lowest and highest confidences of [low, high] in each piece of a band inside a bin."""
    found = set()
    for begin, end in bands:
        for m, (left, top) in enumerate(zip(bins.edges[:-1], bins.tops, strict=True)):
            a, b = max(low, begin, left), min(high, end, top)
            if a <= b:
                found |= {(a, m), (b, m)}
    return sorted(found)


def gap_of(chosen, correct, size):
    gaps = np.zeros(size)
    for (z, m), c in zip(chosen, correct, strict=True):
        gaps[m] += c - z
    return gaps


def intervals_of(lower, upper, correct, bands):
    places = np.arange(len(lower))
    return ConfidenceIntervals(
        lower=lower, upper=upper, confidence=lower, predicted=places * 0, correct=correct, index=places,
        label=np.where(correct, 0, 1), certified=np.ones(len(lower), dtype=bool), certified_radius=np.ones(len(lower)),
        radius=0.5, alpha=0.0, method="by hand", bands=bands,
    )  # fmt: skip


def problem_of(bands, lower, upper, correct, **more):
    return WorstCaseProblem(lower, upper, correct, Bins.from_edges(EDGES).within(bands), **more)


@given(banded())
def test_the_worst_case_is_that_of_every_choice_within_the_bands(case):
    bands, lower, upper, correct = case
    bins = Bins.from_edges(EDGES)
    ways = [reachable(low, high, bands, bins) for low, high in zip(lower, upper, strict=True)]
    truth = max(np.abs(gap_of(chosen, correct, len(bins))).sum() for chosen in product(*ways)) / len(lower)
    found = solve_exact(problem_of(*case))
    assert found.value == pytest.approx(truth, abs=1e-9)
    assert found.value >= truth - 1e-15
    # The witness is one of the choices, and attains it in the whole bins.
    assert ((lower <= found.confidence) & (found.confidence <= upper)).all()
    inside = (bands[:, 0] <= found.confidence[:, None]) & (found.confidence[:, None] <= bands[:, 1])
    assert inside.any(axis=1).all()
    assert np.array_equal(found.bins, bins.assign(found.confidence))
    assert expected_calibration_error(found.confidence, correct, edges=EDGES) == pytest.approx(truth, abs=1e-9)
    # An adversary between the bands, too, can only do more.
    assert found.value <= solve_exact(problem_of(*case).everywhere).value + 1e-12


@pytest.mark.parametrize(
    ("moves", "stuck", "others", "truth"),
    [
        (
            False,
            (0.9, True),
            (0.3, False),
            (20 * 0.1 + 7 * 0.3) / 27,
        ),  # leaves the upper band for the lower, not its bin
        (True, (0.3, False), (0.9, True), (20 * 0.3 + 7 * 0.1) / 27),  # the other way round
    ],
)
def test_an_input_that_escapes_goes_to_a_band_and_not_to_an_edge(moves, stuck, others, truth):
    places = np.array([stuck[0]] * 20 + [others[0]] * 6)
    lower, upper = np.append(places, 0.3), np.append(places, 0.9)
    correct = np.array([stuck[1]] * 20 + [others[1]] * 6 + [moves])
    bins = Bins.equal_width(4).within(np.array([[0.3, 0.3], [0.9, 0.9]]))
    assert solve_exact(WorstCaseProblem(lower, upper, correct, bins)).value == pytest.approx(truth, abs=1e-9)


@given(banded(most=3), st.integers(0, 2), st.integers(0, 2))
def test_failed_and_uncertified_inputs_stay_in_the_bands(case, failures, uncertified):
    bands, lower = case[:2]
    failures = min(failures, len(lower))
    bins = Bins.from_edges(EDGES)
    own = [[(*way, c) for way in reachable(low, high, bands, bins)] for low, high, c in zip(*case[1:], strict=True)]
    free = [(*way, c) for way in reachable(0.0, 1.0, bands, bins) for c in (0, 1)]
    truth = 0.0
    for failed in product((False, True), repeat=len(lower)):
        if sum(failed) == failures:
            ways = [free if gone else one for gone, one in zip(failed, own, strict=True)] + [free] * uncertified
            for chosen in product(*ways):
                gaps = gap_of([one[:2] for one in chosen], [one[2] for one in chosen], len(bins))
                truth = max(truth, np.abs(gaps).sum() / (len(lower) + uncertified))
    problem = problem_of(*case, uncertified=uncertified)
    found = solve_with_failures(problem, failures) if failures else solve_exact(problem)
    assert found.value == pytest.approx(truth, abs=1e-9)


@given(banded(most=4))
def test_errors_of_one_side_and_of_one_bin_stay_in_the_bands(case):
    bands, lower, upper, correct = case
    bins = Bins.from_edges(EDGES)
    ways = [reachable(low, high, bands, bins) for low, high in zip(lower, upper, strict=True)]
    gaps = [gap_of(chosen, correct, len(bins)) / len(lower) for chosen in product(*ways)]
    bounds = intervals_of(lower, upper, correct, bands)
    largest = certified_largest_gap(bounds, edges=EDGES)
    assert largest.value == pytest.approx(max(np.abs(one).max() for one in gaps), abs=1e-9)
    over = certified_overconfidence(bounds, edges=EDGES)
    assert over.value == pytest.approx(max(np.maximum(-one, 0.0).sum() for one in gaps), abs=1e-9)


def test_approximations_stay_in_the_bands():
    bands = np.array([[0.5, 0.5], [0.7, 0.7], [0.95, 0.95]])
    rng = np.random.default_rng(0)
    ends = np.sort(rng.choice(bands[:, 0], (40, 2)), axis=1)
    bounds = intervals_of(*ends.T, rng.random(40) < 0.8, bands)
    exact = bounds.worst_case().value
    for method in ("brier", "dece", "admm"):
        found = approximate_certified_calibration_error(bounds, method=method)
        assert found.value <= exact + 1e-12
        assert np.isin(found.confidence, bands).all()


STEPPED = intervals_of(
    np.array([0.2, 0.8]), np.array([0.8, 0.8]), np.array([False, True]), np.array([[0.2] * 2, [0.8] * 2])
)


def test_metrics_over_whole_intervals_are_called_bounds():
    """A wrong input at 0.2 or 0.8 and a right one at 0.8: by thresholds at most 0.3, over the interval 0.4."""
    for found in (certified_ks_error(STEPPED), any_binning_calibration_error(STEPPED, n_bins=2)):
        assert found.kind == "upper"
        assert found.value >= 0.3
    for method in ("bound", "milp"):
        found = equal_count_calibration_error(STEPPED, n_bins=2, method=method)
        assert found.kind == "upper"
        assert np.isnan(found.stats["attained"])
        assert np.isnan(found.stats["gap"])
    assert certified_underconfidence(STEPPED).kind == "exact"


def test_the_population_bound_counts_whole_intervals():
    """Which is never less."""
    many = STEPPED.select(np.arange(100) % 2)
    whole = population_bound(replace(many, bands=None), delta=0.05)
    assert population_bound(many, delta=0.05) == whole


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ([[0.2, 0.2]], "hold all lower and upper bounds, but got some outside of them"),
        ([[0.8, 0.8], [0.2, 0.2]], "hold the ends of bands that rise from 0 to 1"),
        ([[0.2, 0.2], [0.8, 1.1]], "hold the ends of bands that rise from 0 to 1"),
        ([0.2, 0.8], "hold the ends of bands that rise from 0 to 1"),
        (np.empty((0, 2)), "hold the ends of bands that rise from 0 to 1"),
    ],
)
def test_bands_that_bounds_are_not_in_are_refused(bands, message):
    """With them the worst case would be too small, and look exact."""
    with pytest.raises(InputError, match=f"Expected `bounds.bands` to {message}"):
        replace(STEPPED, bands=bands).worst_case()
