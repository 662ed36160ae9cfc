"""Worker processes that each hold one state, and calls spread over them; what a lost worker was doing is done again."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, ObjectLostError, RayError, RayTaskError

from certcal.cluster.preflight import check_versions, told, version_trouble
from certcal.cluster.session import Session
from certcal.cluster.settings import Cluster
from certcal.errors import CertcalError, InputError

DEPTH = 2  # calls at a worker: one running and one waiting, so that it never waits for the driver
_LOST = (ActorDiedError, ActorUnavailableError, ObjectLostError)
State = Any


def _host_class() -> type:
    """What runs in a worker process. Made here, so that Ray sends it as code to workers that may lack certcal."""

    class Host:
        def prepare(self, trouble: Callable[[], str], make_state: bytes, arguments: list[Any]) -> str:
            import ray

            # Every worker is checked, as its node may have joined after those of the start were; and before anything
            # of certcal is unpacked.
            found = trouble()
            if not found:
                got = [ray.get(one) if isinstance(one, ray.ObjectRef) else one for one in arguments]
                self._state = ray.cloudpickle.loads(make_state)(*got)
            return found

        def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
            return function(self._state, *arguments)

    return Host


@dataclass(eq=False)
class Call:
    """One call: function(state, *arguments). References among the arguments arrive as what they refer to."""

    name: str  # for people, should it fail
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    losses: int = 0  # workers that died under it


@dataclass(eq=False)
class _Worker:
    handle: Any
    ready: Any  # the reference that resolves once the state is made; None from then on
    calls: dict[Any, Call] = field(default_factory=dict)  # by the reference of its result, the running one first


class Pool:
    """Workers that made their state once, from `make_state(*arguments)`.

    Workers join as the cluster finds room for them; one with another version of a package ends it all. One that dies is
    replaced, and its calls go to others; each call yields one result. A call that raises, or that too many workers died
    under, ends it all, unless such errors are wanted as results. No worker holds more calls than `depth`.
    """

    def __init__(
        self,
        session: Session,
        make_state: Callable[..., State],
        *arguments: Any,
        depth: int = DEPTH,
        errors_are_results: bool = False,
    ) -> None:
        self._session = session
        self._host: Any = ray.remote(_host_class())
        self._making = version_trouble(), ray.cloudpickle.dumps(make_state), list(arguments)
        self._depth, self._errors_are_results = depth, errors_are_results
        self._again: deque[Call] = deque()
        self._workers: list[_Worker] = []
        self._failed_starts = 0  # one after the other
        self._last_seen = time.monotonic()  # when a worker was ready

    def __enter__(self) -> "Pool":
        self._workers = [self._start() for _ in range(self._session.workers)]
        try:
            self._wait_for_one()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._workers:
            ray.kill(worker.handle)
        self._workers = []

    @property
    def room(self) -> int:
        """How many more calls the workers can take now."""
        ready = sum(worker.ready is None for worker in self._workers)
        return max(0, self._depth * ready - self.in_flight)

    @property
    def in_flight(self) -> int:
        """Calls that have no result yet."""
        return len(self._again) + sum(len(worker.calls) for worker in self._workers)

    def submit(self, call: Call) -> None:
        """Give a call to the worker that has the fewest."""
        ready = [worker for worker in self._workers if worker.ready is None]
        if not ready:
            self._again.append(call)
            return
        worker = min(ready, key=lambda worker: len(worker.calls))
        worker.calls[worker.handle.call.remote(call.function, *call.arguments)] = call

    def results(self, timeout: float = 1.0) -> list[tuple[Call, Any]]:
        """Results that have come by now; waits for one, but not longer than so many seconds."""
        self._welcome()
        self._check_alive()
        while self._again and any(one.ready is None and len(one.calls) < self._depth for one in self._workers):
            self.submit(self._again.popleft())
        owners = {reference: worker for worker in self._workers for reference in worker.calls}
        waiting = [worker.ready for worker in self._workers if worker.ready is not None]
        pending = [*owners, *waiting]
        done, _ = ray.wait(pending, timeout=timeout, num_returns=1) if pending else ([], [])
        if done:  # all that came with it
            done, _ = ray.wait(pending, timeout=0, num_returns=len(pending))
        kept = []
        for reference in done:
            worker = owners.get(reference)
            if worker is None or reference not in worker.calls:  # a new worker, or one found lost a moment ago
                continue
            call = worker.calls[reference]
            try:
                result = ray.get(reference)
            except _LOST as error:
                kept += self._replace(worker, error)
                continue
            except RayTaskError as error:
                result = told(error, f"{call.name} failed on a worker")
                if not self._errors_are_results:
                    raise result from error
            except RayError as error:
                kept += self._replace(worker, error)
                continue
            del worker.calls[reference]
            kept.append((call, result))
        return kept

    def _wait_for_one(self) -> None:
        patience = self._session.cluster.patience
        deadline = time.monotonic() + patience
        while not any(worker.ready is None for worker in self._workers):
            self._welcome(timeout=1.0)
            if time.monotonic() > deadline:
                raise CertcalError(f"The cluster started no worker in {patience:g} s: others may be using all of it.")

    def _check_alive(self) -> None:
        """Give up if for too long no worker has been left, as when the last node that had room for one is gone."""
        patience = self._session.cluster.patience
        if any(worker.ready is None for worker in self._workers):
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > patience:
            raise CertcalError(
                f"The cluster lost all workers and started no other in {patience:g} s. What was kept is not lost: "
                "the same call goes on from there."
            )

    def _start(self) -> _Worker:
        # Restarts are left to this class: Ray would keep calls waiting for a worker that finds no room any more.
        options = {"num_cpus": 1, "num_gpus": self._session.gpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        handle: Any = self._host.options(**options).remote()
        return _Worker(handle, handle.prepare.remote(*self._making))

    def _welcome(self, timeout: float = 0) -> None:
        """Note which workers have made their state."""
        new = {worker.ready: worker for worker in self._workers if worker.ready is not None}
        done, _ = ray.wait(list(new), timeout=timeout, num_returns=1 if timeout else len(new)) if new else ([], [])
        for reference in done:
            try:
                trouble = ray.get(reference)
            except RayTaskError as error:
                raise told(error, "A worker could not get ready") from error
            except RayError as error:
                self._replace(new[reference], error)
                continue
            if trouble:
                raise InputError(trouble)
            new[reference].ready = None
            self._failed_starts = 0

    def _replace(self, worker: _Worker, error: RayError) -> list[tuple[Call, CertcalError]]:
        """Start another worker for one that was lost, and do its calls again. The first of them was running.

        Comes back: the call that is given up, where errors are results.
        """
        calls, given_up = list(worker.calls.values()), []
        worker.calls.clear()
        if calls:
            calls[0].losses += 1
            name, losses = calls[0].name, calls[0].losses
        else:
            self._failed_starts += 1
            name, losses = "Preparing a worker", self._failed_starts
        if losses > self._session.cluster.retries:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            trouble = CertcalError(f"{name} lost its worker {losses} times (out of memory?): {reason}.")
            if not calls or not self._errors_are_results:  # without calls no worker can be made at all
                raise trouble from error
            given_up.append((calls.pop(0), trouble))
        self._again.extend(calls)
        ray.kill(worker.handle)  # whatever is left of it
        self._workers[self._workers.index(worker)] = self._start()
        return given_up


def run_calls(
    cluster: Cluster,
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    *,
    device: str = "cpu",
    name: str = "A call",
    check: Callable[[Session], None] | None = None,
    then: Callable[[int, Any], Iterable[tuple[Any, ...]]] | None = None,
    errors_are_results: bool = False,
) -> Iterator[tuple[int, Any]]:
    """(position, function(*arguments)) for each tuple of arguments, as they finish on the workers of a cluster.

    Versions are checked on every node first; a call whose worker dies is repeated; an error of the function is raised
    here as one line. No more calls are under way than workers can take.

    Paper: —; scale is ours.

    Args:
        cluster: which one, and how much of it.
        function: runs on a worker, which has to be able to import it.
        arguments: read as workers have room.
        device: the kind of device that workers run on.
        name: what a call is, for errors.
        check: called with the connected session before any worker is started.
        then: from a position and its result to the arguments of further calls, which are numbered from there on; all
            `arguments` are read first then.
        errors_are_results: go on after an error, and give the `CertcalError` in place of the result. A worker has one
            call at a time then, so that it is known of which one it died.
    """
    from certcal.cluster.session import connected

    known = arguments if then is None else list(arguments)
    numbers, more = count(len(known) if isinstance(known, list) else 0), deque[tuple[int, tuple[Any, ...]]]()
    with connected(cluster, device=device) as session:
        check_versions(session)
        if check is not None:
            check(session)
        depth = 1 if errors_are_results else DEPTH
        with Pool(session, _nothing, depth=depth, errors_are_results=errors_are_results) as pool:
            waiting, ended = enumerate(known), False
            while more or not ended or pool.in_flight:
                while pool.room and (more or not ended):
                    position, values = more.popleft() if more else next(waiting, (-1, ()))
                    if position < 0:
                        ended = True
                    else:
                        pool.submit(Call(f"{name} ({position})", _without_state, (position, function, *values)))
                for call, result in pool.results():
                    if then is not None:
                        more.extend((next(numbers), values) for values in then(call.arguments[0], result))
                    yield call.arguments[0], result


def _nothing() -> None:
    """The state of workers that need none."""


def _without_state(state: None, position: int, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)
