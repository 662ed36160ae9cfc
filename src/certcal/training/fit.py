"""`train`: a model, labelled images and a folder, and what comes of them; and what that will take on this machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from certcal.data import ImageData
from certcal.settings import MachineSettings, ObjectiveSettings, TrainSettings, ValidationSettings
from certcal.training.loop import Trainer, TrainResult
from certcal.training.state import read_same_state

PATIENCE = 20.0  # seconds after which no further step is timed


def train(
    model: nn.Module,
    data: ImageData,
    folder: Path,
    *,
    objective: ObjectiveSettings,
    settings: TrainSettings,
    validation: ValidationSettings | None = None,
    machine: MachineSettings | None = None,
    about: dict[str, Any] | None = None,
    begin: Callable[[], Any] | None = None,
    frozen: str = "",
    progress: bool = False,
    tell: Callable[[str], None] = print,
) -> TrainResult:
    """The model trained in place, with weights, checkpoint and log in a folder; called again, it goes on from there.

    On a CPU a run that was killed and resumed gives the same weights bit for bit as one that was not.

    Paper: Sec. 4, App. I.

    Args:
        model: takes inputs in [0, 1] and gives logits.
        data: labelled training images; validation holds part of them out.
        folder: where model.pt, checkpoint.pt, best.pt and log.csv go.
        objective: what is minimised.
        settings: schedules, batches, seed.
        validation: how often certified metrics of held-out images are taken; never by default.
        machine: devices, precision, how often checkpoints are written.
        about: further facts, such as the model's name, that a resumed run must share.
        begin: called once by the first process, when the folder's checkpoint has been checked, before the first step.
        frozen: why the folder's weights must stay as they are; where anything is left to train, that is refused.
        progress: show a bar in a terminal and a line for each epoch.
        tell: takes these lines where there is no terminal, and notices.

    Raises:
        InputError: if the data cannot be learned from, or the folder's checkpoint is of something else.
        TrainingError: if the loss stops being a number; the last good checkpoint is kept.
    """
    trainer = Trainer(model, data, folder, objective, settings, validation, machine, about)
    with trainer.alone():
        return trainer.run(progress=progress, tell=tell, begin=begin, frozen=frozen)


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
    """The cost of a run; changes the trainer's model, but no file.

    Raises: InputError if the folder's checkpoint is of other settings.
    """
    if trainer.checkpoint.is_file():
        read_same_state(trainer.checkpoint, trainer.identity)
    trainer.state.epoch = trainer.settings.epochs - 1
    trainer.model.train()
    taken: list[float] = []
    with trainer.alone():
        for step, inputs, labels in trainer.batches.epoch(trainer.state.epoch):
            start = time.perf_counter()
            trainer.step(step, inputs, labels)  # reads the loss, so it waits for the device
            taken.append(time.perf_counter() - start)
            if len(taken) > steps or sum(taken) > PATIENCE:
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
