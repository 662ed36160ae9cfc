"""A connection to a Ray cluster: the one named, the one the program already uses, or one started for the run."""

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from certcal.errors import CertcalError, InputError
from certcal.settings import Cluster, check_address

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = "certcal-ray-"  # of the folders of clusters that were started for a run
CONNECT_SECONDS = 5.0
OBJECT_STORE = 512 * 2**20  # of a cluster started for the run; inputs in flight are far smaller


@dataclass(frozen=True)
class Session:
    """A connected cluster and what each worker on it takes."""

    cluster: Cluster
    gpus: float  # of each worker

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return [node for node in ray.nodes() if node["Alive"] and self._room(node)]

    @property
    def workers(self) -> int:
        """How many workers to start: those asked for, or all that fit."""
        return self.cluster.workers or sum(self._room(node) for node in self.nodes)

    def _room(self, node: dict[str, Any]) -> int:
        has = node["Resources"]
        by_cpu = int(has.get("CPU", 0))
        return by_cpu if not self.gpus else min(by_cpu, int(has.get("GPU", 0) / self.gpus))


@contextmanager
def connected(cluster: Cluster, *, device: str = "cpu") -> Iterator[Session]:
    """Within this context Ray is connected. A cluster that was started for it is stopped at its end.

    Args:
        cluster: which one, and how much of it.
        device: the kind of device that workers run on, "cpu" or "cuda".

    Raises:
        InputError: if the address does not answer within a few seconds, or no node has room for a worker.
        CertcalError: if Ray itself fails to start or connect.
    """
    gpus = cluster.gpus if cluster.gpus is not None else float(device != "cpu")
    with _quiet(), _connection(cluster):
        session = Session(cluster, gpus)
        if not session.nodes:
            needs = "1 CPU" + (f" and {gpus:g} GPU" if gpus else "")
            has = ray.cluster_resources()
            got = f"one with {has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs over {len(ray.nodes())} nodes"
            raise InputError.expected("engine", f"be a cluster with room for a worker ({needs})", got)
        yield session


@contextmanager
def _connection(cluster: Cluster) -> Iterator[None]:
    asked = cluster.address
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if asked not in (None, "auto", here):
            raise InputError.expected("address", f"be {here}, which this program is connected to", repr(asked))
        yield
        return
    named = _named(cluster)
    with cluster_folder() if named is None else nullcontext() as folder:
        if named is None:
            _start(cluster, folder)
        else:
            _connect(cluster, named)
        try:
            yield
        finally:
            ray.shutdown()


def check_reachable(cluster: Cluster) -> None:
    """Refuse a cluster that does not answer within seconds, without connecting to it: Ray would wait for minutes."""
    named = None if ray.is_initialized() else _named(cluster)
    if named in (None, "auto"):
        return
    host, _, port = str(named).rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS) as line:
            if line.recv(9)[3:4] != b"\x04":  # the settings that a gRPC server greets with
                raise ConnectionError("what answers there is not Ray")
    except (OSError, OverflowError) as error:
        raise _unreachable(str(named), error) from error


def _named(cluster: Cluster) -> str | None:
    """The address of the cluster to connect to; None if one is to be started. An empty RAY_ADDRESS names none."""
    asked = cluster.address
    named = asked or os.environ.get("RAY_ADDRESS") or "local"
    check_address("RAY_ADDRESS" if asked is None else "address", named)
    return None if named == "local" else named


def _connect(cluster: Cluster, address: str) -> None:
    check_reachable(cluster)
    try:
        _init(address=address)
    except (ConnectionError, RuntimeError, TimeoutError) as error:
        trouble = ConnectionError(f"{_first_line(error)} (where it asks for a token, set RAY_AUTH_MODE=token)")
        raise _unreachable(address, trouble) from error


def _start(cluster: Cluster, folder: Path | None) -> None:
    """A cluster of this machine, whose logs and sockets lie in a folder."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    resolve = ray._private.services.resolve_ip_for_localhost
    try:
        # Ray takes 127.0.0.1 for a mistake, and would listen on all interfaces.
        ray._private.services.resolve_ip_for_localhost = lambda host: host
        _init(
            address="local",
            num_cpus=cluster.workers or os.cpu_count(),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            _node_ip_address="127.0.0.1",  # its ports then listen on this machine only
            _temp_dir=f"{folder}/r",  # Ray lets everybody write into it, but nobody else into the folder around it
        )
    except Exception as error:
        raise CertcalError(f"Ray could not start a cluster on this machine: {_first_line(error)}.") from error
    finally:
        ray._private.services.resolve_ip_for_localhost = resolve


def _init(**options: Any) -> None:
    """Connect, quietly, and without what Ray does beside: it puts the working folder first on the workers' path."""
    ours = signal.getsignal(signal.SIGTERM)
    with chdir(Path.cwd().anchor):  # `Pool` adds the working folder where this program itself imports from there
        ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **options)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ours)


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's own remarks, but for errors, stay away from the screen that progress is shown on."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _unreachable(address: str, error: Exception) -> InputError:
    need = "name a running Ray cluster that this machine is part of (ray start --address=…)"
    return InputError.expected("address", need, f"{address}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def cluster_folder(place: Path | None = None) -> Iterator[Path]:
    """A new folder, locked by this program as long as it lives, and removed at the end.

    Those of programs that were killed are removed first.
    """
    # Ray's sockets lie in this folder, and their names may have a hundred characters.
    place = place or Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())
    for other in place.glob(f"{PREFIX}*"):
        with suppress(OSError), _locked(other):  # unless it is somebody else's, or its program lives
            shutil.rmtree(other, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}", dir=place))
    with _locked(new):
        folder = new.rename(place / new.name.removeprefix("new-"))  # only now: whoever sees it sees it locked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which the system lets go of when a program ends, also in another container."""
    if fcntl is None:
        yield  # type: ignore[unreachable]
        return
    held = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(held)
