"""The certified calibration error in torch: its value, and its gradient against finite differences away from ties."""

import numpy as np
import pytest
import torch

from certcal import InputError, certified_calibration_error
from certcal.worstcase import differentiable_certified_calibration_error
from problems import CATALOGUE, smoothed_like


def random_problem(seed):
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(1, 40))
    lower, upper = np.sort(0.001 + 0.998 * rng.random((2, inputs)) ** rng.choice([0.5, 1.0, 2.0]), axis=0)
    if rng.random() < 0.5:
        upper = lower + (1 - lower) * 0.1 * rng.random(inputs)
    edges = np.array([0.0, *np.sort(rng.random(rng.integers(0, 8))), 1.0])
    return lower, upper, rng.random(inputs) < 0.6, {"edges": edges, "uncertified": int(rng.integers(0, 3))}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_gradient_equals_finite_differences_away_from_ties(seed):
    lower, upper, correct, options = random_problem(seed)
    low, high = (torch.tensor(side, requires_grad=True) for side in (lower, upper))
    value = differentiable_certified_calibration_error(low, high, correct, **options)
    assert value.item() == certified_calibration_error(lower, upper, correct, **options).value
    value.backward()
    compared, step = 0, 1e-7
    for which, side in enumerate((lower, upper)):
        for n in range(len(side)):
            values = []
            for move in (-step, 0.0, step):
                moved = [lower.copy(), upper.copy()]
                moved[which][n] += move
                values.append(certified_calibration_error(*moved, correct, **options).value)
            below, above = np.diff(values) / step
            if abs(below - above) < 1e-3 / len(side):  # otherwise it is not differentiable there
                gradient = (low, high)[which].grad[n].item()
                assert gradient == pytest.approx((below + above) / 2, abs=1e-5)
                compared += 1
    assert compared >= 2 * len(lower) - 4


@pytest.mark.parametrize("name", CATALOGUE)
def test_slopes_are_those_of_the_witness(name):
    """Also with ties: the gradient is one of an input at a bound, and there are as many as stand at one."""
    lower, upper, correct, _ = CATALOGUE[name]
    low, high = (torch.tensor(side, requires_grad=True) for side in (lower, upper))
    differentiable_certified_calibration_error(low, high, correct).backward()
    witness = certified_calibration_error(lower, upper, correct).confidence
    slope = np.round((low.grad + high.grad).numpy() * len(lower), 9)
    assert set(slope) <= {-1.0, 0.0, 1.0}
    moving_low, moving_high = low.grad.numpy() != 0, high.grad.numpy() != 0
    np.testing.assert_array_equal(witness[moving_low], lower[moving_low])
    np.testing.assert_array_equal(witness[moving_high], upper[moving_high])
    assert not (moving_low & moving_high).any()


def test_descent_lowers_the_certified_error():
    """A temperature of the log-odds tuned against the exact value, through the bounds."""
    lower, upper, correct, _ = smoothed_like(500)
    odds = [torch.tensor(side).clamp(1e-6, 1 - 1e-6).logit() for side in (lower, upper)]
    shift = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([shift], lr=0.05)
    values = []
    for _ in range(60):
        value = differentiable_certified_calibration_error(*((side + shift).sigmoid() for side in odds), correct)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        values.append(value.item())
    assert min(values) < 0.9 * values[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtypes_and_devices(dtype, device):
    lower, upper, correct, _ = smoothed_like(50)
    low, high = (torch.tensor(side, dtype=dtype, device=device, requires_grad=True) for side in (lower, upper))
    value = differentiable_certified_calibration_error(low, high, correct)
    value.backward()
    assert (value.dtype, low.grad.dtype, low.grad.device.type) == (torch.float64, dtype, device)
    assert value.item() == certified_calibration_error(low, high, correct).value


def test_bad_input():
    with pytest.raises(InputError, match="Expected `lower` to be a floating-point tensor, but got list"):
        differentiable_certified_calibration_error([0.1], [0.5], [1])
    with pytest.raises(InputError, match="Expected `lower` to be at most `upper`"):
        differentiable_certified_calibration_error(torch.tensor([0.7]), torch.tensor([0.5]), [1])
