"""The attack loop: in the ball, never worse than at the start, each input on its own."""

from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attack_models import predictions, random_inputs, random_model
from attack_oracles import climb_by_hand, inside
from certcal.attacks import (
    Ball,
    End,
    Norm,
    Plateau,
    attack,
    cross_entropy,
)
from certcal.attacks.balls import random_unit
from laws import examples


def losses(model, inputs, labels):
    """Cross-entropies from a forward pass of their own, in float64."""
    with torch.no_grad():
        return cross_entropy(model.double()(inputs.double()), labels).numpy()


def fooled(logits, target):
    return logits.argmax(dim=1) != target


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    norm=st.sampled_from(["linf", "l2", "l1"]),
    how=st.sampled_from([("steepest", None), ("gradient", 10.0), ("gradient", 0.3)]),
    on_flip=st.sampled_from(["allow", "stop", "shrink"]),
    random_start=st.booleans(),
    plateau=st.sampled_from([None, Plateau(patience=2)]),
    epsilon=st.sampled_from([0.0, 8 / 255, 0.2, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_every_attacked_input_is_inside_keeps_its_label_and_loses_nothing(
    seed, norm, how, on_flip, random_start, plateau, epsilon, dtype
):
    model, (x, y) = random_model(seed, dtype=dtype), random_inputs(seed, 9, dtype=dtype)
    before, _ = predictions(model, x)
    found = attack(
        model, x, y, epsilon=epsilon, norm=norm, direction=how[0], step_size=how[1], on_flip=on_flip, plateau=plateau,
        random_start=random_start, seed=seed, steps=7, batch_size=4,
    )  # fmt: skip
    assert inside(found.inputs, x, epsilon, Norm(norm)).all()
    assert found.inputs.dtype == dtype
    if on_flip != "allow":
        assert torch.equal(predictions(model, found.inputs)[0], before)
    assert (found.loss >= found.clean_loss).all()
    start, end = losses(model, x, y), losses(model, found.inputs, y)
    assert (end >= start - (1e-5 if dtype is torch.float32 else 0.0)).all()


@pytest.mark.parametrize(("norm", "on_flip"), list(product(["linf", "l2"], ["allow", "stop", "shrink"])))
def test_a_batch_gives_what_one_input_at_a_time_gives(norm, on_flip):
    model, (x, y) = random_model(3, dtype=torch.float64), random_inputs(3, 12, dtype=torch.float64)
    options = {"norm": norm, "on_flip": on_flip, "steps": 15, "direction": "gradient", "step_size": 2.0}
    options |= {"plateau": Plateau(patience=3)}
    together = attack(model, x, y, epsilon=0.3, batch_size=12, **options)
    alone = [attack(model, x[i : i + 1], y[i : i + 1], epsilon=0.3, **options) for i in range(12)]
    np.testing.assert_allclose(together.inputs, torch.cat([one.inputs for one in alone]), rtol=0, atol=1e-9)
    assert together.end.tolist() == [one.end[0] for one in alone]
    assert together.updates.tolist() == [one.updates[0] for one in alone]


def test_several_budgets_at_once_give_what_each_gives_alone():
    model, (x, y) = random_model(5, dtype=torch.float64), random_inputs(5, 7, dtype=torch.float64)
    budgets = [0.05, 0.0, 0.3]
    several = attack(model, x, y, epsilon=budgets, random_start=True, seed=3, batch_size=5)
    assert [found.epsilon for found in several] == budgets
    for found, epsilon in zip(several, budgets, strict=True):
        alone = attack(model, x, y, epsilon=epsilon, random_start=True, seed=3)
        np.testing.assert_allclose(found.inputs, alone.inputs, rtol=0, atol=1e-9)
    assert torch.equal(several[1].inputs, x)


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2), ("l1", np.inf)])
def test_on_a_linear_model_the_optimum_is_found(norm, dual):
    torch.manual_seed(0)
    model = nn.Linear(8, 2).double()
    x, y = torch.rand(20, 8, dtype=torch.float64) * 0.5 + 0.25, torch.randint(0, 2, (20,))
    found = attack(model, x, y, epsilon=0.1, norm=norm, box=False)
    slope = (model.weight[0] - model.weight[1]).detach()
    reach = 0.1 * float(torch.linalg.vector_norm(slope, dual))
    margin = (model(x)[:, 0] - model(x)[:, 1]).detach() * torch.where(y == 0, 1.0, -1.0)
    np.testing.assert_allclose(found.loss, F.softplus(reach - margin).numpy(), rtol=1e-6)


class RowCounter(nn.Module):
    """Counts the inputs that pass through."""

    def __init__(self, model):
        super().__init__()
        self.model, self.rows = model, 0

    def forward(self, x):
        self.rows += len(x)
        return self.model(x)


def test_inputs_that_have_stopped_cost_nothing():
    x, y = random_inputs(0, 40)
    model = RowCounter(random_model(0))
    found = attack(model, x, y, epsilon=0.5, on_flip="stop", steps=30, batch_size=40)
    assert {str(End.LABEL)} < set(found.end)
    # One row for the model's classes, the batch at its start, every update taken, and the one not taken at the end.
    stopped = int((found.end == End.LABEL).sum())
    assert model.rows == 1 + 40 + int(found.updates.sum()) + stopped
    assert model.rows < 40 * 31


