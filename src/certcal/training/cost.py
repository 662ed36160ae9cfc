"""What training will take on this machine, from a few steps of it."""

import time
from dataclasses import dataclass
from typing import Any

import torch

from certcal.training.loop import Trainer


@dataclass(frozen=True)
class TrainCost:
    """An estimate."""

    device: str
    parameters: int
    inputs: int  # trained on
    steps: int  # of an epoch
    epochs: int
    seconds_per_step: float  # in the last epoch, with σ and ε at their full size

    @property
    def seconds(self) -> float:
        """Of all steps, without validation."""
        return self.steps * self.epochs * self.seconds_per_step


def estimate_cost(trainer: Trainer, *, steps: int = 3) -> TrainCost:
    """The cost of a run; changes the trainer's model, but no file."""
    trainer.state.epoch = trainer.settings.epochs - 1
    trainer.model.train()
    taken: list[float] = []
    with trainer.alone():
        for step, inputs, labels in trainer.batches.epoch(trainer.state.epoch):
            start = time.perf_counter()
            trainer.step(step, inputs, labels)  # reads the loss, so it waits for the device
            taken.append(time.perf_counter() - start)
            if len(taken) > steps:
                break
    timed = sorted(taken[1:] or taken)  # the first one warms up
    device: Any = trainer.fabric.device
    return TrainCost(
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        parameters=sum(parameter.numel() for parameter in trainer.model.parameters()),
        inputs=len(trainer.data),
        steps=trainer.batches.steps,
        epochs=trainer.settings.epochs,
        seconds_per_step=timed[len(timed) // 2],
    )
