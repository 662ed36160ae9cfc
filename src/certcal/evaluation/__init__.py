"""Certified metrics: all of them at one radius (`row_at`), and over radii (`evaluate`). Nothing else computes them."""

from certcal.evaluation.at_worst import Contribution, check_position, contributions_at, reliability_at
from certcal.evaluation.metric import Before, Given, Metric, Rounding
from certcal.evaluation.report import ConfidenceMap, Report, evaluate
from certcal.evaluation.row import METRICS, Row, row_at
from certcal.evaluation.selection import Outcome, Selection, pareto_front, select
from certcal.worstcase import Population

__all__ = [
    "METRICS",
    "Before",
    "ConfidenceMap",
    "Contribution",
    "Given",
    "Metric",
    "Outcome",
    "Population",
    "Report",
    "Rounding",
    "Row",
    "Selection",
    "check_position",
    "contributions_at",
    "evaluate",
    "pareto_front",
    "reliability_at",
    "row_at",
    "select",
]
