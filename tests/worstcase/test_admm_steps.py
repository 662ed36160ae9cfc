"""One step of the paper's ADMM against autograd on the written-out Lagrangian, and its projections."""

import numpy as np
import pytest
import torch

from certcal.worstcase import (
    AdmmSettings,
    WorstCaseProblem,
)
from certcal.worstcase.admm import initialise, onto_assignments, onto_bounds, onto_box, onto_sphere, step
from certcal.worstcase.solve import Recorder, constraint_distances, lagrangian_terms
from problems import smoothed_like


def moving_state(settings, steps=25, inputs=40):
    """A program and a state in which nothing is zero or symmetric any more."""
    lower, upper, correct, confidence = smoothed_like(inputs)
    program, state = initialise(WorstCaseProblem.checked(lower, upper, correct, n_bins=5), confidence, settings)
    for _ in range(steps):
        state = step(program, state, settings)
    return program, state


def lagrangian(program, state):
    """App. E.3, Eq. of the augmented Lagrangian, summed over runs, term by term."""
    a, z, rho = state.a, state.z, state.rho
    value = -(a * (program.correct - z)).sum(dim=2).abs().sum()
    value = value + (state.dual1 * (a - state.q1)).sum() + (rho / 2 * (a - state.q1).square()).sum()
    value = value + (state.dual2 * (a - state.q2)).sum() + (rho / 2 * (a - state.q2).square()).sum()
    unique = a.sum(dim=1, keepdim=True) - 1
    value = value + (state.dual3 * unique).sum() + (rho / 2 * unique.square()).sum()
    valid = (program.blocked * a).sum(dim=1, keepdim=True)
    value = value + (state.dual4 * valid).sum() + (rho / 2 * valid.square()).sum()
    return value + (state.dual5 * (z - state.g)).sum() + (rho / 2 * (z - state.g).square()).sum()


def test_one_step_is_algorithm_1_by_autograd():
    """Every update of the step equals the pseudo-code evaluated with gradients from autograd."""
    settings = AdmmSettings(dtype="float64", gradient_clip=5.0)
    program, before = moving_state(settings)
    after = step(program, before, settings)
    rho = before.rho

    a = before.a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(lagrangian(program, before._replace(a=a)), a)
    limit = 1.2 * (before.q2 - 0.5).abs().amax(dim=(1, 2), keepdim=True)
    expected_a = before.a - program.assignment_rate * gradient.clamp(-5, 5)
    expected_a = torch.minimum(torch.maximum(expected_a, 0.5 - limit), 0.5 + limit)
    torch.testing.assert_close(after.a, expected_a)

    z = before.z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(lagrangian(program, before._replace(a=expected_a, z=z)), z)
    expected_z = before.z - program.confidence_rate * gradient
    torch.testing.assert_close(after.z, expected_z)

    size = after.a[0].numel()
    ray = before.dual2 / rho + expected_a - 0.5
    torch.testing.assert_close(after.g, (before.dual5 / rho + expected_z).clamp(program.low, program.high))
    torch.testing.assert_close(after.q1, (before.dual1 / rho + expected_a).clamp(0, 1))
    torch.testing.assert_close(after.q2, 0.5 + size**0.5 / 2 * ray / ray.norm(dim=(1, 2), keepdim=True))

    moved = after._replace(
        rho=rho, **{f"dual{i}": getattr(before, f"dual{i}").clone().requires_grad_() for i in range(1, 6)}
    )
    duals = [getattr(moved, f"dual{i}") for i in range(1, 6)]
    ascent = torch.autograd.grad(lagrangian(program, moved), duals)
    for i, (dual, gradient) in enumerate(zip(duals, ascent, strict=True), start=1):
        torch.testing.assert_close(getattr(after, f"dual{i}"), (dual + rho * gradient).detach())
    torch.testing.assert_close(after.rho, rho * program.rho_factor)


def test_diagnosed_lagrangian_is_the_lagrangian():
    program, state = moving_state(AdmmSettings(dtype="float64"))
    terms = lagrangian_terms(program, state)
    assert terms["lagrangian"].sum().item() == pytest.approx(lagrangian(program, state).item())


def test_starts_as_the_paper_says():
    lower, upper, correct, confidence = smoothed_like(30)
    problem = WorstCaseProblem.checked(lower, upper, correct)
    settings = AdmmSettings(dtype="float64")
    program, state = initialise(problem, confidence, settings)
    assert state.a.shape == (16, 15, 30)
    assert (state.a == 1 / 15).all()
    for name in ("q1", "q2"):
        assert torch.equal(getattr(state, name), state.a)
    assert not any(getattr(state, f"dual{i}").any() for i in range(1, 6))
    assert (state.rho == 0.01).all()
    open_bins = program.blocked == 0
    clean, brier = torch.tensor(confidence), torch.tensor(np.where(correct, lower, upper))
    assert torch.equal(state.z[0], torch.where(open_bins[0], clean, 0.0))
    assert torch.equal(state.z[8], torch.where(open_bins[0], brier, 0.0))
    grid = {(r["start"], r["confidence_rate"], r["assignment_rate"], r["rho_factor"]) for r in settings.runs()}
    assert grid == {
        (s, z, a, f) for s in ("clean", "brier") for z in (0.001, 0.01) for a in (0.01, 0.1) for f in (1.004, 1.01)
    }


