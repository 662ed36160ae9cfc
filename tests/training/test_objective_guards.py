"""What surrounds the objectives: randomness, precision, the model left as it was, and what is refused."""

import pytest
import torch
from torch import nn

from attack_models import random_inputs, random_model
from certcal import CertcalError, InputError
from certcal.training import OBJECTIVES, ObjectiveSettings, Step, make_objective
from certcal.training.copies import log_mean
from training_problems import AIMS, N, gradients, known, step_of


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_everything_random_comes_from_the_generator(name):
    model, (inputs, labels) = random_model(14), random_inputs(14, N)
    objective, seen = make_objective(ObjectiveSettings(name=name)), []
    for seed in (3, 3, 4):
        torch.manual_seed(len(seen))
        loss = objective(model, inputs, labels, step_of(seed, epsilon=0.3))
        seen.append((loss.item(), gradients(model, loss)))
    assert seen[0][0] == seen[1][0]
    assert torch.equal(seen[0][1], seen[1][1])
    assert (seen[0][0] == seen[2][0]) == (name == "ce")


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_lower_precision(name):
    model, (inputs, labels) = random_model(15), random_inputs(15, 30)
    objective = make_objective(known(name, reduction="mean", radius=0.3))
    full = objective(model, inputs, labels, step_of(3, epsilon=0.3)).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = objective(model, inputs, labels, step_of(3, epsilon=0.3))
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(full, rel=0.05)
    assert gradients(model, half).isfinite().all()


class Guarded(nn.Module):
    """Batch norm, dropout, a frozen layer, and a fuse that blows in evaluation mode."""

    def __init__(self, *, fuse=False):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
        self.body[1].weight.requires_grad_(False)
        self.body[3].eval()
        self.fuse, self.searched = fuse, 0

    def forward(self, inputs):
        if not self.training:
            self.searched += 1
            if self.fuse:
                raise RuntimeError("blown")
        return self.body(inputs)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("name", [*AIMS, "acce-act*", "pgd"])
def test_search_leaves_the_model_as_it_was(name, fuse):
    torch.manual_seed(0)
    model = Guarded(fuse=fuse).train()
    model.body[3].eval()
    inputs, labels = random_inputs(0, N)
    objective = make_objective(ObjectiveSettings(name=name, steps=3))
    if fuse:
        with pytest.raises(RuntimeError, match="blown"):
            objective(model, inputs, labels, step_of(0, epsilon=0.2))
    else:
        objective(model, inputs, labels, step_of(0, epsilon=0.2))
        assert model.searched == 3
    assert [module.training for module in model.body] == [True, True, True, False, True]
    assert [weight.requires_grad for weight in model.parameters()] == [False] + [True] * 5
    assert all(weight.grad is None for weight in model.parameters())
    assert int(model.body[2].num_batches_tracked) == (0 if fuse else 1)  # the pass of the weights


@pytest.mark.parametrize("name", OBJECTIVES)
def test_diverged_models_are_told_in_one_line(name):
    model, (inputs, labels) = random_model(16), random_inputs(16, N)
    with torch.no_grad():
        model[-1].weight.fill_(torch.nan)
    with pytest.raises(CertcalError, match=r"is nan: training has diverged; try a smaller learning rate\.$") as caught:
        make_objective(ObjectiveSettings(name=name))(model, inputs, labels, step_of(0, epsilon=0.2))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "act"}, r"`objective` to be one of 'ce', 'noise'.*but got 'act'"),
        ({"draws": 0}, r"`draws` to be an integer ≥ 1, but got 0"),
        ({"name": "pgd", "steps": 2.0}, r"`steps` to be an integer ≥ 1, but got 2.0"),
        ({"name": "pgd", "step_factor": 0}, r"`step_factor` to lie in \(0, 1e4\], but got 0"),
        ({"update": "both"}, r"`update` to be one of 'each', 'smoothed', but got 'both'"),
        ({"name": "brier-act", "gradient": "stein", "draws": 1}, r"`gradient` to be 'backprop' with a single draw"),
        ({"name": "pgd", "gradient": "stein"}, r"`gradient` to be left out for the objective 'pgd', as it belongs to"),
        ({"eta": 0.5}, r"`eta` to be left out for the objective 'noise', as it belongs to acce-act\*, but got 0.5"),
        ({"etta": 0.5}, r"`etta` to be left out for the objective 'noise', but got 0.5"),
        ({"name": "acce-act*", "eta": 1.5}, r"`eta` to lie in \[0, 1\], but got 1.5"),
        ({"name": "cce-act", "alpha": 1.0}, r"`alpha` to lie in the open interval"),
        ({"name": "certified-log", "radius": -1.0}, r"`radius` to be a finite number ≥ 0, but got -1.0"),
        ({"name": "certified-log", "weight": float("nan")}, r"`weight` to be a finite number ≥ 0, but got nan"),
        ({"name": "certified-cce", "n_bins": 0}, r"`n_bins` to be an integer ≥ 1, but got 0"),
        ({"name": "acce-act", "rho_growth": -0.1}, r"`rho_growth` to lie in"),
        ({"name": "pgd", "box": 1}, r"`box` to be True or False, but got 1"),
        ({"name": "certified-log", "population": "some"}, r"`population` to be one of"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        make_objective(ObjectiveSettings(**{"name": "noise"} | options))


@pytest.mark.parametrize("values", [{"sigma": -0.1, "epsilon": 0.0}, {"sigma": 0.1, "epsilon": float("nan")}])
def test_wrong_steps_are_refused(values):
    with pytest.raises(InputError, match=r"`(sigma|epsilon)` to be a finite number ≥ 0"):
        Step(**values, generator=torch.Generator())


@pytest.mark.parametrize("gradient", ["backprop", "stein"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_runs_without_noise_and_on_the_device(name, gradient, device):
    model, (inputs, labels) = random_model(17).to(device), random_inputs(17, N)
    chosen = known(name, gradient=gradient, radius=0.2)
    for sigma in (0.0, 0.3):
        step = step_of(0, epsilon=0.3, sigma=sigma, device=device)
        loss = make_objective(chosen)(model, inputs.to(device), labels.to(device), step)
        assert loss.device.type == torch.device(device).type
        assert gradients(model, loss).isfinite().all()


def test_half_precision_inputs_are_refused():
    model, (inputs, labels) = random_model(0), random_inputs(0, N)
    for name in ("noise", "pgd"):
        with pytest.raises(InputError, match=r"`inputs` to be float32 or float64, but got torch\.bfloat16"):
            make_objective(ObjectiveSettings(name=name))(model, inputs.bfloat16(), labels, step_of(0, epsilon=0.1))


def test_log_mean_keeps_digits_where_probabilities_underflow():
    logits = torch.tensor([[200.0, 0.0], [199.0, 0.0]])
    assert log_mean(logits, 2)[0, 1].item() == pytest.approx(-199.379886, rel=1e-6)
