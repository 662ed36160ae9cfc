"""certcal inside other libraries: torchmetrics, scikit-learn, Lightning, and tools that keep experiments."""

from typing import TYPE_CHECKING

from certcal.later import later

if TYPE_CHECKING:
    from certcal.integrations.tracking import check_trackers, log_report

__all__ = ["check_trackers", "log_report"]

__getattr__ = later(__name__, tracking="check_trackers log_report")
