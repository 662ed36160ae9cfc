"""The attack loop: what goes in, and that models and inputs come back as they were."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from attack_models import predictions, random_inputs, random_model
from certcal import CertcalError, InputError
from certcal.attacks import (
    Adversary,
    End,
    Plateau,
    Settings,
    attack,
    attack_calibration,
    cross_entropy,
    run_ace_attacks,
)
from certcal.attacks.batched import attack_batched


def fooled(logits, target):
    return logits.argmax(dim=1) != target


def test_the_label_to_keep_is_the_one_handed_in():
    model, (x, y) = random_model(3), random_inputs(3, 9)
    own = predictions(model, x)[0]
    chosen = Settings(on_flip="stop", steps=3)
    for label, stays in ((own, False), ((own + 1) % 3, True)):
        (found,) = attack_batched(
            model, cross_entropy, x, y, epsilons=(0.1,), settings=chosen, device=torch.device("cpu"), label=label
        )
        assert torch.equal(found.inputs, x) == stays
        assert (set(found.end) == {str(End.BORDER)}) == stays


class InPlace(nn.Module):
    """Normalises its inputs where they stand."""

    def __init__(self):
        super().__init__()
        self.model = random_model(0)

    def forward(self, x):
        x -= 0.5
        return self.model(x)


def test_a_model_that_works_in_place_harms_nobody():
    x, y = random_inputs(0, 6)
    before = x.clone()
    found = attack(InPlace(), x, y, epsilon=0.1, steps=3)
    assert torch.equal(x, before)
    assert (found.inputs - x).abs().max() <= 0.1
    assert (found.loss > found.clean_loss).all()
    for adversary in Adversary:
        attack_calibration(InPlace(), x, y, sigma=0.2, epsilon=0.1, adversary=adversary, draws=4, steps=2)
    run_ace_attacks(InPlace(), x, y, epsilon=0.1, steps=2, galil=True)
    assert torch.equal(x, before)


def test_in_inference_mode_attacks_still_have_gradients():
    model, (x, y) = random_model(0), random_inputs(0, 4)
    expected = attack(model, x, y, epsilon=0.1).inputs
    with torch.inference_mode():
        own = x.clone()
        assert torch.equal(attack(model, own, y, epsilon=0.1).inputs, expected)
        assert torch.equal(attack(model, x, y.clone(), epsilon=torch.tensor(0.1, dtype=torch.float64)).inputs, expected)
        moved = attack_calibration(model, own, y, sigma=0.2, epsilon=0.1, draws=4, steps=2).inputs
        assert not torch.equal(moved, own)


def test_budgets_may_be_arrays():
    model, (x, y) = random_model(0), random_inputs(0, 3)
    one = attack(model, x, y, epsilon=0.125)
    assert torch.equal(attack(model, x, y, epsilon=torch.tensor(0.125)).inputs, one.inputs)
    assert torch.equal(attack(model, x, y, epsilon=np.array(0.125)).inputs, one.inputs)
    several = attack(model, x, y, epsilon=torch.tensor([0.0, 0.125]))
    assert [found.epsilon for found in several] == [0.0, 0.125]


class Blind(nn.Module):
    """Gives logits that its inputs have no gradient to."""

    def __init__(self, model, grad=True):
        super().__init__()
        self.model, self.grad = model, grad

    def forward(self, x):
        logits = self.model(x.detach())
        return logits if self.grad else logits.detach()


def nowhere(logits, target):
    return cross_entropy(logits, target).detach()


def test_the_model_is_given_back_as_it_was():
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    model[2].eval()  # a frozen batch-norm
    state = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = random_inputs(0, 8)
    one, two = (attack(model, x, y, epsilon=0.1, steps=5) for _ in range(2))
    assert torch.equal(one.inputs, two.inputs)  # dropout was off
    assert [module.training for module in model] == [True, True, False, True, True]
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_inputs_come_back_on_their_own_device(device):
    model, (x, y) = random_model(6), random_inputs(6, 5)
    expected = attack(model, x, y, epsilon=0.2, on_flip="stop", random_start=True, plateau=Plateau(patience=1))
    model = model.to(device)
    for place in {"cpu", device}:
        there, labels = x.to(place), y.to(place)
        for norm in ("linf", "l2"):
            found = attack(model, there, labels, epsilon=0.2, norm=norm, on_flip="stop", batch_size=3, goal=fooled)
            assert found.inputs.device.type == torch.device(place).type
        again = attack(
            model, there, labels, epsilon=0.2, on_flip="stop", random_start=True, plateau=Plateau(patience=1)
        )
        np.testing.assert_allclose(again.inputs.cpu(), expected.inputs, rtol=0, atol=1e-3)
        assert run_ace_attacks(model, there, labels, epsilon=0.1, steps=3).rows[0].label_changes == 0
        for adversary in Adversary:
            own = {"sigma": 0.3, "epsilon": 0.1, "adversary": adversary, "draws": 3, "steps": 2}
            moved = attack_calibration(model, there, labels, **own).inputs
            assert moved.device.type == torch.device(place).type


def test_numpy_and_lists_come_in_and_other_losses_work():
    model, (x, y) = random_model(6), random_inputs(6, 4)

    def own(logits, target):
        return -logits.gather(1, target[:, None]).squeeze(1)

    found = attack(model, x.double().numpy(), y.tolist(), epsilon=0.1, loss=own)
    assert found.inputs.dtype == torch.float32
    assert isinstance(found.inputs, torch.Tensor)
    assert (found.loss > found.clean_loss).all()
    assert torch.equal(found.inputs, attack(model, x, y, epsilon=0.1, loss=own).inputs)
    assert repr(found).startswith("Attacked(4 inputs, linf ≤ 0.1, mean gain in loss ")


def test_a_loss_that_is_no_number_is_named():
    model, (x, y) = random_model(0), random_inputs(0, 4)

    def broken(logits, target):
        return torch.where(torch.arange(len(logits)) == 2, torch.nan, logits.sum(dim=1))

    with pytest.raises(CertcalError, match="The loss is nan at input 2 itself"):
        attack(model, x, y, epsilon=0.1, loss=broken)


X, Y = random_inputs(0, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": lambda x: x}, "Expected `model` to be a torch.nn.Module, but got function"),
        (
            {"model": nn.Flatten(0)},
            r"Expected `model` to give outputs of shape \(batch, classes\), but got \(144,\)",
        ),
        ({"x": X * 255}, r"Expected `x` to lie in \[0, 1\]"),
        (
            {"x": (X * 255).byte()},
            r"Expected `x` to be float32 or float64 inputs in \[0, 1\], but got dtype torch.uint8",
        ),
        ({"x": X.double()}, "Expected `x` to have the model's dtype, torch.float32, but got torch.float64"),
        ({"x": X.half()}, "but got dtype torch.float16"),
        ({"x": X[:0], "y": Y[:0]}, r"Expected `x` to have shape \(n, …\) with n ≥ 1"),
        ({"x": torch.where(X > 0.9, torch.nan, X)}, "Expected `x` to hold finite numbers"),
        ({"y": Y[:3]}, r"Expected `y` to have as many entries as `x` \(4\), but got 3"),
        ({"y": Y + 2}, "Expected `y` to be class numbers below the model's 3, but got"),
        ({"y": -1 - Y}, "Expected `y` to be class numbers ≥ 0, but got -3"),
        ({"y": Y + 0.5}, "Expected `y` to have one class per input: certcal certifies no regression, but got"),
        ({"epsilon": -0.1}, "Expected `epsilon` to be a finite number ≥ 0, but got -0.1"),
        ({"epsilon": []}, "Expected `epsilon` to hold at least one value, but got none"),
        ({"norm": "patch"}, "Expected `norm` to be one of 'linf', 'l2', 'l1', but got 'patch'"),
        ({"direction": "gradient"}, "Expected `step_size` to be a number > 0 for direction 'gradient', but got None"),
        ({"steps": 0}, "Expected `steps` to be an integer ≥ 1, but got 0"),
        ({"step_size": 0.0}, "Expected `step_size` to be a finite number > 0, but got 0.0"),
        ({"plateau": True}, "Expected `plateau` to be a Plateau or None, but got True"),
        ({"epsilon": torch.tensor([[0.1]])}, r"Expected `epsilon` to be a finite number ≥ 0, but got \[0.1"),
        (
            {"epsilon": "3/255"},
            "Expected `epsilon` to be a finite number ≥ 0, but got the text '3/255', which is no number",
        ),
        ({"loss": "ce"}, "Expected `loss` to be a function of logits and labels, but got 'ce'"),
        (
            {"loss": F.cross_entropy},
            r"Expected `loss` to give one number per input, shape \(4,\), but got shape \(\)",
        ),
        ({"loss": lambda logits, target: 3}, r"Expected `loss` to give one number per input.* but got int"),
        (
            {"loss": nowhere},
            "Expected `loss` to let gradients through, which attacks follow, but got a value without one",
        ),
        (
            {"model": Blind(random_model(0), False)},
            "Expected `model` to let gradients through, which attacks follow, but got",
        ),
        ({"model": Blind(random_model(0))}, "Expected `model` to let gradients through to its inputs, but got none"),
        ({"goal": 3}, "Expected `goal` to be a function of logits and labels, or None, but got 3"),
        (
            {"goal": lambda logits, target: True},
            r"Expected `goal` to give one boolean per input, shape \(4,\), but got bool",
        ),
        ({"goal": lambda logits, target: fooled(logits, target).any()}, "but got torch.bool of shape"),
        ({"momentum": 0.9}, "Expected `settings` to name one of norm, steps, .*, but got 'momentum'"),
    ],
)
def test_bad_input(change, message):
    arguments = {"model": random_model(0), "x": X, "y": Y, "epsilon": 0.1} | change
    model, x, y = (arguments.pop(name) for name in ("model", "x", "y"))
    with pytest.raises(InputError, match=message):
        attack(model, x, y, **arguments)


def test_bad_plateau():
    with pytest.raises(InputError, match="Expected `factor` to lie in the open interval"):
        Plateau(factor=1.0)
    with pytest.raises(InputError, match="Expected `patience` to be an integer ≥ 0, but got -1"):
        Plateau(patience=-1)
