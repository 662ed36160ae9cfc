"""A few hundred test images of Fashion-MNIST and a tiny network trained on its training images, in one small file.

python tests/support/fashion_small.py ROOT        # made so, from ROOT/fashion-mnist, in half a minute
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

FILE = Path(__file__).with_name("data") / "fashion_mnist_small.npz"
IMAGES, EPOCHS = 400, 8


def network():
    """Two strided convolutions and a linear layer: 11 386 numbers."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, stride=2), nn.ReLU(), nn.Conv2d(12, 24, 5, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(24 * 4 * 4, 10),
    )  # fmt: skip


def fashion_small():
    """The network, images in [0, 1], shape (400, 1, 28, 28), and labels."""
    with np.load(FILE) as kept:
        model, weights = network(), torch.from_numpy(kept["weights"].astype(np.float32))
        nn.utils.vector_to_parameters(weights, model.parameters())
        images = torch.from_numpy(kept["images"]).float()[:, None] / 255
        return model.eval(), images, torch.from_numpy(kept["labels"].astype(np.int64))


def make(root):
    """Train in the standard way, and keep every 25th test image."""
    from certcal.data import load_dataset

    torch.manual_seed(0)
    x, y = load_dataset("fashion-mnist", split="train", root=root).tensors()
    test, labels = load_dataset("fashion-mnist", split="test", root=root).tensors()
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()
        schedule.step()
    with torch.no_grad():
        print("accuracy", float((model(test).argmax(dim=1) == labels).float().mean()))
    chosen = torch.arange(IMAGES) * (len(test) // IMAGES)
    np.savez_compressed(
        FILE,
        images=(test[chosen, 0] * 255).round().byte().numpy(),
        labels=labels[chosen].byte().numpy(),
        weights=nn.utils.parameters_to_vector(model.parameters()).detach().numpy(),
    )


if __name__ == "__main__":
    make(sys.argv[1])