def test_rho_stops_at_its_cap():
    _, state = moving_state(AdmmSettings(rho_factors=1.5, rho_cap=2.0), steps=30)
    assert (state.rho == 2.0).all()


class TestProjections:
    point = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def nearer(self, projected, members):
        """No other member of the set is nearer."""
        own = (projected - self.point).norm(dim=(1, 2))
        return all((own <= (member - self.point).norm(dim=(1, 2)) + 1e-12).all() for member in members)

    def others(self, make):
        generator = torch.Generator().manual_seed(1)
        return [make(torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)) for _ in range(200)]

    def test_box(self):
        projected = onto_box(self.point)
        assert projected.min() >= 0
        assert projected.max() <= 1
        assert self.nearer(projected, self.others(lambda x: x.sigmoid()))

    def test_sphere(self):
        projected = onto_sphere(self.point)
        torch.testing.assert_close((projected - 0.5).norm(dim=(1, 2)), torch.full((3,), 20**0.5 / 2).double())
        assert self.nearer(projected, self.others(onto_sphere))

    def test_sphere_from_its_centre(self):
        """Two bins start there; every point is nearest, and none is NaN."""
        projected = onto_sphere(torch.full((1, 2, 3), 0.5))
        torch.testing.assert_close((projected - 0.5).norm(), torch.tensor(6**0.5 / 2))

    def test_sphere_and_box_meet_in_binary_vectors(self):
        binary = (self.point > 0).double()
        torch.testing.assert_close(onto_sphere(binary), binary)
        torch.testing.assert_close(onto_box(binary), binary)

    def test_bounds(self):
        low, high = torch.full((1, 4, 5), 0.2).double(), torch.full((1, 4, 5), 0.4).double()
        projected = onto_bounds(self.point, low, high)
        assert self.nearer(projected, self.others(lambda x: 0.2 + 0.2 * x.sigmoid()))

    def test_assignments(self):
        barrier = torch.zeros(1, 4, 5).double()
        barrier[0, :2] = torch.inf
        chosen = onto_assignments(self.point, barrier)
        assert (chosen >= 2).all()

        def one_hot(bins):
            return torch.nn.functional.one_hot(bins, 4).transpose(1, 2).double()

        generator = torch.Generator().manual_seed(2)
        members = [one_hot(torch.randint(2, 4, (3, 5), generator=generator)) for _ in range(200)]
        assert self.nearer(one_hot(chosen), members)


def test_gradient_of_a_is_clipped():
    lower, upper, correct, clean = smoothed_like(40)
    problem = WorstCaseProblem.checked(lower, upper, correct, n_bins=5)
    free, tight = (AdmmSettings(dtype="float64", gradient_clip=clip, value_clip=1e4) for clip in (1e4, 0.01))
    program, state = initialise(problem, clean, tight)
    moved = (step(program, state, tight).a - state.a).abs().amax(dim=(1, 2)) / program.assignment_rate[:, 0, 0]
    torch.testing.assert_close(moved, torch.full_like(moved, 0.01))
    assert (
        (step(program, state, free).a - state.a).abs().amax(dim=(1, 2)) > 0.01 * program.assignment_rate[:, 0, 0]
    ).all()


def test_diagnostics_are_what_they_are_called():
    program, state = moving_state(AdmmSettings(dtype="float64"))
    distances = constraint_distances(program, state)
    residual = (state.a.sum(dim=1) - 1).abs()
    torch.testing.assert_close(distances["unique_distance_1"], residual.sum(dim=1))
    torch.testing.assert_close(distances["unique_distance_inf"], residual.max(dim=1).values)
    blocked = (program.blocked * state.a).sum(dim=1).abs()
    torch.testing.assert_close(distances["valid_distance_inf"], blocked.max(dim=1).values)
    nearest = torch.minimum(state.a.abs(), (state.a - 1).abs())
    torch.testing.assert_close(distances["binary_distance_1"], nearest.sum(dim=(1, 2)))
    outside = (program.low - state.z).clamp(min=0) + (state.z - program.high).clamp(min=0)
    torch.testing.assert_close(distances["confidence_distance_inf"], outside.amax(dim=(1, 2)))
    relaxed = (state.a * (program.correct - state.z)).sum(dim=2).abs().sum(dim=1) / state.a.shape[2]
    torch.testing.assert_close(lagrangian_terms(program, state)["relaxed_error"], relaxed)
    recorder = Recorder((0,))
    recorder.watch(program, state)
    by_input = state.a[0].T.flatten()[:150]  # a_{1,1}, …, a_{1,M}, a_{2,1}, …
    np.testing.assert_array_equal(recorder.results()["snapshots"][0][0], by_input)
