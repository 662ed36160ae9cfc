"""Small real models and data for sampling tests; importable by subprocesses that get killed."""

import sys

import torch
from torch import nn

from certcal.smoothing import collect_evidence


def small_model(seed=0, classes=4):
    """A convolutional classifier with confident and unsure regions."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6 * 16, classes)
    ).eval()


def small_data(inputs=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(inputs, 1, 8, 8, generator=generator)
    return images, torch.arange(inputs) % 4


def halves():
    """Two halves of the small data, whose inputs keep their numbers."""
    images, labels = small_data()
    return [(images[part::2], labels[part::2], range(part, 10, 2)) for part in range(2)]


class Slow(nn.Module):
    """Takes its time, so that there is a middle to be killed in."""

    def __init__(self, model, seconds):
        super().__init__()
        self.model, self.seconds = model, seconds

    def forward(self, x):
        import time

        time.sleep(self.seconds)
        return self.model(x)


class Counting(nn.Module):
    """Does something at a chosen forward pass over 250 draws; the class count, probe and selections have fewer."""

    def __init__(self, model, at, action):
        super().__init__()
        self.model, self.at, self.action, self.calls = model, at, action, 0

    def forward(self, x):
        self.calls += len(x) == 250
        out = self.model(x)
        return self.action(out) if self.calls >= self.at and len(x) == 250 else out


def main(folder, seconds):
    """Sample into a folder, flushing at every chunk, until done or killed."""
    from certcal.smoothing import keeper, sampler

    sampler.COLLECT_SECONDS = keeper.SAVE_SECONDS = 0.0
    collect_evidence(Slow(small_model(), float(seconds)), small_data(), sigma=0.3, n=500, n0=20, chunk=50, store=folder)
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
