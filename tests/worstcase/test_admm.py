"""The paper's ADMM and other approximations: what they may claim."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certcal import Kind, certified_calibration_error, expected_calibration_error
from certcal.worstcase import (
    AdmmSettings,
    DeceSettings,
    Status,
    WorstCaseProblem,
    approximate_certified_calibration_error,
)
from certcal.worstcase.admm import State, initialise, make_step
from certcal.worstcase.solve import _hard_error, _soft_gradient, _starting_points
from laws import examples
from problems import CATALOGUE, bounded_sets, smoothed_like

QUICK = {"steps": 60}


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize(("method", "options"), [("admm", QUICK), ("dece", {"steps": 60}), ("brier", {})])
def test_approximations_are_feasible_and_never_above_the_exact_value(name, method, options, device):
    lower, upper, correct, clean = CATALOGUE[name]
    if method != "brier":
        options = options | {"device": device}
    solution = approximate_certified_calibration_error(
        lower, upper, correct, confidence=clean, method=method, **options
    )
    assert solution.value <= certified_calibration_error(lower, upper, correct).value
    assert (solution.confidence >= lower).all()
    assert (solution.confidence <= upper).all()
    assert expected_calibration_error(solution.confidence, correct) == pytest.approx(solution.value, abs=1e-12)
    assert solution.kind is Kind.LOWER
    assert solution.status is (Status.EVALUATED if method == "brier" else Status.STOPPED)
    assert solution.value == max(run["value"] for run in solution.stats["runs"])


@pytest.mark.slow
def test_admm_beats_dece_beats_brier_as_in_the_paper():
    """Sec. 5.2: ADMM yields the largest values; with the exact value above them all."""
    lower, upper, correct, clean = smoothed_like(400, seed=3)
    values = {
        method: approximate_certified_calibration_error(
            lower, upper, correct, confidence=clean, method=method, **settings
        ).value
        for method, settings in (("admm", {"steps": 1500}), ("dece", {}), ("brier", {}))
    }
    exact = certified_calibration_error(lower, upper, correct).value
    assert values["brier"] < values["dece"] < values["admm"] < exact


def test_batched_grid_equals_single_runs():
    lower, upper, correct, clean = smoothed_like(30)
    together = approximate_certified_calibration_error(
        lower, upper, correct, confidence=clean, dtype="float64", **QUICK
    ).stats["runs"]
    for run in (together[0], together[5], together[15]):
        alone = approximate_certified_calibration_error(
            lower,
            upper,
            correct,
            confidence=clean,
            dtype="float64",
            starts=run["start"],
            confidence_rates=run["confidence_rate"],
            assignment_rates=run["assignment_rate"],
            rho_factors=run["rho_factor"],
            **QUICK,
        )
        assert alone.value == pytest.approx(run["value"], abs=1e-12)


def test_the_best_projected_point_is_kept_not_the_last():
    """Trap 4: the maximum is reached before convergence."""
    lower, upper, correct, clean = smoothed_like(40)
    solution = approximate_certified_calibration_error(
        lower, upper, correct, confidence=clean, diagnostics=True, dtype="float64", steps=200
    )
    history = solution.stats["history"]["projected_error"]
    assert solution.value == pytest.approx(history[1:].max(), abs=1e-9)
    assert (history[1:].max(axis=0) > history[-1] + 1e-6).any()


@pytest.mark.slow
def test_diagnostics_show_convergence():
    """App. G.1: constraints are met at the end, and a becomes nearly binary."""
    lower, upper, correct, clean = smoothed_like(60)
    solution = approximate_certified_calibration_error(
        lower, upper, correct, confidence=clean, diagnostics=True, starts="clean", n_bins=5, snapshots=(0, 500, 3000),
        assignment_rates=0.01, confidence_rates=0.001, rho_factors=1.004,
    )  # fmt: skip
    history, snapshots = solution.stats["history"], solution.stats["snapshots"]
    assert all(series.shape == (3001, 1) for series in history.values())
    assert set(snapshots) == {0, 500, 3000}
    assert snapshots[0].shape == (1, 150)
    np.testing.assert_allclose(snapshots[0], 1 / 5)
    for name in ("unique", "valid", "binary", "confidence"):
        series = history[f"{name}_distance_1"][:, 0]
        assert series[-1] < 0.1 * series.max()
    assert np.abs(snapshots[3000] - snapshots[3000].round()).mean() < 0.05


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_of_the_solver_does_not_touch_feasibility(dtype):
    lower, upper, correct, clean = CATALOGUE["mixed"]
    solution = approximate_certified_calibration_error(lower, upper, correct, confidence=clean, dtype=dtype, steps=30)
    assert solution.confidence.dtype == np.float64
    assert ((solution.confidence >= lower) & (solution.confidence <= upper)).all()


@pytest.mark.slow
def test_compiled_steps_agree():
    lower, upper, correct, clean = smoothed_like(50)
    problem = WorstCaseProblem.checked(lower, upper, correct)
    states = []
    for compiled in (False, True):
        settings = AdmmSettings(compile=compiled, dtype="float64")
        program, state = initialise(problem, clean, settings)
        advance = make_step(settings)
        for _ in range(3):
            state = advance(program, state)
        states.append(state)
    for name in State._fields:
        torch.testing.assert_close(getattr(states[0], name), getattr(states[1], name))


def test_dece_gradient_is_autograds():
    from certcal.metrics import differentiable_calibration_error
    from certcal.metrics.binning import Bins
    from certcal.metrics.dece import soft_bin_lines

    _, _, correct, confidence = smoothed_like(50)
    z = torch.tensor(confidence, requires_grad=True)
    error = differentiable_calibration_error(z, correct, n_bins=7, temperature=0.03)
    (expected,) = torch.autograd.grad(50 * error, z)
    lines = [torch.tensor(part) for part in soft_bin_lines(Bins.equal_width(7).edges)]
    ours = _soft_gradient(z.detach()[None], torch.tensor(correct).double(), lines, 0.03)
    torch.testing.assert_close(ours[0], expected)


@examples(40)
@given(bounded_sets(), st.sampled_from(["admm", "dece", "brier"]))
def test_no_approximation_is_ever_above_the_exact_value(problem, method):
    lower, upper, correct, edges = problem
    steps = {} if method == "brier" else {"steps": 6}
    solution = approximate_certified_calibration_error(lower, upper, correct, edges=edges, method=method, **steps)
    assert solution.value <= certified_calibration_error(lower, upper, correct, edges=edges).value
    assert ((solution.confidence >= lower) & (solution.confidence <= upper)).all()
    gaps = np.bincount(solution.bins, correct - solution.confidence, minlength=len(edges) - 1)
    assert (gaps * solution.signs >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_bins", [1, 2, 3])
def test_few_bins(n_bins):
    """Two bins start at the centre of the sphere, where it has no direction."""
    lower, upper, correct, clean = smoothed_like(100)
    solution = approximate_certified_calibration_error(
        lower, upper, correct, confidence=clean, n_bins=n_bins, steps=800, diagnostics=True
    )
    exact = certified_calibration_error(lower, upper, correct, n_bins=n_bins).value
    assert 0.95 * exact <= solution.value <= exact
    assert all(np.isfinite(series).all() for series in solution.stats["history"].values())


def test_diverging_runs_stay_feasible():
    lower, upper, correct, clean = smoothed_like(100)
    wild = {"gradient_clip": 1e4, "assignment_rates": 1e4, "value_clip": 1e4, "confidence_rates": 1e4}
    for dtype in ("float16", "float32"):
        solution = approximate_certified_calibration_error(
            lower, upper, correct, confidence=clean, steps=20, dtype=dtype, **wild
        )
        assert ((solution.confidence >= lower) & (solution.confidence <= upper)).all()
        assert solution.value <= certified_calibration_error(lower, upper, correct).value


def test_defaults_are_the_papers():
    settings = AdmmSettings()
    assert (settings.rho, settings.rho_cap, settings.gradient_clip, settings.value_clip) == (0.01, 10.0, 5.0, 1.2)
    assert settings.steps == 3000
    ascent = DeceSettings()
    assert (ascent.first_temperature, ascent.last_temperature) == (1e-2, 1e-6)
    assert ascent.starts == ("clean", "brier", "uniform", "gaussian")


def test_starting_points_of_the_ascent():
    lower, upper, correct, clean = smoothed_like(4000)
    problem = WorstCaseProblem.checked(lower, upper, correct)
    points = dict(
        zip(("clean", "brier", "uniform", "gaussian"), _starting_points(problem, clean, DeceSettings()), strict=True)
    )
    np.testing.assert_array_equal(points["clean"], clean)
    np.testing.assert_array_equal(points["brier"], np.where(correct, lower, upper))
    share = ((points["uniform"] - lower) / (upper - lower))[upper > lower]
    assert np.histogram(share, 4)[0].min() > 0.2 * len(share)
    spread = ((points["gaussian"] - lower) / (upper - lower))[upper > lower]
    assert spread.mean() == pytest.approx(0.5, abs=0.02)
    assert spread.std() == pytest.approx(0.24, abs=0.02)


def test_the_middle_of_the_bounds_stands_in_for_clean_confidences():
    lower, upper, correct, _ = smoothed_like(50)
    given = approximate_certified_calibration_error(lower, upper, correct, confidence=(lower + upper) / 2, steps=20)
    assert approximate_certified_calibration_error(lower, upper, correct, steps=20).value == given.value


def test_hard_error_has_the_papers_bins():
    z = torch.tensor([[1 / 3, 1.0, 0.0, 2 / 3]], dtype=torch.float64)
    c = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    ours = _hard_error(z, c, torch.tensor([1 / 3, 2 / 3], dtype=torch.float64)).item()
    assert ours == pytest.approx(expected_calibration_error(z[0], c, n_bins=3))