def test_a_flat_loss_and_a_corner_stop_an_input_at_once():
    x, y = random_inputs(1, 6)
    flat = RowCounter(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)))
    with torch.no_grad():
        flat.model[1].weight.zero_()
    found = attack(flat, x, y, epsilon=0.1)
    assert set(found.end) == {str(End.FIXED)}
    assert flat.rows == 1 + 6
    assert torch.equal(found.inputs, x)


def test_goal_stops_an_input_where_it_is_reached():
    model, (x, y) = random_model(2), random_inputs(2, 30)
    y = predictions(model, x)[0]
    whole, early = attack(model, x, y, epsilon=0.5), attack(model, x, y, epsilon=0.5, goal=fooled)
    reached = early.end == End.GOAL
    assert reached.sum() >= 5
    assert (predictions(model, early.inputs)[0] != y).numpy()[reached].all()
    assert (early.updates[reached] <= whole.updates[reached]).all()
    assert early.updates[reached].min() < 40


def test_a_random_start_is_random_and_repeatable():
    model, (x, y) = random_model(4), random_inputs(4, 5)
    one, same, other = (attack(model, x, y, epsilon=0.1, steps=1, random_start=True, seed=s) for s in (0, 0, 1))
    assert torch.equal(one.inputs, same.inputs)
    assert not torch.equal(one.inputs, other.inputs)


@pytest.mark.parametrize("random_start", [False, True])
def test_steps_shorten_as_a_loop_over_one_input_says(random_start):
    model, (x, y) = random_model(7, scale=2.0, dtype=torch.float64), random_inputs(7, 30, dtype=torch.float64)
    y = predictions(model, x)[0]
    how = {"epsilon": 0.4, "steps": 25, "shrink": 0.7}
    found = attack(
        model, x, y, **how, step_size=3.0, direction="gradient", on_flip="shrink", margin=0.0,
        plateau=Plateau(factor=0.3, patience=1), random_start=random_start,
    )  # fmt: skip
    starts = Ball.around(x, torch.full((30,), 0.4, dtype=torch.float64), Norm.LINF, boxed=True).at(
        random_unit(x.shape, Norm.LINF, 0).double()
    )
    compared = 0
    for i in range(30):
        own = slice(i, i + 1)
        start = starts[own] if random_start else x[own]
        if predictions(model, start)[0] != y[own]:
            continue  # a start that changes the label is not taken
        hand = climb_by_hand(model, x[own], y[own], start, **how, rate=3.0, factor=0.3, patience=1)
        np.testing.assert_allclose(found.inputs[own], hand, rtol=0, atol=1e-9)
        compared += 1
    assert compared > 20


def test_a_plateau_is_told_from_where_the_input_starts():
    # The loss rises at every step from a start below the input's own: no step is to be shortened.
    slope = nn.Linear(1, 2).double()
    with torch.no_grad():
        slope.weight.copy_(torch.tensor([[0.0], [1.0]]))
    x = torch.full((8, 1), 0.5, dtype=torch.float64)

    def rise(logits, target):
        return logits[:, 1]

    found = attack(
        slope, x, np.zeros(8, int), epsilon=0.4, loss=rise, direction="gradient", step_size=0.04, steps=30,
        plateau=Plateau(patience=0), random_start=True,
    )  # fmt: skip
    np.testing.assert_allclose(found.inputs, 0.9, atol=1e-9)


@pytest.mark.parametrize("on_flip", ["stop", "shrink"])
def test_labels_are_kept_by_a_margin(on_flip):
    model, (x, y) = random_model(9), random_inputs(9, 60)
    y = predictions(model, x)[0]
    found = attack(model, x, y, epsilon=0.5, on_flip=on_flip, steps=60)
    with torch.no_grad():
        logits = model.double()(found.inputs.double())
    own = logits.gather(1, y[:, None])[:, 0]
    lead = own - logits.scatter(1, y[:, None], -torch.inf).amax(dim=1)
    moved = (found.inputs != x).flatten(1).any(dim=1)
    assert (lead / logits.abs().amax(dim=1).clamp(min=1.0))[moved].min() > 0.9e-4
    assert on_flip == "stop" or lead[moved].min() < 1e-2


def test_an_input_at_the_border_stays_where_it_is():
    model, (x, y) = random_model(0), random_inputs(0, 12)
    with torch.no_grad():
        model[-1].weight[1] = model[-1].weight[0]
        model[-1].bias[:2] = 3.0  # two classes tied everywhere, above the third
        model[-1].bias[2] = -50.0
    for options in ({}, {"random_start": True}, {"batch_size": 5}):
        found = attack(model, x, y, epsilon=0.2, on_flip="shrink", **options)
        assert torch.equal(found.inputs, x)
        assert set(found.end) == {str(End.BORDER)}
        assert not found.updates.any()
    assert not torch.equal(attack(model, x, y, epsilon=0.2).inputs, x)
