"""Which cluster an `engine` argument means."""

from importlib.util import find_spec

from certcal.errors import InputError
from certcal.settings import Cluster


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
