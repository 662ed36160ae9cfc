"""Small models to attack: random ones, one trained on digits, and smoothed ones whose truth is known."""

from functools import cache

import numpy as np
import torch
from scipy import special
from torch import nn

from certcal.data import load_dataset
from certcal.models import build_model

SMALL = {"draws": 100, "attack_draws": 8, "steps": 3, "ace_steps": 5, "limit": 20}  # settings of a quick attack
QUICK = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]  # as words


def random_model(seed, *, shape=(1, 6, 6), classes=3, scale=3.0, dtype=torch.float32):
    """A convolutional classifier with curved decision regions; `scale` makes it more or less sure."""
    torch.manual_seed(seed)
    channels, height, width = shape
    model = nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(4 * height * width, classes)
    )
    with torch.no_grad():
        model[-1].weight.mul_(scale)
    return model.to(dtype).eval()


def random_inputs(seed, n, *, shape=(1, 6, 6), classes=3, dtype=torch.float32):
    """Inputs in [0, 1], many of them on its ends, and labels."""
    generator = torch.Generator().manual_seed(seed)
    inputs = (torch.rand(n, *shape, generator=generator) * 1.4 - 0.2).clamp(0, 1).to(dtype)
    return inputs, torch.randint(0, classes, (n,), generator=generator)


@cache
def trained_on_digits(sigma=0.0):
    """A small network trained on scikit-learn's digits, under noise if asked for; about two seconds."""
    torch.manual_seed(0)
    inputs, labels = load_dataset("digits", split="train").tensors()
    model = build_model("small-cnn", classes=10, channels=1, size=8)
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(8):
        for batch in torch.randperm(len(inputs)).split(64):
            noisy = inputs[batch] + sigma * torch.randn_like(inputs[batch])
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(noisy), labels[batch]).backward()
            optimiser.step()
    return model.eval()


def predictions(model, inputs, *, batch=37):
    """Classes and confidences from a forward pass in batches of an odd size."""
    with torch.no_grad():
        logits = torch.cat([model(part) for part in inputs.split(batch)])
    return logits.argmax(dim=1), logits.double().softmax(dim=1).amax(dim=1).numpy()


class Probit(nn.Module):
    """Two classes, P(1 | x) = Φ(a·x + b): smoothed, it is Φ((a·x + b) / √(1 + σ²‖a‖²)), and in a ball of radius R the
    argument's numerator reaches ± R‖a‖ and no further."""

    def __init__(self, weights, offset):
        super().__init__()
        self.register_buffer("weights", torch.as_tensor(weights, dtype=torch.float32))
        self.register_buffer("offset", torch.tensor(float(offset)))

    def forward(self, inputs):
        u = inputs @ self.weights + self.offset
        return torch.stack([torch.special.log_ndtr(-u), torch.special.log_ndtr(u)], dim=1)

    def smoothed(self, inputs, classes, *, sigma, move=0.0):
        """The smoothed probability of a class after moving by `move` in the direction in which it rises."""
        weights, x = self.weights.double().numpy(), inputs.double().numpy()
        sign = np.where(np.asarray(classes) == 1, 1.0, -1.0)
        length = np.linalg.norm(weights)
        return special.ndtr((sign * (x @ weights + self.offset.item()) + move * length) / np.hypot(1.0, sigma * length))


def probit_problem(seed, n, *, features=6, slope=2.0, spread=1.0):
    """A probit model, inputs whose margins vary, and labels that are right about as often as it says."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=features)
    weights *= slope / np.linalg.norm(weights)
    inputs = rng.uniform(0.2, 0.8, size=(n, features))
    inputs += np.outer(rng.normal(scale=spread / slope, size=n), weights / slope)
    inputs = torch.as_tensor(np.clip(inputs, 0.0, 1.0), dtype=torch.float32)
    model = Probit(weights, -0.5 * weights.sum())
    truth = model.smoothed(inputs, np.ones(n, dtype=int), sigma=0.0)
    return model, inputs, torch.as_tensor((rng.random(n) < truth).astype(np.int64))
