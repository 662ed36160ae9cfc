"""What is to be drawn: inputs, how far for each, and what has been kept of it; and drawing it in this process."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn

from certcal.interrupts import deferred_interrupts
from certcal.models import Conditions, made_up_inputs
from certcal.progress import Progress
from certcal.smoothing.evidence import Evidence
from certcal.smoothing.keeper import Keeper
from certcal.smoothing.passes import Work
from certcal.smoothing.sampler import Sampler, rows_on_cpu
from certcal.smoothing.sources import Item, Source
from certcal.threads import fastest_threads
from certcal.types import BoolArray

StoppingRule = Callable[[Evidence], BoolArray]

WINDOW = 32  # inputs whose statistics are on the device together; a GPU has room for more


@dataclass(frozen=True, eq=False)
class Job:
    """Draws of some inputs, stage by stage, until each has enough."""

    source: Source
    keeper: Keeper
    targets: list[int]  # chunks after which each stage ends
    stop: StoppingRule | None  # says after a stage which inputs need no more
    meter: Progress

    @property
    def over(self) -> bool:
        """Whether no input needs more draws."""
        return len(self.finished(self.source.indices)) == len(self.source)

    @property
    def left(self) -> int:
        """How many draws are missing, if no input stops early."""
        chunks = sum(self.targets[-1] - self.keeper.drawn(index) for index in self.source.indices)
        return max(0, chunks) * self.keeper.header.chunk

    def finished(self, indices: list[int]) -> set[int]:
        """Which inputs need no more draws: all were drawn, or the rule said so at the end of a stage."""
        over = {index for index in indices if not self.keeper.missing(index, self.targets[-1])}
        looked = [index for index in indices if index not in over and self._through(index)]
        if self.stop is not None and looked:
            evidence = self.keeper.evidence(looked)
            over |= set(evidence.index[self.stop(evidence)].tolist())
        return over

    def _through(self, index: int) -> bool:
        """Whether an input stands at the end of a stage before the last: with its first draws, and none left out."""
        drawn = self.keeper.drawn(index)
        return drawn in self.targets[:-1] and not self.keeper.missing(index, drawn)

    def stopped(self, indices: list[int]) -> set[int]:
        """The same for inputs that are through with a stage before the last; what they save is shown."""
        over = self.finished(indices)
        for index in over:
            self.meter.stopped(self.keeper.drawn(index) * self.keeper.header.chunk)
        return over

    def windows(self, size: int = WINDOW) -> Iterator[list[Item]]:
        """Groups of so many inputs that still need draws."""
        over = self.finished(self.source.indices)
        for index in self.source.indices:
            self.meter.known(self.keeper.drawn(index) * self.keeper.header.chunk, finished=index in over)
        items = self.source.items(over)
        while window := list(islice(items, size)):
            yield window


def sample_here(model: nn.Module, conditions: Conditions, shape: torch.Size, job: Job) -> None:
    """Draw all that the job asks for with a model that is on its device, for inputs of one shape."""
    if job.over:
        return
    place, header = torch.device(conditions.device), job.keeper.header
    on_cpu, elements = place.type == "cpu", shape.numel()
    rows = rows_on_cpu(elements)
    made_up = made_up_inputs(rows if on_cpu else 4, tuple(shape)).to(place)
    sampler = Sampler(model, header, conditions, made_up, draws=job.left)
    sizes = (rows, min(rows, header.n0))  # a rehearsal on the CPU takes whole batches
    threads = fastest_threads(lambda: torch.cat([sampler.run(made_up[:size]) for size in sizes]))
    # On a GPU a window has enough draws for many passes, so that a last one which is not full costs little.
    window_size = WINDOW if on_cpu else max(WINDOW, min(1024, 2**28 // elements))
    with threads if on_cpu else nullcontext(), job.meter, deferred_interrupts() as interrupted:
        try:
            for window in job.windows(window_size):
                _sample_window(window, sampler, job, interrupted)
        finally:
            job.keeper.save()


def _sample_window(window: list[Item], sampler: Sampler, job: Job, interrupted: Callable[[], bool]) -> None:
    keeper = job.keeper
    for item in window:
        keeper.check(item)
    sampler.open_window(window, keeper.selected)
    active = {item.index for item in window}
    for target in job.targets:
        while spans := [
            (slot, *gaps[0])  # those after the first follow in the next round
            for slot, item in enumerate(window)
            if item.index in active and (gaps := keeper.missing(item.index, target))
        ]:
            work = Work.of(spans, keeper.header.chunk)
            sampler.draw(work, keep=keeper.keep, drew=job.meter.drew, interrupted=interrupted)
        if target != job.targets[-1]:
            active -= job.stopped(sorted(active))
