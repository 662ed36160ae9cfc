"""Results for people: evaluation over radii, and figures."""

from certcal.report.evaluation import Population, Report, Row, evaluate
from certcal.report.figures import (
    CertifiedBoxes,
    plot_certified_boxes,
    plot_reliability,
    prepare_certified_boxes,
)

__all__ = [
    "CertifiedBoxes",
    "Population",
    "Report",
    "Row",
    "evaluate",
    "plot_certified_boxes",
    "plot_reliability",
    "prepare_certified_boxes",
]
