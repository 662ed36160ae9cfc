"""Drawing in this process: window by window of inputs, stage by stage."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import nn

from certcal.interrupts import deferred_interrupts
from certcal.models import Conditions, made_up_inputs
from certcal.smoothing.job import WINDOW, Job
from certcal.smoothing.passes import Work
from certcal.smoothing.sampler import Sampler, rows_on_cpu
from certcal.smoothing.sources import Item
from certcal.threads import fastest_threads


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
