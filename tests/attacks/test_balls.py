"""Balls and the box: what is handed out is inside, to the last bit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attack_oracles import ORDER, inside
from certcal.attacks import BALLS, Ball, Norm
from certcal.attacks.balls import random_unit

BUDGETS = st.sampled_from([0.0, 1e-7, 1e-4, 1 / 255, 8 / 255, 0.1, 0.5, 3.0])
DTYPES = st.sampled_from([torch.float32, torch.float64])


def ball_of(seed, norm, epsilon, dtype, boxed=True, n=5):
    generator = torch.Generator().manual_seed(seed)
    center = (torch.rand(n, 2, 7, 7, generator=generator, dtype=torch.float64) * 1.4 - 0.2).clamp(0, 1).to(dtype)
    return Ball.around(center, torch.full((n,), epsilon, dtype=torch.float64), norm, boxed=boxed), generator


def exactly_inside(point, ball, epsilon, *, boxed):
    return inside(point, ball.center, epsilon, ball.norm, boxed=boxed).all()


@given(st.integers(0, 10**6), st.sampled_from(BALLS), BUDGETS, DTYPES, st.booleans(), st.sampled_from([1e-3, 1.0, 1e3]))
def test_projections_are_inside_to_the_last_bit(seed, norm, epsilon, dtype, boxed, far):
    ball, generator = ball_of(seed, norm, epsilon, dtype, boxed)
    step = torch.randn(ball.center.shape, generator=generator, dtype=torch.float64).to(dtype)
    point = ball.center
    for _ in range(3):  # as an attack does: from the last point on
        point = ball.project(point + far * step)
        assert exactly_inside(point, ball, epsilon, boxed=boxed)
        assert point.dtype == dtype


@given(st.integers(0, 10**6), st.sampled_from([1e-4, 8 / 255, 0.1, 0.5, 3.0]), DTYPES)
def test_scaling_alone_does_not_leave_the_ball(seed, epsilon, dtype):
    # Around 0 sums are exact, so that nothing hides the rounding of the scaled offset itself.
    center = torch.zeros(40, 9, dtype=dtype)
    ball = Ball.around(center, torch.full((40,), epsilon, dtype=torch.float64), Norm.L2, boxed=False)
    point = torch.randn(40, 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) * 10
    assert exactly_inside(ball.project(point), ball, epsilon, boxed=False)


@given(st.integers(0, 10**6), BUDGETS)
def test_linf_projection_is_the_nearest_point(seed, epsilon):
    ball, generator = ball_of(seed, Norm.LINF, epsilon, torch.float64)
    point = ball.center + torch.randn(ball.center.shape, generator=generator, dtype=torch.float64)
    center = ball.center.numpy()
    nearest = np.clip(point.numpy(), np.maximum(center - epsilon, 0.0), np.minimum(center + epsilon, 1.0))
    np.testing.assert_allclose(ball.project(point).numpy(), nearest, rtol=0, atol=3e-16)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.5, 3.0]))
def test_l1_projection_is_the_nearest_point(seed, epsilon):
    """By bisection over what all entries lose."""
    ball, generator = ball_of(seed, Norm.L1, epsilon, torch.float64, boxed=False)
    offset = torch.randn(ball.center.shape, generator=generator, dtype=torch.float64)
    found = (ball.project(ball.center + offset) - ball.center).flatten(1).numpy()
    for row, own in zip(offset.flatten(1).numpy(), found, strict=True):
        low, high = 0.0, np.abs(row).max()
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(np.abs(row) - middle, 0).sum() > epsilon else (low, middle)
        np.testing.assert_allclose(own, np.sign(row) * np.maximum(np.abs(row) - high, 0), atol=1e-11)


@given(st.integers(0, 10**6), st.sampled_from(BALLS), st.sampled_from([0.1, 0.5]), DTYPES)
def test_points_inside_stay_and_points_outside_reach_the_sphere(seed, norm, epsilon, dtype):
    ball, generator = ball_of(seed, norm, epsilon, dtype, boxed=False)
    offset = torch.randn(ball.center.shape, generator=generator, dtype=torch.float64)
    unit = offset.sign().to(dtype) if norm is Norm.LINF else ball.steepest(offset.to(dtype))
    inside, outside = ball.center + 0.5 * epsilon * unit, ball.center + 2 * epsilon * unit
    rounding = 2e-6 if dtype is torch.float32 else 1e-11
    assert float((ball.project(inside) - inside).abs().max()) <= 1e-7
    wanted = ball.center + epsilon * unit
    assert float((ball.project(outside) - wanted).abs().max()) <= rounding


@pytest.mark.parametrize("norm", BALLS)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_steepest_directions_have_length_one_however_small_the_gradient(norm, size):
    ball, generator = ball_of(0, norm, 0.1, torch.float32)
    gradient = torch.randn(ball.center.shape, generator=generator) * size
    gradient[0] = 0.0
    unit = ball.steepest(gradient).flatten(1).double()
    length = torch.linalg.vector_norm(unit, ORDER[norm], dim=1)
    assert length.tolist() == pytest.approx([0.0] + [1.0] * 4, abs=1e-6)
    assert bool(((unit * gradient.flatten(1)).sum(dim=1)[1:] > 0).all())


def test_random_starts_are_uniform_in_the_ball_and_repeatable():
    for norm in BALLS:
        unit = random_unit(torch.Size([20_000, 3]), norm, 7)
        assert torch.equal(unit, random_unit(torch.Size([20_000, 3]), norm, 7))
        size = torch.linalg.vector_norm(unit, ORDER[norm], dim=1)
        assert float(size.max()) <= 1 + 1e-6
        # The share of the ball within r of its centre is r³, so size³ is uniform: mean 1/2, deviation 0.289 / √20 000.
        assert float(size.double().pow(3).mean()) == pytest.approx(0.5, abs=5 * 0.289 / 20_000**0.5)
        assert unit.mean(dim=0).tolist() == pytest.approx([0.0] * 3, abs=0.03)


def test_what_says_so_here_is_strict():
    beyond = float(torch.nextafter(torch.tensor(0.75), torch.tensor(1.0)))
    for norm, point, expected in [
        (Norm.LINF, [0.75, 0.25], True),
        (Norm.LINF, [beyond, beyond], False),
        (Norm.L2, [0.75, 0.5], True),
        (Norm.L2, [0.75, 0.51], False),
        (Norm.L2, [1.01, 0.5], False),
        (Norm.L1, [0.625, 0.625], True),
        (Norm.L1, [0.7, 0.6], False),
    ]:
        assert inside(torch.tensor([point]), torch.tensor([[0.5, 0.5]]), 0.25, norm).tolist() == [expected]
