"""Trials side by side on one machine, each in a process of its own, with memory watched."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

from certcal.studies.trials import Came, Failure, Trial, attempt

OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")


def beside(
    stages: Sequence[tuple[Trial, Sequence[Trial]]], at_once: int, until: float | None = None
) -> Iterator[tuple[Trial, Came]]:
    """Trials and what came of them, as they finish, some at once. Those that start from another's weights follow it.

    A trial that finds no room, or whose process dies, is taken up again when fewer run. Trials that start from one that
    failed do not come.
    """
    after = {id(first): others for first, others in stages}
    waiting = [first for first, _ in stages]
    while waiting:
        again: list[Trial] = []
        for trial, came in _round(waiting, after, at_once, until):
            if at_once > 1 and isinstance(came, Failure) and came.failed.startswith(OUT_OF_MEMORY):
                again.append(trial)
            else:
                yield trial, came
        waiting, at_once = again, max(1, at_once // 2)


def _round(
    waiting: list[Trial], after: dict[int, Sequence[Trial]], at_once: int, until: float | None
) -> Iterator[tuple[Trial, Came]]:
    """All that can be run without starting again what found no room."""
    # A fresh interpreter for each: a process that was forked cannot use a GPU.
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), initializer=_begin, initargs=(at_once,)) as pool:
        try:
            run = partial(attempt, until=until)
            running: dict[Future[Came], Trial] = {pool.submit(run, one): one for one in waiting}
            while running:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    trial = running.pop(done)
                    came = _came_of(trial, done)
                    if isinstance(came, list):
                        running |= {pool.submit(run, one): one for one in after.get(id(trial), ())}
                    yield trial, came
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _came_of(trial: Trial, done: "Future[Came]") -> Came:
    try:
        return done.result()
    except BrokenProcessPool:  # a process was killed, most often for memory, and took the others with it
        return Failure.of(trial, "MemoryError: the process of this trial, or of one beside it, was killed")


def _begin(at_once: int) -> None:
    """In each process: a fair share of the CPU where the model runs on a GPU, and so does not depend on it."""
    import torch

    if torch.cuda.is_available():
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // at_once))
