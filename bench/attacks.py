"""Attacking inputs together beside attacking them one at a time."""

import time
from collections.abc import Iterator

import torch
from torch import nn

from bench.harness import Figure, in_ms, medians
from certcal.attacks import ace_attack, attack
from certcal.models import build_model

EPSILON, INPUTS, SAMPLE = 8 / 255, 1000, 10


def figures() -> Iterator[Figure]:
    yield from batching()
    yield from stopping()


def batching() -> Iterator[Figure]:
    """(−1, y)-ACE on 1000 inputs of CIFAR's size, 100 steps; one at a time on a sample of them, scaled up."""
    ratios = {name: together_over_alone(model) for name, model in (("tiny", tiny_cnn()), ("small", small_cnn()))}
    seconds = ratios["tiny"]
    note = (
        f"together {seconds[0]:.2f} s; alone {seconds[1]:.0f} s, scaled from {SAMPLE} inputs; "
        f"{torch.get_num_threads()} threads; {ratios['small'][1] / ratios['small'][0]:.1f} × for a CNN with thirty "
        "times the arithmetic, which then is what takes the time"
    )
    name = "ACE on 1000 inputs of 3×32×32, one at a time over batched"
    yield Figure(name, seconds[1] / seconds[0], "×", 20, at_least=True, note=note)


def stopping() -> Iterator[Figure]:
    """An attack that half of the inputs leave at once costs little more than half."""
    model, x, _ = problem(small_cnn())
    x, y = x[:256], torch.arange(256) % 2

    def goal(logits, target):
        return target == 0

    calls = {
        "whole": lambda: attack(model, x, y, epsilon=EPSILON, steps=20),
        "leaving": lambda: attack(model, x, y, epsilon=EPSILON, steps=20, goal=goal),
    }
    times = medians(calls, repeats=5)
    name = "attack that half of the inputs leave after one step, over the whole"
    yield Figure(name, times["leaving"] / times["whole"], "×", 0.7, note=in_ms(times))


def together_over_alone(network: nn.Module) -> tuple[float, float]:
    """Seconds for all inputs in batches, and for all of them one at a time."""
    model, x, y = problem(network)
    options = {"eta": -1, "omega": "y", "epsilon": [EPSILON]}
    ace_attack(model, x[:8], y[:8], **options)
    alone = timed(lambda: [ace_attack(model, x[i : i + 1], y[i : i + 1], **options) for i in range(SAMPLE)])
    together = timed(lambda: ace_attack(model, x, y, **options))
    again = timed(lambda: [ace_attack(model, x[i : i + 1], y[i : i + 1], **options) for i in range(SAMPLE)])
    return together, min(alone, again) * INPUTS / SAMPLE


def problem(network: nn.Module) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A model, random images, and the labels it gives them."""
    x = torch.rand(INPUTS, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return network, x, network(x).argmax(dim=1)


def tiny_cnn() -> nn.Module:
    """Two convolutions on the image at a quarter of its size, and a linear layer; 56 000 multiplications per image."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.AvgPool2d(4),
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    ).eval()


def small_cnn() -> nn.Module:
    torch.manual_seed(0)
    return build_model("small-cnn", classes=10, channels=3, size=32).eval()


def timed(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
