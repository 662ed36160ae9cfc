"""Trials side by side: in processes of this machine, with memory watched, or on the workers of a Ray cluster.

A cluster has to share the folder that trials write into.
"""

import contextlib
import gc
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from certcal.cluster import Cluster
from certcal.errors import CertcalError, InputError
from certcal.models import best_device
from certcal.runs import load_data, load_model, training_part
from certcal.studies.recipes import SweepRecipe
from certcal.studies.trials import Came, Failure, Finished, Stages, Trial, attempt

OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")


def beside(stages: Stages, at_once: int, until: float | None = None) -> Finished:
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


def _round(waiting: list[Trial], after: dict[int, Sequence[Trial]], at_once: int, until: float | None) -> Finished:
    """All that can be run without starting again what found no room."""
    # A fresh interpreter for each: a process that was forked cannot use a GPU.
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), initializer=_begin, initargs=(at_once,)) as pool:
        try:
            run = partial(_giving_back, partial(attempt, until=until))
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


def _giving_back(run: Callable[[Trial], Came], trial: Trial) -> Came:
    """In a process: what comes of a trial, after which the device's memory is there for those beside it."""
    try:
        return run(trial)
    finally:
        if torch.cuda.is_initialized():
            gc.collect()
            torch.cuda.empty_cache()


def _came_of(trial: Trial, done: "Future[Came]") -> Came:
    try:
        return done.result()
    except BrokenProcessPool:  # a process was killed, most often for memory, and took the others with it
        return Failure.of(trial, "MemoryError: the process of this trial, or of one beside it, was killed")


def _begin(at_once: int) -> None:
    """In each process: a fair share of the CPU where the model runs on a GPU, and so does not depend on it."""
    if torch.cuda.is_available():
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // at_once))


def share(cluster: Cluster, folder: Path, stages: Stages) -> Finished:
    """Trials and what came of them, as they finish. Those that start from another one's weights come after it.

    A trial whose worker dies goes on elsewhere from its last checkpoint. Trials that start from one that failed do not
    come.
    """
    from certcal.cluster import run_calls  # which needs Ray

    place, sent = Path.cwd(), [first for first, _ in stages]

    def then(position: int, came: Any) -> list[tuple[Trial, Path]]:
        ready = stages[position][1] if position < len(stages) and isinstance(came, list) else ()
        sent.extend(ready)
        return [(one, place) for one in ready]

    with _mark(folder.absolute()) as (mark, token):
        results = run_calls(
            cluster,
            attempt_at,
            [(one, place) for one in sent],
            device=(sent[0].recipe.machine.device or best_device()).partition(":")[0],
            name="A trial",
            check=partial(check_worker, sent[0].recipe, place, mark, token),
            then=then,
            errors_are_results=True,
        )
        for position, came in results:
            trial = sent[position]
            yield trial, Failure.of(trial, came) if isinstance(came, CertcalError) else came


def attempt_at(trial: Trial, place: Path) -> Came:
    """On a worker: the trial, from the working folder of the driver."""
    with _working_in(place):
        return attempt(trial)


def check_worker(recipe: SweepRecipe, place: Path, mark: Path, token: str) -> None:
    """On a worker: the folder is the driver's, the data can be read here, and the network be made."""
    import ray

    node = f"node {ray.util.get_node_ip_address()}"
    if trouble := _trouble_with(mark, token):
        need = "be a folder that this program and every node of the cluster share"
        raise InputError.expected("run", need, f"{mark.parent}: {node} {trouble}")
    try:
        with _working_in(place):
            data = load_data(training_part(recipe.data))
            load_data(recipe.test)
            load_model(replace(recipe.model, weights=None), data, fresh=True)
    except InputError as error:
        raise InputError(f"On {node} of the cluster: {error}") from error


@contextlib.contextmanager
def _mark(folder: Path) -> Iterator[tuple[Path, str]]:
    """A file, and the token in it that tells a worker that the folder is this one."""
    path, token = folder / f".shared-{secrets.token_hex(8)}", secrets.token_hex(8)
    path.write_text(token, encoding="utf-8")
    try:
        yield path, token
    finally:
        path.unlink(missing_ok=True)


def _trouble_with(mark: Path, token: str) -> str:
    """What is wrong with the folder of a file that the driver wrote; nothing if it can be used."""
    try:
        if mark.read_text(encoding="utf-8") != token:
            return "sees another file there"
        probe = mark.with_name(f"{mark.name}-{secrets.token_hex(4)}")
        probe.touch()
        probe.unlink()
    except FileNotFoundError:
        return "does not see what this program writes there"
    except OSError as error:
        return f"cannot use it ({error.strerror or error})"
    return ""


@contextlib.contextmanager
def _working_in(place: Path) -> Iterator[None]:
    """Relative paths, and factories in the working folder, mean there what they mean to the driver."""
    path = list(sys.path)
    try:
        with contextlib.chdir(place):
            yield
    except FileNotFoundError as error:
        if Path(error.filename or "") != place:
            raise
        raise InputError.expected("working folder", "be on every node of the cluster", f"{place}") from error
    finally:
        sys.path[:] = path
