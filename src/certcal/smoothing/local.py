"""Drawing in this process: window by window of inputs, stage by stage."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import nn

from certcal.interrupts import deferred_interrupts
from certcal.models import Conditions, made_up_inputs
from certcal.smoothing.job import Job
from certcal.smoothing.sampler import Sampler
from certcal.smoothing.sources import Item
from certcal.threads import fastest_threads


def sample_here(model: nn.Module, conditions: Conditions, shape: torch.Size, job: Job) -> None:
    """Draw all that the job asks for with a model that is on its device, for inputs of one shape."""
    place, header = torch.device(conditions.device), job.keeper.header
    sizes = (header.chunk, header.n0)
    rows = max(sizes) if place.type == "cpu" else 4  # a rehearsal on the CPU takes whole batches
    made_up = made_up_inputs(rows, tuple(shape)).to(place)
    sampler = Sampler(model, header, conditions, made_up)
    threads = fastest_threads(lambda: torch.cat([sampler.run(made_up[:draws]) for draws in sizes]))
    rehearse = place.type == "cpu" and not job.over
    with threads if rehearse else nullcontext(), job.meter, deferred_interrupts() as interrupted:
        try:
            for window in job.windows():
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
        work = [
            (slot, chunk)
            for slot, item in enumerate(window)
            if item.index in active
            for chunk in keeper.missing(item.index, target)
        ]
        sampler.draw(work, keep=keeper.keep, drew=job.meter.drew, interrupted=interrupted)
        if target != job.targets[-1]:
            active -= job.stopped(sorted(active))
