"""Many machines through Ray: connect or start, check every worker, spread calls over them and repeat lost ones."""

from typing import TYPE_CHECKING

from certcal.later import later
from certcal.settings import Cluster, as_cluster

if TYPE_CHECKING:
    from certcal.cluster.pool import Call, Pool, run_calls
    from certcal.cluster.session import Session, check_reachable, connected

__all__ = ["Call", "Cluster", "Pool", "Session", "as_cluster", "check_reachable", "connected", "run_calls"]

# Ray is an extra, and takes its time to import: it is loaded when a cluster is used.
__getattr__ = later(__name__, pool="Call Pool run_calls", session="Session check_reachable connected")
