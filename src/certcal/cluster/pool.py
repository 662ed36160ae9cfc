"""Worker processes that each hold one state and run one call at a time; a call whose worker is lost is run again."""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from certcal.cluster import worker
from certcal.cluster.session import Session, connected
from certcal.errors import CertcalError, InputError
from certcal.settings import Cluster

GATHER_SECONDS = 10.0  # how long those that are ready wait for the others, so that mistakes show before any call
ray.cloudpickle.register_pickle_by_value(worker)


@dataclass(eq=False)
class Call:
    """One call: function(state, *arguments). References among the arguments arrive as what they refer to."""

    name: str  # for people, should it fail
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    losses: int = 0  # workers that died under it


class Pool:
    """Workers that made their state from `make_state(*arguments)`.

    Workers join as the cluster finds room for them; one that cannot make its state, or has another version of a
    package, ends it all. One that dies is replaced and its call goes to another one: Ray's own restarts would keep the
    call waiting for a node that may never come back. Each call has one result, a `CertcalError` if it failed.
    """

    def __init__(self, session: Session, make_state: Callable[..., Any], *arguments: Any) -> None:
        self._session = session
        self._host: Any = ray.remote(worker.Host)
        # Classes in the working folder are found there if this program finds them there.
        here = [os.getcwd()] if {"", os.getcwd()} & set(sys.path) else []
        self._making = worker.versions(), here, ray.cloudpickle.dumps(make_state), list(arguments)
        # Workers by the reference that tells that they are ready, and with their call by that of its result.
        self._starting: dict[Any, Any] = {}
        self._idle: deque[Any] = deque()
        self._busy: dict[Any, tuple[Any, Call]] = {}
        self._again: deque[Call] = deque()  # calls that lost their worker
        self._failed_starts = 0  # one after the other
        self._last_seen = time.monotonic()  # when there was a worker

    def __enter__(self) -> "Pool":
        try:
            for _ in range(self._session.workers):
                self._start()
            deadline = time.monotonic() + GATHER_SECONDS
            while self._starting and (time.monotonic() < deadline or not self._idle):
                self.results()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for one in [*self._starting.values(), *self._idle, *(busy for busy, _ in self._busy.values())]:
            ray.kill(one)

    @property
    def room(self) -> int:
        """How many more calls the workers can take now."""
        return max(0, len(self._idle) - len(self._again))

    @property
    def in_flight(self) -> int:
        return len(self._again) + len(self._busy)

    def submit(self, call: Call) -> None:
        """Give a call to a free worker, or keep it until there is one."""
        if not self._idle:
            self._again.append(call)
            return
        one = self._idle.popleft()
        self._busy[one.call.remote(call.function, *call.arguments)] = one, call

    def results(self, timeout: float = 1.0) -> list[tuple[Call, Any]]:
        """Results that have come by now; waits for one, but not longer than so many seconds."""
        while self._again and self._idle:
            self.submit(self._again.popleft())
        pending = [*self._busy, *self._starting]
        done, _ = ray.wait(pending, timeout=timeout) if pending else ([], [])
        if done:  # all that came with it
            done, _ = ray.wait(pending, timeout=0, num_returns=len(pending))
        for reference in done:
            if reference in self._starting:
                self._welcome(reference)
        results = [self._result(reference) for reference in done if reference in self._busy]
        self._check_alive()
        return [one for one in results if one is not None]

    def _start(self) -> None:
        one = self._host.options(num_cpus=1, num_gpus=self._session.gpus, scheduling_strategy="SPREAD").remote()
        self._starting[one.prepare.remote(*self._making)] = one

    def _welcome(self, reference: Any) -> None:
        """Take in a worker that has made its state."""
        one = self._starting.pop(reference)
        try:
            trouble = ray.get(reference)
        except RayTaskError as error:
            raise told(error, "A worker could not get ready") from error
        except RayError as error:
            self._failed_starts += 1
            if self._failed_starts > self._session.cluster.retries:
                raise _lost("Preparing a worker", self._failed_starts, error) from error
            self._start()
            return
        if trouble:
            raise InputError(trouble)
        self._failed_starts = 0
        self._idle.append(one)

    def _result(self, reference: Any) -> tuple[Call, Any] | None:
        """A call and its result; None if it lost its worker and is run again."""
        one, call = self._busy.pop(reference)
        try:
            result = ray.get(reference)
        except RayTaskError as error:
            result = told(error, f"{call.name} failed on a worker")
        except RayError as error:
            ray.kill(one)  # whatever is left of it
            self._start()
            call.losses += 1
            if call.losses > self._session.cluster.retries:
                return call, _lost(call.name, call.losses, error)
            self._again.append(call)
            return None
        self._idle.append(one)
        return call, result

    def _check_alive(self) -> None:
        """Give up if for too long there is no worker, as when the last node that had room for one is gone."""
        patience = self._session.cluster.patience
        if self._idle or self._busy:
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > patience:
            raise CertcalError(
                f"The cluster had no worker for us in {patience:g} s: others may be using all of it. What was kept is "
                "not lost: the same call goes on from there."
            )


def run_calls(
    cluster: Cluster,
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    *,
    device: str = "cpu",
    name: str = "A call",
    check: Callable[[], None] | None = None,
    then: Callable[[int, Any], Iterable[tuple[Any, ...]]] | None = None,
    errors_are_results: bool = False,
) -> Iterator[tuple[int, Any]]:
    """(position, function(*arguments)) for each tuple of arguments, as they finish on the workers of a cluster.

    Versions are checked on every worker first; a call whose worker dies is repeated; an error of the function is raised
    here as one line. No more calls are under way than there are workers.

    Paper: —; scale is ours.

    Args:
        cluster: which one, and how much of it.
        function: runs on a worker, which has to be able to import it.
        arguments: of each call.
        device: the kind of device that workers run on.
        name: what a call is, for errors.
        check: runs on each worker before its first call; what it raises ends it all.
        then: from a position and its result to the arguments of further calls, which are numbered from there on.
        errors_are_results: go on after an error, and give the `CertcalError` in place of the result.
    """
    waiting = deque(enumerate(arguments))
    count = len(waiting)
    with connected(cluster, device=device) as session, Pool(session, check or _nothing) as pool:
        while waiting or pool.in_flight:
            while waiting and pool.room:
                position, values = waiting.popleft()
                pool.submit(Call(f"{name} ({position})", _without_state, (position, function, *values)))
            for call, result in pool.results():
                position = call.arguments[0]
                if isinstance(result, CertcalError) and not errors_are_results:
                    raise result
                more = list(then(position, result)) if then else []
                waiting.extend(enumerate(more, count))
                count += len(more)
                yield position, result


def told(error: BaseException, opening: str) -> CertcalError:
    """An error that came back from a worker: certcal's own as it is, any other in one line after an opening."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, CertcalError):
        return type(cause)(str(cause))
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return CertcalError(f"{opening}: {type(cause).__name__}: {(lines or ['no reason given'])[-1].rstrip('.')}.")


def _lost(name: str, losses: int, error: RayError) -> CertcalError:
    reason = str(error).strip().splitlines()[0].rstrip(".")
    return CertcalError(f"{name} lost its worker {losses} times (out of memory?): {reason}.")


def _nothing() -> None:
    """The state of workers that need none."""


def _without_state(state: None, position: int, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)
