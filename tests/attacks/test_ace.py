"""(η, ω)-ACE: as the paper reads, and with every label left as it was."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import certcal
from attack_models import predictions, random_inputs, random_model, trained_on_digits
from attack_oracles import ace_by_hand, galil_by_hand, inside
from certcal import InputError, ace_attack, adaptive_calibration_error
from certcal.attacks import (
    CONFIGURATIONS,
    End,
    Norm,
    attack,
    galil_ace_attack,
    run_ace_attacks,
)
from certcal.data import load_dataset
from fashion_small import fashion_small
from laws import examples

PAIRS = [(1, "y"), (-1, "y"), (1, "yhat"), (-1, "yhat")]


@pytest.fixture(scope="module")
def digits():
    return trained_on_digits(), *load_dataset("digits", split="test").tensors()


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
@pytest.mark.parametrize(("eta", "omega"), PAIRS)
def test_a_batch_does_what_the_paper_says_of_one_input(eta, omega, epsilon):
    model, (x, y) = random_model(1, scale=1.0, dtype=torch.float64), random_inputs(1, 12, dtype=torch.float64)
    (found,) = ace_attack(model, x, y, eta=eta, omega=omega, epsilon=[epsilon], margin=0.0)
    for i in range(len(x)):
        trail = ace_by_hand(model, x[i : i + 1], y[i : i + 1], eta=eta, omega=omega, epsilon=epsilon)
        best, gamma = max(trail, key=lambda pair: pair[0])
        assert found.loss[i] == pytest.approx(best, abs=1e-7)
        np.testing.assert_allclose(found.inputs[i] - x[i], gamma[0], rtol=0, atol=1e-6)
        if found.end[i] != End.FIXED:  # the loop leaves an input that no update moves; by hand it takes all steps
            assert found.updates[i] == len(trail) - 1
    assert (found.updates > 0).any()


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    pair=st.sampled_from(PAIRS),
    epsilon=st.sampled_from([2 / 255, 8 / 255, 0.3]),
    scale=st.sampled_from([0.5, 3.0, 30.0]),
)
def test_labels_stay_and_the_loss_does_not_fall(seed, pair, epsilon, scale):
    model, (x, y) = random_model(seed, scale=scale), random_inputs(seed, 10)
    before, _ = predictions(model, x)
    (found,) = ace_attack(model, x, y, eta=pair[0], omega=pair[1], epsilon=[epsilon], steps=8)
    assert torch.equal(predictions(model, found.inputs)[0], before)
    assert torch.equal(predictions(model.double(), found.inputs.double(), batch=1)[0], before)
    assert inside(found.inputs, x, epsilon, Norm.LINF).all()
    assert (found.loss >= found.clean_loss).all()


@pytest.mark.slow
def test_on_digits_calibration_is_wrecked_and_accuracy_is_not(digits):
    model, x, y = digits
    x, y = x[:200], y[:200]
    before, confidence = predictions(model, x)
    clean = adaptive_calibration_error(confidence, before == y)
    error, mean = {}, {}
    for eta, omega in PAIRS:
        moved = ace_attack(model, x, y, eta=eta, omega=omega, epsilon=0.1).inputs
        after, confidence_after = predictions(model, moved)
        assert torch.equal(after, before)
        error[eta, omega] = adaptive_calibration_error(confidence_after, after == y)
        mean[eta, omega] = confidence_after.mean()
    # Lowering either probability hurts calibration a lot; which way raising it goes depends on the model.
    assert error[1, "y"] > 3 * clean
    assert error[1, "yhat"] > 3 * clean
    assert max(error[-1, "y"], error[-1, "yhat"]) < error[1, "y"]
    assert mean[1, "yhat"] < confidence.mean() < mean[-1, "yhat"]
    # Without the constraint the same budget flips dozens.
    free = attack(model, x, y, epsilon=0.1)
    assert int((predictions(model, free.inputs)[0] != before).sum()) >= 24


@pytest.mark.slow
def test_a_stronger_way_to_climb_still_keeps_labels(digits):
    model, x, y = digits
    x, y = x[:100], y[:100]
    before, _ = predictions(model, x)
    paper, strong = (
        ace_attack(model, x, y, eta=1, omega="y", epsilon=[0.1], **options)[0]
        for options in ({}, {"direction": "steepest", "step_size": 0.02, "on_flip": "shrink", "steps": 25})
    )
    assert torch.equal(predictions(model, strong.inputs)[0], before)
    assert strong.loss.mean() > 1.3 * paper.loss.mean()


def test_galils_attack_is_a_special_case():
    model, (x, y) = random_model(8, scale=4.0, dtype=torch.float64), random_inputs(8, 25, dtype=torch.float64)
    moved = galil_ace_attack(model, x, y, epsilon=0.15, margin=0.0).inputs
    before, _ = predictions(model, x)
    assert torch.equal(predictions(model, moved)[0], before)
    matched = 0
    for i in range(len(x)):
        hand = galil_by_hand(model, x[i : i + 1], y[i : i + 1], epsilon=0.15)
        own, other = (predictions(model, points)[1][0] for points in (moved[i : i + 1], hand))
        sign = -1 if before[i] == y[i] else 1
        if torch.equal(moved[i], x[i]):  # the step worked against its own aim, and ours is not taken then
            assert sign * other <= sign * predictions(model, x[i : i + 1])[1][0] + 1e-12
        else:
            np.testing.assert_allclose(moved[i : i + 1], hand, rtol=0, atol=1e-12)
            assert own == pytest.approx(other, abs=1e-12)
            matched += 1
    assert matched >= 15
    assert torch.equal(galil_ace_attack(model, x, y, epsilon=0.0).inputs, x)


def at_the_border(model, inputs):
    """Points between two inputs of different labels, halved until float32 tells them apart no more."""
    label, _ = predictions(model, inputs)
    first, second = inputs[label == 0], inputs[label == 1]
    many = min(len(first), len(second))
    low, high = first[:many], second[:many]
    for _ in range(40):
        middle = (low + high) / 2
        above = (predictions(model, middle)[0] == 1)[:, None]
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return torch.cat([low, high])


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [3, 128])
def test_labels_stay_on_inputs_that_sit_on_the_border(batch_size):
    # There the model's rounding, which differs with the size of a batch, decides on the label.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 2))
    with torch.no_grad():
        model[-1].weight.mul_(20)
    x = at_the_border(model, torch.rand(400, 784))
    assert len(x) > 30
    assert len({tuple(predictions(model, x, batch=size)[0].tolist()) for size in (1, 3, 512)}) > 1
    y = torch.arange(len(x)) % 2
    mixed, labels = torch.cat([x, torch.rand(20, 784)]), torch.cat([y, torch.arange(20) % 2])
    table = run_ace_attacks(
        model, mixed, labels, epsilon=[0.02], galil=True, steps=3, direction="steepest", step_size=None,
        on_flip="shrink", plateau=None, batch_size=batch_size,
    )  # fmt: skip
    paper = run_ace_attacks(model, mixed, labels, epsilon=[0.02], steps=3, batch_size=batch_size)
    assert [row.label_changes for row in (*table, *paper)] == [0] * 11
    assert {row.accuracy for row in (*table, *paper)} == {table.rows[0].accuracy}
    assert all(row.moved >= 10 for row in table.rows[1:])


def test_several_budgets_and_spellings():
    model, (x, y) = random_model(2), random_inputs(2, 6)
    several = ace_attack(model, x, y, eta=1, omega="ŷ", epsilon=[0.05, 0.2])
    assert isinstance(several, list)
    assert len(several) == 2
    for omega in ("yhat", "y_hat"):
        assert torch.equal(several[1].inputs, ace_attack(model, x, y, eta=1, omega=omega, epsilon=0.2).inputs)
    assert torch.equal(several[0].inputs, ace_attack(model, x, y, eta=1.0, omega="ŷ", epsilon=0.05).inputs)


def test_table_has_the_papers_layout(digits):
    model, x, y = digits
    x, y = x[:60], y[:60]
    table = run_ace_attacks(model, x, y, epsilon=[0.05, 0.1], steps=10)
    assert [(row.eta, row.omega) for row in table] == [(0, "")] + [
        (own.eta, own.omega) for own in CONFIGURATIONS for _ in range(2)
    ]
    assert [str(own) for own in CONFIGURATIONS] == ["(-1, y)", "(+1, y)", "(-1, ŷ)", "(+1, ŷ)"]
    assert len(table) == len(table.curves) == 9
    assert {row.accuracy for row in table} == {table.rows[0].accuracy}
    assert all(row.label_changes == 0 and row.inputs == 60 for row in table)
    for row, curve in zip(table, table.curves, strict=True):
        assert curve.error == pytest.approx(row.ece, abs=1e-12)
    label, confidence = predictions(model, ace_attack(model, x, y, eta=1, omega="y", epsilon=0.1, steps=10).inputs)
    row = next(row for row in table if (row.eta, row.omega, row.epsilon) == (1, "y", 0.1))
    assert row.adaptive_ece == pytest.approx(adaptive_calibration_error(confidence, label == y), abs=1e-5)
    assert row.moved > 0
    assert table.as_dicts()[0]["adaptive_ece"] == table.rows[0].adaptive_ece
    one = run_ace_attacks(model, x, y, epsilon=0.1, configurations=[(1, "y")], steps=10)
    assert one.rows[1] == row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 0}, r"Expected `eta` to be \+1 or -1, but got 0"),
        ({"eta": True}, r"Expected `eta` to be \+1 or -1, but got True"),
        ({"omega": "label"}, "Expected `omega` to be one of 'y', 'yhat', 'y_hat', 'ŷ', but got 'label'"),
        ({"on_flip": "allow"}, "Expected `on_flip` to be 'stop' or 'shrink', as ACE keeps labels, but got 'allow'"),
        ({"epsilon": 8}, r"Expected `epsilon` to be at most 1, as .* but got 8 \(did you mean 8/255\?\)"),
        ({"epsilon": [0.1, 2.5]}, r"but got 2.5 \(did you mean 2.5/255\?\)"),
        ({"epsilon": float("nan")}, "Expected `epsilon` to be a finite number ≥ 0, but got nan"),
    ],
)
def test_bad_input(change, message):
    model, (x, y) = random_model(0), random_inputs(0, 2)
    with pytest.raises(InputError, match=message):
        ace_attack(model, x, y, **({"eta": 1, "omega": "y", "epsilon": 0.1} | change))


def test_a_budget_beyond_the_box_is_fine_without_one_and_in_another_norm():
    model, (x, y) = random_model(0), random_inputs(0, 2)
    for options in ({"box": False}, {"norm": "l2"}):
        assert ace_attack(model, x, y, eta=1, omega="y", epsilon=2.0, steps=2, **options).inputs.shape == x.shape


def test_rows_are_asked_for_once():
    model, (x, y) = random_model(0), random_inputs(0, 2)
    with pytest.raises(InputError, match=r"Expected `epsilon` to name each value once, but got 0\.1 twice"):
        run_ace_attacks(model, x, y, epsilon=[0.1, 0.2, 0.1])
    with pytest.raises(
        InputError, match=r"Expected `configurations` to name each value once, but got \(\+1, y\) twice"
    ):
        run_ace_attacks(model, x, y, epsilon=0.1, configurations=[(1, "y"), (1.0, "y")])


def test_it_is_at_the_top():
    assert certcal.ace_attack is ace_attack


def test_the_original_ace_has_rows_of_its_own(digits):
    model, x, y = digits
    x, y = x[:100], y[:100]
    table = run_ace_attacks(model, x, y, epsilon=[0.05, 0.1], configurations=[(1, "y")], galil=True, steps=3)
    assert [(row.eta, row.omega, row.epsilon) for row in table][-2:] == [(0, "galil", 0.05), (0, "galil", 0.1)]
    _, found = galil_ace_attack(model, x, y, epsilon=[0.05, 0.1])
    moved = found.inputs
    label, confidence = predictions(model, moved)
    own = table.rows[-1]
    assert own.adaptive_ece == pytest.approx(adaptive_calibration_error(confidence, label == y), abs=1e-6)
    assert own.moved == int((moved != x).flatten(1).any(dim=1).sum()) > 0
    assert own.label_changes == 0
    assert table.curves[-1].error == pytest.approx(own.ece)


@pytest.mark.slow
def test_on_fashion_mnist_calibration_is_wrecked_in_the_papers_order():
    model, x, y = fashion_small()
    stronger = {"direction": "steepest", "on_flip": "shrink", "steps": 12, "step_size": None, "plateau": None}
    tables = [
        run_ace_attacks(model, x[:count], y[:count], epsilon=8 / 255, **options)
        for count, options in ((400, stronger), (150, {}))
    ]
    for table in tables:
        assert {row.accuracy for row in table} == {table.rows[0].accuracy}
        assert [row.label_changes for row in table] == [0] * 5
        assert table.rows[0].accuracy > 0.85
    error = {(row.eta, row.omega): row.adaptive_ece for row in tables[0]}
    clean, order = error.pop((0, "")), sorted(error, key=error.__getitem__)
    assert order == [(-1, "y"), (-1, "yhat"), (1, "yhat"), (1, "y")]  # as in Table 1, for standard training
    assert error[1, "y"] > error[1, "yhat"] > 5 * clean
    assert error[-1, "yhat"] > 2 * clean
    assert tables[1].rows[2].adaptive_ece > 3 * tables[1].rows[0].adaptive_ece
