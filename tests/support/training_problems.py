"""Small batches to train on, and what their adversaries find."""

import torch

from attack_models import random_inputs, random_model
from certcal.settings import options_of
from certcal.training import OBJECTIVES, ObjectiveSettings, Step
from certcal.training.aims import Acce, Brier, Cce, SmoothAdv
from certcal.training.copies import Copies
from certcal.training.search import search

SIGMA, N = 0.3, 10
SMOOTHED = [name for name in OBJECTIVES if name not in ("ce", "pgd")]
AIMS = ("smoothadv", "brier-act", "acce-act", "cce-act")


def step_of(seed, *, epsilon, sigma=SIGMA, device="cpu"):
    return Step(sigma=sigma, epsilon=epsilon, generator=torch.Generator(device).manual_seed(seed))


def make_aim(name, labels, step, options):
    plain = {"smoothadv": lambda: SmoothAdv(labels), "brier-act": lambda: Brier(labels)}
    return plain[name]() if name in plain else {"acce-act": Acce, "cce-act": Cce}[name](labels, step, options)


def known(name, **options):
    """The settings of an objective, with those of the options that it has."""
    return ObjectiveSettings(name=name, **{key: value for key, value in options.items() if key in options_of(name)})


def setting(seed=0, *, epsilon=0.5, n=N, dtype=torch.float64, scale=3.0, **options):
    """A model, a batch, its copies with their noise, a step and settings."""
    model = random_model(seed, dtype=dtype, scale=scale)
    inputs, labels = random_inputs(seed, n, dtype=dtype)
    chosen = known(**{"name": "smoothadv", "draws": 3, "steps": 3} | options)
    step = step_of(seed, epsilon=epsilon)
    copies = Copies.drawn(model, inputs, step_of(seed, epsilon=epsilon), chosen.draws)
    return model, inputs, labels, copies, step, chosen


def attacked(seed=0, **options):
    _, inputs, labels, copies, step, chosen = setting(seed, **options)
    aim = make_aim(chosen.name, labels, step, chosen)
    return search(copies, inputs, aim, step.epsilon, chosen), aim


def gradients(model, loss):
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def noise_of(copies, n=N):
    return copies.noise.reshape(n, copies.draws, *copies.noise.shape[1:])
