"""Training steps captured as CUDA graphs: the same losses, gradients and running statistics as plain steps."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from certcal.training import ObjectiveSettings, Step, make_objective
from certcal.training.captured import Descent
from certcal.training.objectives import OBJECTIVES
from training_samples import make, plain

SETTINGS = {
    name: ObjectiveSettings(name=name, **({"reduction": "mean"} if name == "acce-act*" else {})) for name in OBJECTIVES
} | {
    f"{name}, of certified inputs": ObjectiveSettings(name=name, population="certified", radius=0.1)
    for name in ("certified-brier", "certified-log", "certified-cce")
}


def batch(device, seed):
    numbers = torch.Generator().manual_seed(seed)
    return torch.rand(16, 1, 6, 6, generator=numbers).to(device), torch.randint(0, 3, (16,), generator=numbers).to(
        device
    )


def taken(descend, model, device, steps=5, sigma=0.25):
    """Losses and weights of a few steps, with a schedule that changes σ on the way."""
    optimiser, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    for step in range(steps):
        torch.manual_seed(step)
        place = Step(sigma if step < 3 else sigma / 2, 0.5, torch.Generator(device).manual_seed(100 + step))
        losses.append(float(descend(*batch(device, step), place)))
        optimiser.step()
    return losses, [tensor.detach().cpu() for tensor in model.state_dict().values()]


def plainly(objective, model):
    def descend(inputs, labels, step):
        model.zero_grad()
        loss = objective(model, inputs, labels, step)
        loss.backward()
        return loss.detach()

    return descend


@pytest.mark.parametrize("factory", [make, plain])
@pytest.mark.parametrize("name", SETTINGS)
def test_steps_are_those_taken_plainly(name, factory, device):
    """With batch-norm and dropout too: warm-up passes leave no trace, and every step draws its own numbers."""
    objective = make_objective(SETTINGS[name])
    models = [factory().to(device).train() for _ in range(2)]
    descend = Descent(objective, models[0], nullcontext)
    (losses, weights), (expected, reference) = (
        taken(descend, models[0], device),
        taken(plainly(objective, models[1]), models[1], device),
    )
    assert losses == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(weights, reference, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.parametrize("name", SETTINGS)
def test_every_objective_is_captured(name, device):
    """Those that work on the CPU in between as well: there the graph is cut."""
    model = plain().to(device).train()
    descend = Descent(make_objective(SETTINGS[name]), model, nullcontext)
    taken(descend, model, device)
    assert descend._captured is not None


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of torch's own, while it compiles
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")
def test_a_compiled_model_is_captured_too(device):
    models = [plain().to(device).train() for _ in range(2)]
    objective = make_objective(SETTINGS["smoothadv"])
    descend = Descent(objective, torch.compile(models[0], dynamic=False), nullcontext)
    losses, _ = taken(descend, models[0], device)
    expected, _ = taken(plainly(objective, models[1]), models[1], device)
    assert descend._captured is not None
    assert losses == pytest.approx(expected, rel=1e-3)


@pytest.mark.cuda
def test_a_model_that_asks_the_device_is_left_as_it_is(device):
    class Asking(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = plain()

        def forward(self, inputs):
            logits = self.inner(inputs)
            return logits * (2.0 if float(logits.detach().sum()) > 0 else 1.0)

    model = Asking().to(device).train()
    descend = Descent(make_objective(SETTINGS["noise"]), model, nullcontext)
    losses, _ = taken(descend, model, device)
    assert descend._captured is None
    assert all(loss == loss for loss in losses)
