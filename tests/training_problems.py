"""Small batches to train on, and what their adversaries find."""

import torch

from attack_models import random_inputs, random_model
from certcal.training import OBJECTIVES, ObjectiveSettings, Step
from certcal.training.acce import Acce
from certcal.training.aims import Brier, Cce, SmoothAdv
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


def setting(seed=0, *, epsilon=0.5, n=N, dtype=torch.float64, scale=3.0, **options):
    """A model, a batch, its copies with their noise, a step and settings."""
    model = random_model(seed, dtype=dtype, scale=scale)
    inputs, labels = random_inputs(seed, n, dtype=dtype)
    chosen = ObjectiveSettings(**{"name": "smoothadv", "draws": 3, "steps": 3} | options)
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
"""Small things to train on: a model with everything that makes resuming hard, and data it learns quickly."""

import numpy as np
import torch
from torch import nn

from certcal.data import from_arrays
from certcal.training import EngineSettings, ObjectiveSettings, TrainSettings, train

NOISE = ObjectiveSettings(name="noise", draws=2)
CPU = EngineSettings(device="cpu")


def stripes(n=64, size=6, classes=3, seed=0):
    """Images with a bright row that tells the class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    images = rng.random((n, 1, size, size)) * 0.5
    images[np.arange(n), 0, labels] += 0.5
    return from_arrays(images.astype(np.float32), labels, name="stripes")


def make(classes=3, channels=1, size=6):
    """Batch-norm has running statistics, dropout draws random numbers."""
    torch.manual_seed(0)
    hidden = nn.Linear(channels * size * size, 16)
    return nn.Sequential(nn.Flatten(), hidden, nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, classes))


def plain(classes=3, channels=1, size=6):
    """A network that treats every image by itself."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, 16), nn.ReLU(), nn.Linear(16, classes))


def settings(**changes):
    return TrainSettings(
        **({"sigma": 0.25, "epochs": 4, "batch_size": 16, "decay_every": 2, "augment": "flip"} | changes)
    )


def trained(folder, *, model=None, data=None, tell=lambda text: None, **changes):
    """The result of training, and the weights in the folder."""
    options = {"objective": NOISE, "settings": settings(), "engine": CPU} | changes
    chosen = stripes() if data is None else data
    result = train(model or make(), chosen, folder, tell=tell, **options)
    return result, weights(folder / "model.pt")


def weights(path):
    return torch.load(path, weights_only=True)["state_dict"]


def same_weights(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
