"""Certified metrics: all of them at one radius (`row_at`), and over radii (`evaluate`). Nothing else computes them."""

from certcal.evaluation.metric import Before, Given, Metric, Rounding
from certcal.evaluation.report import ConfidenceMap, Report, evaluate
from certcal.evaluation.row import METRICS, Row, row_at
from certcal.evaluation.selection import Outcome, Selection, pareto_front, select
from certcal.worstcase import Population

__all__ = [
    "METRICS",
    "Before",
    "ConfidenceMap",
    "Given",
    "Metric",
    "Outcome",
    "Population",
    "Report",
    "Rounding",
    "Row",
    "Selection",
    "evaluate",
    "pareto_front",
    "row_at",
    "select",
]
