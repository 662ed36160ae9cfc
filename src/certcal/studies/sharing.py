"""Trials shared out over the workers of a Ray cluster, which has to share the folder that they write into."""

import contextlib
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from certcal.cluster import Cluster, run_calls
from certcal.errors import CertcalError, InputError
from certcal.models import best_device
from certcal.runs import load_data, load_model, training_part
from certcal.studies.recipes import SweepRecipe
from certcal.studies.trials import Came, Failure, Trial, attempt


def share(
    cluster: Cluster, folder: Path, stages: Sequence[tuple[Trial, Sequence[Trial]]]
) -> Iterator[tuple[Trial, Came]]:
    """Trials and what came of them, as they finish. Those that start from another one's weights come after it.

    A trial whose worker dies goes on elsewhere from its last checkpoint. Trials that start from one that failed do not
    come.
    """
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
