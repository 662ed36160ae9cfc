"""Small things to train on: a model with everything that makes resuming hard, and data it learns quickly."""

import numpy as np
import torch
from torch import nn

from certcal.data import from_arrays
from certcal.training import MachineSettings, ObjectiveSettings, TrainSettings, train

NOISE = ObjectiveSettings(name="noise", draws=2)
CPU = MachineSettings(device="cpu")


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
    options = {"objective": NOISE, "settings": settings(), "machine": CPU} | changes
    chosen = stripes() if data is None else data
    result = train(model or make(), chosen, folder, tell=tell, **options)
    return result, weights(folder / "model.pt")


def weights(path):
    return torch.load(path, weights_only=True)["state_dict"]


def same_weights(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
