"""Rounding to the grid: each element once, never further than said, and with gradients for those who need them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from certcal import InputError
from certcal.models import Noise
from certcal.models.grid import LARGEST_NOISE, grid_step, rounded_normals, through_grid, to_grid
from certcal.smoothing.evidence import grid_reach


def test_inputs_too_large_for_the_grid_are_refused():
    step = grid_step(0.25)
    to_grid(torch.tensor([12.0, -12.0]), step)
    with pytest.raises(InputError, match=r"within ±12, .* got 12\.5; scale"):
        to_grid(torch.tensor([0.0, -12.5]), step)


@given(st.integers(1, 5000), st.floats(0, 3), st.integers(0, 2**32 - 1))
def test_rounding_moves_no_two_inputs_further_apart_than_said(elements, radius, seed):
    rng = np.random.default_rng(seed)
    x, delta = rng.random(elements), rng.normal(size=elements)
    y = x + delta * radius / np.linalg.norm(delta)
    step = grid_step(0.5)
    apart = np.linalg.norm(np.round(x / step) * step - np.round(y / step) * step)
    assert apart <= radius + grid_reach(elements, step) + 1e-12


def test_doubles_are_rounded_once():
    """By way of float32 they would end up to 0.75 steps away, and the allowance for the grid is for half a step."""
    inputs = torch.linspace(4.0, 8.0, 100_001, dtype=torch.float64) + 2.0**-22
    found = to_grid(inputs, 2.0**-20)
    assert found.dtype == torch.float32
    assert float((found.double() - inputs).abs().max()) <= 2.0**-21


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(st.lists(st.floats(-12, 12, width=32), min_size=1, max_size=20), st.sampled_from([0.1, 1.0, 5.0]))
def test_adversaries_see_the_rounded_input_and_its_own_gradient(dtype, values, sigma):
    inputs = torch.tensor(values, dtype=dtype, requires_grad=True)
    found = through_grid(inputs, grid_step(sigma))
    assert found.dtype == dtype
    assert torch.equal(found.detach(), to_grid(inputs.detach(), grid_step(sigma)).to(dtype))
    weights = torch.arange(1.0, len(values) + 1, dtype=dtype)
    (gradient,) = torch.autograd.grad((found * weights).sum(), inputs)
    assert torch.equal(gradient, weights)


@pytest.mark.parametrize("sigma", [0.0, 1e-6, 0.25, 3.0])
def test_training_s_normals_are_rounded_gaussians(sigma, device):
    """So fine a deviation as 10⁻⁶ is about one step: there the law of whole numbers shows."""
    like = torch.zeros(1, dtype=torch.float32, device=device)
    numbers = torch.Generator(device).manual_seed(3)
    steps = (rounded_normals(torch.Size((20_000,)), sigma, like, numbers) / grid_step(sigma)).cpu().numpy()
    assert np.array_equal(steps, np.round(steps))
    assert np.abs(steps).max() <= LARGEST_NOISE
    deviation = sigma / grid_step(sigma)
    if sigma > 1e-6:
        assert stats.kstest(steps / deviation, "norm").pvalue > 0.001
    elif sigma:
        seen = [np.sum(np.clip(steps, -3, 3) == value) for value in range(-3, 4)]
        edges = np.array([-np.inf, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.inf])
        expected = 20_000 * np.diff(stats.norm.cdf(edges / deviation))
        assert stats.chisquare(seen, expected).pvalue > 0.001
    else:
        assert not steps.any()


@pytest.mark.parametrize("sigma", [0.0, 1e-7, 3e-5, 1e6, float("nan")])
def test_noise_that_cannot_be_drawn_is_refused(sigma):
    with pytest.raises(InputError, match="Expected `sigma` to lie between"):
        Noise(0, 0, sigma)
