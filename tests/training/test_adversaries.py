"""Adversaries in training beside slow transcriptions of the papers: where they go, and what that raises."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

import certcal
from attack_models import random_inputs, random_model
from certcal.training import ObjectiveSettings, make_objective
from certcal.training.aims import Acce, Cce, towards
from certcal.training.copies import weight_loss
from certcal.training.search import View, climb_cross_entropy, look, search
from certcal.worstcase import WorstCaseProblem
from laws import examples
from training_oracles import algorithm2, ascend, mean_probs, worst_case_directions
from training_problems import AIMS, SIGMA, N, attacked, gradients, noise_of, setting, step_of


@examples(25)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(AIMS),
    epsilon=st.sampled_from([1e-3, 0.2, 1.5]),
    factor=st.sampled_from([0.1, 1.0, 2.0]),
    box=st.booleans(),
    gradient=st.sampled_from(["backprop", "stein"]),
)
def test_adversaries_stay_in_the_ball(seed, name, epsilon, factor, box, gradient):
    options = {"name": name, "step_factor": factor, "box": box, "gradient": gradient, "dtype": torch.float32}
    point, _ = attacked(seed, epsilon=epsilon, **options)
    _, inputs, *_ = setting(seed, **options)
    distance = (point.double() - inputs.double()).flatten(1).norm(dim=1)
    assert (distance <= epsilon).all()
    assert distance.max() <= 2 * factor * epsilon + 1e-5
    if box:
        assert point.min() >= 0
        assert point.max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", AIMS)
def test_adversaries_raise_what_they_aim_at(name, seed):
    options = {"name": name, "n": 40, "steps": 6, "scale": 1.5}
    model, inputs, labels, copies, *_ = setting(seed, epsilon=0.3, **options)
    point, aim = attacked(seed, epsilon=0.3, **options)
    before, after = (mean_probs(model, at, noise_of(copies, 40)).detach() for at in (inputs, point))
    predicted = before.argmax(dim=1)
    correct = (predicted == labels).double()
    z = [probs.gather(1, predicted[:, None]).squeeze(1) for probs in (before, after)]
    if name == "smoothadv":
        own = [probs.gather(1, labels[:, None]) for probs in (before, after)]
        assert (own[1] < own[0]).all()
    elif name == "brier-act":
        assert ((correct - z[1]).square() > (correct - z[0]).square()).all()
    elif name == "acce-act":  # at the assignment it ended with
        assert aim.error(z[1]) > aim.error(z[0]) + 0.1
    else:
        ece = [certcal.expected_calibration_error(part, correct) for part in z]
        assert ece[1] > ece[0] + 0.01


def test_smoothadv_is_ascent_on_the_smoothed_cross_entropy():
    for seed, factor in ((0, 1.0), (1, 0.3)):
        model, inputs, labels, copies, _, _ = setting(seed, step_factor=factor)
        point, _ = attacked(seed, step_factor=factor)

        def loss(probs, t, labels=labels):
            return -probs.gather(1, labels[:, None]).log().sum()

        literal = ascend(model, inputs, noise_of(copies), loss, epsilon=0.5, steps=3, factor=factor)
        torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)


def test_brier_act_is_ascent_on_the_brier_score_of_the_first_prediction():
    model, inputs, labels, copies, _, _ = setting(4)
    point, _ = attacked(4, name="brier-act")
    predicted = mean_probs(model, inputs, noise_of(copies)).argmax(dim=1)
    correct = (predicted == labels).double()
    assert 0 < correct.sum() < N

    def score(probs, t):
        return (correct - probs.gather(1, predicted[:, None]).squeeze(1)).square().sum()

    literal = ascend(model, inputs, noise_of(copies), score, epsilon=0.5, steps=3)
    torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "growth", "steps"), [(0, 0.1, 5), (1, 0.5, 8), (2, 0.0, 3)])
def test_acce_act_is_algorithm_2(seed, growth, steps):
    rho = {"rho": 0.05, "rho_growth": growth, "assignment_rate": 0.1}
    options = {"name": "acce-act", "n_bins": 5, "steps": steps, "step_factor": 0.7, **rho}
    model, inputs, labels, copies, _, _ = setting(seed, **options)
    point, aim = attacked(seed, epsilon=0.1, **options)
    literal, program, predicted = algorithm2(
        model, inputs, labels, noise_of(copies), sigma=SIGMA, epsilon=0.1, steps=steps, factor=0.7,
        bins=5, rho=0.05, growth=growth, rate=0.1,
    )  # fmt: skip
    torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)
    flat = aim.assignments.state.a[0].T.flatten()
    torch.testing.assert_close(flat, program.a, rtol=0, atol=1e-6)
    assert program.K.sum() > 0
    for ours, theirs in zip((aim.assignments.state.dual1, aim.assignments.state.dual2), program.dual[:2], strict=True):
        torch.testing.assert_close(ours[0].T.flatten(), theirs, rtol=0, atol=1e-6)
    for ours, theirs in zip((aim.assignments.state.dual3, aim.assignments.state.dual4), program.dual[2:], strict=True):
        torch.testing.assert_close(ours.flatten(), theirs, rtol=0, atol=1e-6)
    assert aim.assignments.state.rho.item() == pytest.approx(program.rho[0], rel=1e-9)
    assert torch.equal(aim.predicted, predicted)


def test_acce_act_star_adds_the_error_at_the_last_assignment():
    options = {"name": "acce-act*", "n_bins": 5, "eta": 0.7, "steps": 3}
    model, inputs, labels, copies, _, _ = setting(5, **options)
    point, program, predicted = algorithm2(
        model, inputs, labels, noise_of(copies), sigma=SIGMA, epsilon=0.5, steps=3, factor=1.0,
        bins=5, rho=0.01, growth=0.1, rate=0.1,
    )  # fmt: skip
    error = program.error(
        mean_probs(model, point, noise_of(copies)).gather(1, predicted[:, None]).squeeze(1), program.a
    )
    entropy = weight_loss(copies.logits(point), labels, 3, "each")
    for reduction, divisor in (("sum", 1), ("mean", N)):
        chosen = ObjectiveSettings(draws=3, reduction=reduction, **options)
        loss = make_objective(chosen)(model, inputs, labels, step_of(5, epsilon=0.5))
        literal = 0.7 * entropy + 0.3 * error / divisor
        assert loss.item() == pytest.approx(literal.item(), rel=1e-5)
        ours, theirs = gradients(model, loss), torch.autograd.grad(literal, list(model.parameters()), retain_graph=True)
        torch.testing.assert_close(ours, torch.cat([part.flatten() for part in theirs]), rtol=0, atol=1e-4)


def residuals(aim):
    """‖C'a − 1‖ and ‖K'a‖: one bin for each input, and none out of reach."""
    a, blocked = aim.assignments.state.a, aim.assignments.program.blocked
    return float((a.sum(dim=1) - 1).norm()), float((a * blocked).sum(dim=1).norm())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_constraint_residuals_of_acce_act_fall_over_steps(seed, monkeypatch):
    signs, seen = Acce.signs, []

    def recorded(aim, view, step):
        found = signs(aim, view, step)
        seen.append(residuals(aim))
        return found

    monkeypatch.setattr(Acce, "signs", recorded)
    rates = {"rho": 0.1, "rho_growth": 0.1, "assignment_rate": 0.005}  # small enough to be stable once ρ is at its cap
    attacked(seed, name="acce-act", n=60, n_bins=6, epsilon=0.2, steps=60, step_factor=0.5, **rates)
    unique, valid = np.array(seen).T
    assert valid[-10:].mean() < 0.4 * valid[0]
    assert np.hypot(unique, valid)[-10:].mean() < 0.5 * np.hypot(unique, valid)[0]


def test_growing_rho_governs_how_early_the_constraints_are_enforced():
    options = {"name": "acce-act", "n": 60, "n_bins": 6, "epsilon": 0.2, "steps": 10}
    seen = [residuals(attacked(0, rho_growth=growth, **options)[1]) for growth in (0.01, 0.1, 0.5)]
    assert seen[0] > seen[1] > seen[2]
    assert seen[0][1] > seen[1][1] > seen[2][1]


@examples(60)
@given(st.integers(0, 10**6))
def test_cce_directions_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    n, bins = 5, 4
    lower, upper = np.sort(rng.random((2, n)), axis=0)
    confidence = lower + rng.random(n) * (upper - lower)
    correct = rng.random(n) < 0.5
    problem = WorstCaseProblem.checked(lower, upper, correct, n_bins=bins)
    value, directions = worst_case_directions(lower, upper, correct, confidence, bins=bins)
    assert certcal.certified_calibration_error(lower, upper, correct, n_bins=bins).value == pytest.approx(value)
    np.testing.assert_array_equal(towards(problem, confidence), directions)


def test_cce_solves_again_for_what_is_left_at_every_step():
    options = {"name": "cce-act", "steps": 4, "n_bins": 4, "step_factor": 0.4}
    model, inputs, labels, copies, step, chosen = setting(6, epsilon=0.25, **options)
    normal = torch.distributions.Normal(0.0, 1.0)
    first, predicted = None, None

    def objective(probs, t):
        nonlocal first, predicted
        predicted = probs.argmax(dim=1) if t == 0 else predicted
        z = probs.gather(1, predicted[:, None]).squeeze(1)
        here = normal.icdf(z.detach())
        first = (here - 0.25 / SIGMA, here + 0.25 / SIGMA) if t == 0 else first
        here, left = here.clamp(*first), (4 - t) * (2 * 0.4 * 0.25 / 4) / SIGMA
        low, high = torch.maximum(first[0], here - left), torch.minimum(first[1], here + left)
        bounds = (normal.cdf(side).numpy() for side in (low, high))
        _, way = worst_case_directions(*bounds, (predicted == labels).numpy(), z.detach().numpy(), bins=4)
        return (torch.from_numpy(way) * z).sum()

    literal = ascend(model, inputs, noise_of(copies), objective, epsilon=0.25, steps=4, factor=0.4)
    point = search(copies, inputs, Cce(labels, step, chosen), 0.25, chosen)
    torch.testing.assert_close(point, literal, rtol=0, atol=2e-6)


def test_what_is_left_starts_from_within_the_ball_even_if_few_draws_went_further():
    chosen = ObjectiveSettings(name="cce-act", steps=4, step_factor=0.5)  # steps of ε / 4
    aim = Cce(torch.tensor([0, 0, 0]), step_of(0, epsilon=SIGMA), chosen)  # R / σ = 1
    normal = torch.distributions.Normal(0.0, 1.0)

    def view(quantiles):
        z = normal.cdf(torch.tensor(quantiles, dtype=torch.float64))
        return View(torch.tensor([0, 1, 0]), z, 1 - z, torch.zeros(3, 1))

    aim.problem(view([0.0, 0.0, 0.0]), 0)
    left = aim.problem(view([2.5, -2.5, 0.3]), 3)  # one step of 1/4 is left, and the ball ends at ±1
    np.testing.assert_allclose(left.lower, normal.cdf(torch.tensor([0.75, -1.0, 0.05])), rtol=1e-6)
    np.testing.assert_allclose(left.upper, normal.cdf(torch.tensor([1.0, -0.75, 0.55])), rtol=1e-6)
    assert left.correct.tolist() == [True, False, True]


@pytest.mark.parametrize("random_start", [True, False])
def test_pgd_stays_in_ball_and_box_and_raises_the_cross_entropy(random_start):
    model, (inputs, labels) = random_model(7), random_inputs(7, 50)
    chosen = ObjectiveSettings(name="pgd", steps=5, random_start=random_start)
    point = climb_cross_entropy(model, inputs, labels, step_of(0, epsilon=8 / 255), chosen)
    assert (point.double() - inputs.double()).abs().max() <= 8 / 255
    assert point.min() >= 0
    assert point.max() <= 1
    each = [cross_entropy(model(at), labels, reduction="none") for at in (inputs, point)]
    assert (each[1] >= each[0]).float().mean() > 0.95
    if not random_start:
        literal = inputs
        for _ in range(5):
            at = literal.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(cross_entropy(model(at), labels), at)
            moved = literal + 2 / 5 * 8 / 255 * gradient.sign()
            literal = torch.clamp(moved, inputs - 8 / 255, inputs + 8 / 255).clamp(0, 1)
        torch.testing.assert_close(point, literal, rtol=0, atol=1e-6)


# Gradients


def test_uphill_is_the_gradient_of_the_smoothed_probability():
    model, inputs, labels, copies, _, _ = setting(8, n=3)
    view = look(copies, inputs, labels, "backprop")
    probs = mean_probs(model, inputs, noise_of(copies, 3))
    torch.testing.assert_close(view.confidence, probs.gather(1, labels[:, None]).squeeze(1), rtol=1e-6, atol=0)
    torch.testing.assert_close(view.confidence + view.rest, torch.ones_like(view.rest))
    slope = torch.zeros_like(inputs).flatten(1)
    for entry in range(slope.shape[1]):
        nudge = torch.zeros_like(slope)
        nudge[:, entry] = 1e-5
        up, down = (mean_probs(model, inputs + s * nudge.reshape(inputs.shape), noise_of(copies, 3)) for s in (1, -1))
        slope[:, entry] = (up - down).gather(1, labels[:, None]).squeeze(1) / 2e-5
    found = view.uphill.flatten(1)
    torch.testing.assert_close(found / found.norm(dim=1, keepdim=True), slope / slope.norm(dim=1, keepdim=True))


def test_stein_gradient_points_where_backpropagation_does():
    _, inputs, labels, copies, _, _ = setting(9, n=4, draws=4000, scale=1.0)
    stein, backprop = (look(copies, inputs, labels, kind).uphill.flatten(1) for kind in ("stein", "backprop"))
    assert (nn.functional.cosine_similarity(stein, backprop, dim=1) > 0.9).all()
    _, inputs, labels, few, _, _ = setting(9, n=4, draws=2, scale=1.0)
    view = look(few, inputs, labels, "stein")  # by hand: (p_1 − p_2)(δ_1 − δ_2) / 2
    noise = noise_of(few, 4)
    probs = few.logits(inputs).softmax(dim=1).reshape(4, 2, -1)
    own = probs.gather(2, labels[:, None, None].expand(4, 2, 1))[..., 0]
    by_hand = ((own[:, 0] - own[:, 1]) / 2).reshape(4, 1, 1, 1) * (noise[:, 0] - noise[:, 1])
    torch.testing.assert_close(view.uphill, by_hand.detach(), rtol=1e-9, atol=1e-12)
