"""The training loop: steps, epochs, validation and checkpoints, resumed exactly where it was killed."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from certcal.data import ImageData, data_fingerprint
from certcal.errors import InputError, TrainingError, several
from certcal.files import csv_of, hold_folder, remove_litter, replacing
from certcal.interrupts import deferred_interrupts
from certcal.models import (
    autocast,
    checkpoint_digest,
    on_device,
    place_generator,
    place_seed,
    save_checkpoint,
    state_digest,
)
from certcal.progress import Progress
from certcal.settings import MachineSettings, ObjectiveSettings, TrainSettings, ValidationSettings
from certcal.threads import threads_worth
from certcal.training import schedules
from certcal.training.batches import Batches, Share, check_data, check_fit
from certcal.training.captured import Descent, Reading, no_number
from certcal.training.fabric import averaged, launch_fabric, same_everywhere
from certcal.training.journal import TensorBoard, epoch_line
from certcal.training.objectives import check_budget, make_objective
from certcal.training.state import TrainState, flat_settings, load_state, save_state
from certcal.training.step import MODEL, NOISE, VALIDATION, Step
from certcal.training.validation import hold_out, mean_accuracy, validate

CHECKPOINT, BEST, FINAL, LOG = "checkpoint.pt", "best.pt", "model.pt", "log.csv"
ASK_EVERY = 50  # steps
Tell = Callable[[str], None]


@dataclass(frozen=True)
class TrainResult:
    """What training came to."""

    weights: Path  # final weights, as `certcal certify --weights` takes them
    history: list[dict[str, float]]  # a row for each epoch
    resumed_at: int | None  # epoch, if a checkpoint was found
    first: bool  # whether this process is the one that writes and speaks
    trained: bool = True  # whether there was anything left to do


class Trainer:
    """A model, its optimiser, and how far they are."""

    def __init__(
        self,
        model: nn.Module,
        data: ImageData,
        folder: Path,
        objective: ObjectiveSettings,
        settings: TrainSettings,
        validation: ValidationSettings | None = None,
        machine: MachineSettings | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.validation, self.machine = validation or ValidationSettings(), machine or MachineSettings()
        self.objective, self.settings = make_objective(objective), settings
        self.folder, self.checkpoint = folder, folder / CHECKPOINT  # the last good state
        if self.validation.every and not settings.sigma:
            raise InputError.expected("sigma", "be a number > 0 where certified metrics are validated", settings.sigma)
        check_budget(objective, settings.epsilon)
        check_data(data)
        self.fabric = launch_fabric(self.machine)
        device = self.fabric.device
        self.model = on_device(model, device, tuple(data.pixels[0].shape))
        check_fit(self.model, data, device)
        self.data, self.held_out = hold_out(data, self.validation, seed=settings.seed)
        share = Share(self.fabric.global_rank, self.fabric.world_size)
        self.batches = Batches(self.data, settings, device=device, share=share, workers=self.machine.workers)
        self.optimiser = torch.optim.SGD(
            self.model.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            fused=device.type == "cuda",
        )
        network: Any = torch.compile(self.model, dynamic=False) if self.machine.compile else self.model
        self.descend = Descent(self.objective, network, partial(autocast, self.machine.precision, device))
        self.state = TrainState(processes=share.processes)
        self.identity = flat_settings(
            {"objective": asdict(objective), "train": asdict(settings), "validation": asdict(self.validation)}
            # "engine", as the checkpoints of earlier versions call it.
            | {"engine": {"precision": self.machine.precision}, "data": {"content": data_fingerprint(data)}}
        ) | flat_settings(about or {})
        self._saved, self._loss = time.monotonic(), math.nan
        self._unsettled: tuple[int, Reading] | None = None  # a step whose loss is still on the device

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within this context torch's own generator is ours to seed, and small work stays on one thread."""
        device, numbers = self.fabric.device, self.settings.batch_size * self.data.pixels[0].numel()
        generators = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=generators), threads_worth(numbers, device):
            yield

    def run(
        self, *, progress: bool, tell: Tell, begin: Callable[[], Any] | None = None, frozen: str = ""
    ) -> TrainResult:
        """Train to the last epoch."""
        first = bool(self.fabric.is_global_zero)
        self.folder.mkdir(parents=True, exist_ok=True)
        hold = hold_folder(self.folder, "run", "is training in", file=".training", seconds=0)
        with hold if first else nullcontext():
            if first:
                remove_litter(self.folder)
            resumed = self.resume(tell if first else lambda text: None)
            left = self.state.epoch < self.settings.epochs
            if frozen and left:
                raise InputError.expected("run", "be another folder to train on", f"{self.folder}: {frozen}")
            if first and begin is not None:
                begin()
            self._run(first, progress, tell)
        return TrainResult(self.folder / FINAL, self.state.history, resumed, first, left)

    def _run(self, first: bool, progress: bool, tell: Tell) -> None:
        board = TensorBoard(self.folder / "tensorboard") if self.machine.tensorboard and first else None
        epochs, steps, shown = self.settings.epochs, self.batches.steps, progress and first
        meter = Progress(epochs, steps, show=shown, doing="training", unit="steps", transient=True)
        meter.advance(self.state.epoch * steps + self.state.step)
        with meter, deferred_interrupts() as interrupted:
            while self.state.epoch < epochs:
                self.epoch(meter, interrupted)
                row = self.finish_epoch()
                if shown:
                    meter.say(epoch_line(row, epochs), tell)
                if board is not None:
                    board.add(row)
        if first and not self._is_written():
            save_checkpoint(self.model, self.folder / FINAL)
        self.fabric.barrier()

    def _is_written(self) -> bool:
        """Whether the final weights are those in their file already, which then is not touched."""
        try:
            return checkpoint_digest(self.folder / FINAL) == state_digest(self.model)
        except InputError:  # there is none, or it is damaged
            return False

    def resume(self, tell: Tell) -> int | None:
        """Take up the folder's checkpoint; the epoch it is in, or None if there is none."""
        found, processes = self.checkpoint.is_file(), self.state.processes
        if found and self.fabric.is_global_zero:
            self.state = load_state(self.checkpoint, self.model, self.optimiser, self.identity, self.fabric.device)
        # The first process speaks for all: the others may be on machines that do not see its files.
        self.state, found = same_everywhere(self.fabric, self.model, self.optimiser, (self.state, found))
        if not found:
            return None
        left = "" if self.state.epoch < self.settings.epochs else "; nothing is left to do"
        done = f"{several(self.state.epoch, 'epoch')} and {several(self.state.step, 'step')} are done"
        tell(f"going on from {self.checkpoint}: {done}{left}")
        if self.state.processes != processes:
            made = several(self.state.processes, "process", "processes")
            tell(f"it was made by {made} and goes on with {processes}: other noise from here")
            self.state.processes = processes
        return self.state.epoch

    def epoch(self, meter: Progress, interrupted: Callable[[], bool]) -> None:
        """What is left of the epoch in progress."""
        state, settings = self.state, self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = schedules.learning_rate(settings, state.epoch)
        self.model.train()
        start = time.monotonic() - state.seconds
        for step, inputs, labels in self.batches.epoch(state.epoch, start=state.step):
            loss = self.step(step, inputs, labels)
            state.step, state.seconds = step + 1, time.monotonic() - start
            meter.drew(1, f"epoch {state.epoch + 1}/{settings.epochs}, loss {loss:.4g}, ")
            if interrupted():
                if self.fabric.world_size == 1:  # several would have to agree on the step
                    self.save()
                raise KeyboardInterrupt
            if self._due() and state.step < self.batches.steps:
                self.save()
        self.settle()
        state.seconds = time.monotonic() - start

    def step(self, step: int, inputs: Tensor, labels: Tensor) -> float:
        """One step down the objective; the mean loss over all processes, on a GPU that of the step before."""
        settings, epoch, rank = self.settings, self.state.epoch, self.fabric.global_rank
        torch.manual_seed(place_seed(settings.seed, MODEL, epoch, step, rank))  # for what the model draws itself
        place = Step(
            sigma=schedules.sigma(settings, epoch),
            epsilon=schedules.epsilon(settings, epoch),
            generator=place_generator(settings.seed, NOISE, epoch, step, rank, device=inputs.device),
        )
        try:
            loss = self.descend(inputs, labels, place)
        except TrainingError as error:
            if self.fabric.world_size == 1:
                raise self._diverged(step, str(error).partition(":")[0]) from error
            loss = no_number(self.model, self.fabric.device)  # which the mean over processes is then for all of them
        mean = averaged(self.fabric, self.model, loss)
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        found = torch.stack([mean.float(), torch.nn.utils.get_total_norm(gradients).float()])
        self.settle()
        self._unsettled = step, Reading(found)
        if found.is_cuda:
            # Nobody waits for the numbers: a fused optimiser itself leaves the weights where they are none.
            self.optimiser.found_inf = (~found.isfinite().all()).float()  # type: ignore[attr-defined]
        else:
            self.settle()
        self.optimiser.step()
        return self._loss

    def settle(self) -> None:
        """Take in the loss of the last step, and stop if it or a gradient is no number."""
        if self._unsettled is None:
            return
        (step, reading), self._unsettled = self._unsettled, None
        self._loss, norm = reading.numbers()
        if not (math.isfinite(self._loss) and math.isfinite(norm)):
            raise self._diverged(step, f"loss {self._loss:g}, gradient norm {norm:g}")
        self.state.loss_sum += self._loss

    def finish_epoch(self) -> dict[str, float]:
        """Validate, write log and checkpoint, and move to the next epoch; the row of the epoch."""
        state, settings, every = self.state, self.settings, self.validation.every
        row = {
            "epoch": state.epoch + 1,
            "loss": state.loss_sum / self.batches.steps,
            "learning_rate": schedules.learning_rate(settings, state.epoch),
            "sigma": schedules.sigma(settings, state.epoch),
            "epsilon": schedules.epsilon(settings, state.epoch),
            "seconds": round(state.seconds, 3),
        }
        last = state.epoch + 1 == settings.epochs
        if self.held_out is not None and ((state.epoch + 1) % every == 0 or last) and self.fabric.is_global_zero:
            # Noise of its own: what is chosen by these draws may be certified with the same seed.
            seed = place_seed(settings.seed, VALIDATION)
            found = validate(
                self.model, self.held_out, self.validation, sigma=settings.sigma, seed=seed, device=self.fabric.device
            )
            if mean_accuracy(found) >= state.best.get("certified_accuracy", 0.0):
                state.best = {"epoch": state.epoch + 1, "certified_accuracy": mean_accuracy(found)}
                save_checkpoint(self.model, self.folder / BEST)
            row |= found
        state.history.append(row)
        state.next_epoch()
        self.save()
        return row

    def save(self) -> None:
        """Write the checkpoint and the log, if the weights are numbers."""
        self.settle()
        weights = [parameter.detach() for parameter in self.model.parameters()]
        if not math.isfinite(float(torch.nn.utils.get_total_norm(weights))):
            raise self._diverged(self.state.step, "a weight is no number")
        if self.fabric.is_global_zero:
            save_state(self.checkpoint, self.state, self.model, self.optimiser, self.identity)
            with replacing(self.folder / LOG) as part:  # whole, so that it never disagrees with the checkpoint
                part.write_text(csv_of(self.state.history), encoding="utf-8")
        self.fabric.barrier()
        self._saved = time.monotonic()

    def _due(self) -> bool:
        """Whether it is time for a checkpoint. Of several processes the first one's clock counts, now and then."""
        steps = self.machine.checkpoint_steps
        if steps is not None and self.state.step % steps == 0:
            return True
        late = time.monotonic() - self._saved > 60 * self.machine.checkpoint_minutes
        if self.fabric.world_size == 1:
            return late
        return self.state.step % ASK_EVERY == 0 and bool(self.fabric.broadcast(late, src=0))

    def _diverged(self, step: int, found: str) -> TrainingError:
        kept = "there is none yet"
        with suppress(OSError):
            kept = f"{self.checkpoint} is kept" if self.checkpoint.is_file() else kept
        return TrainingError(
            f"Training diverged at epoch {self.state.epoch + 1}, step {step + 1} of {self.batches.steps}: {found}. "
            f"Last good checkpoint: {kept}. Try a smaller learning_rate, or warm σ and ε up over more epochs."
        )
