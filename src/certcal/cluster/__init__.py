"""Many machines through Ray: connect or start, check every worker, spread calls over them and repeat lost ones."""

from typing import TYPE_CHECKING, Any

from certcal.settings import Cluster, as_cluster

if TYPE_CHECKING:
    from certcal.cluster.pool import Call, Pool, run_calls
    from certcal.cluster.session import Session, check_reachable, connected

# Ray is an extra, and takes its time to import: it is loaded when a cluster is used.
_LATER = {
    "Call": "pool",
    "Pool": "pool",
    "Session": "session",
    "check_reachable": "session",
    "connected": "session",
    "run_calls": "pool",
}

__all__ = ["Call", "Cluster", "Pool", "Session", "as_cluster", "check_reachable", "connected", "run_calls"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
