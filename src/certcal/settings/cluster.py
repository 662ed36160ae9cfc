"""Where work is done, and which cluster to use."""

from dataclasses import dataclass
from importlib.util import find_spec

from certcal.errors import InputError
from certcal.settings.checks import at_least_0, number, whole
from certcal.settings.declare import Record, setting


def check_address(name: str, value: object) -> str:
    """host:port, or one of Ray's words."""
    if isinstance(value, str):
        host, _, port = value.rpartition(":")
        if value in ("auto", "local") or (host and port.isdecimal() and "/" not in value):
            return value
    raise InputError.expected(name, "be host:port of the cluster's head, 'auto' or 'local'", repr(value))


@dataclass(frozen=True, kw_only=True)
class PlaceSettings(Record, panel="Where to run"):
    """Where work is done. It changes no result."""

    engine: str = setting("local", "In this process, or on a Ray cluster", choices=("local", "ray"))


@dataclass(frozen=True, kw_only=True)
class Beside(Record, panel="Where to run"):
    """How many trials run at once on this machine. It changes no result."""

    per_device: int = setting(1, "Trials at once on this machine, each in its own process", check=whole(1, 1024))


@dataclass(frozen=True, kw_only=True)
class Cluster(Record, panel="Where to run"):
    """A Ray cluster and the worker processes wanted on it. None of it changes a result.

    Args:
        workers: processes; by default as many as the cluster has room for.
        address: host:port of the cluster's head, or "auto" for the one this machine is part of. By default what
            RAY_ADDRESS names, and without that a cluster of this machine alone, started for the run.
        gpus: GPUs of each worker, such as 0.5 for two workers on one. By default 1 where the device is a GPU.
        retries: how often a call is repeated whose worker died under it.
        patience: seconds to wait for a node, for a first worker, or for another one when all are lost, before giving
            up.

    >>> Cluster(workers=4)
    Cluster(workers=4, address=None, gpus=None, retries=3, patience=60.0)
    """

    workers: int | None = setting(None, "Ray: worker processes", check=whole(1, 65536), shown="all that fit")
    address: str | None = setting(
        None, "Ray: host:port of the cluster's head", check=check_address, option="--ray-address", metavar="ADDRESS",
        shown="RAY_ADDRESS, or a cluster of this machine",
    )  # fmt: skip
    gpus: float | None = setting(
        None, "Ray: GPUs of each worker, such as 0.5", check=number("be a number ≥ 0", lambda value: value >= 0),
        option="--gpus-per-worker", shown="1 on cuda",
    )  # fmt: skip
    retries: int = setting(3, "Ray: how often a call is repeated whose worker died", check=at_least_0, option=None)
    patience: float = setting(
        60.0, "Ray: seconds to wait for a node or worker",
        check=number("be a number of seconds > 0", lambda value: value > 0), option=None,
    )  # fmt: skip


def as_cluster(engine: object) -> Cluster | None:
    """The cluster that an `engine` argument means: None for "local", any cluster for "ray", or the one given.

    >>> as_cluster("local") is None
    True
    """
    if isinstance(engine, str) and engine == "local":
        return None
    if not isinstance(engine, Cluster) and not (isinstance(engine, str) and engine == "ray"):
        raise InputError.expected("engine", "be 'local', 'ray' or a certcal.cluster.Cluster", repr(engine))
    if find_spec("ray") is None:
        need = "be 'local' where Ray is not installed (pip install 'certcal[ray]')"
        raise InputError.expected("engine", need, "'ray'")
    return engine if isinstance(engine, Cluster) else Cluster()
