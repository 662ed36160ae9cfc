"""What attacks cost: forward passes, foreseen, timed and counted as they are made."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from certcal.attacks import BACKWARD, attack_passes
from certcal.progress import Progress

COPIES = 256  # of inputs, in a pass that is timed


def sandwich_passes(
    certified: Sequence[int], adversaries: Sequence[str], *, inputs: int, draws: int, attack_draws: int, steps: int
) -> int:
    """The most forward passes of a sandwich; `certified` are the inputs certified at each radius."""
    each = sum(attack_passes(name, draws=attack_draws, steps=steps) + draws for name in adversaries)
    asked = 1 + 2 * len(certified) * len(adversaries)  # one input each, to count the classes
    return inputs * draws + sum(certified) * each + asked


def ace_passes(inputs: int, *, budgets: int, steps: int, galil: bool) -> int:
    """The most forward passes of the four (η, ω)-ACE attacks within each budget."""
    each = 4 * (BACKWARD * steps + 2) + (BACKWARD + 17 if galil else 0)
    asked = 5 + budgets  # one input each, to count the classes
    return inputs * (1 + (5 if galil else 4) + budgets * each) + asked


def seconds_per_pass(model: nn.Module, inputs: Tensor, device: Any) -> float:
    """How long one input takes in a forward pass, timed on a batch of copies."""
    copies = inputs[torch.arange(COPIES) % len(inputs)].to(device)

    def once() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            float(model(copies).sum())  # waits for the device
        return (time.perf_counter() - start) / COPIES

    once()
    return min(once(), once())


@contextmanager
def counted(model: nn.Module, passes: int, *, show: bool | None) -> Iterator[None]:
    """Within this context the passes that the model makes move a bar towards those foreseen."""
    with Progress(1, passes, show=show, doing="attacking", unit="passes") as progress:

        def count(_: nn.Module, given: tuple[Any, ...], __: Any) -> None:
            progress.drew(len(given[0]) * (BACKWARD if torch.is_grad_enabled() else 1))

        hook = model.register_forward_hook(count)
        try:
            yield
        finally:
            hook.remove()
