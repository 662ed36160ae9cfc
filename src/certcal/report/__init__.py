"""Figures and, later, tables and pages of results."""

from certcal.report.figures import (
    CertifiedBoxes,
    plot_certified_boxes,
    plot_reliability,
    prepare_certified_boxes,
)

__all__ = ["CertifiedBoxes", "plot_certified_boxes", "plot_reliability", "prepare_certified_boxes"]
