"""Certified metrics: all of them at one radius (`row_at`), and over radii (`evaluate`). Nothing else computes them."""

from certcal.evaluation.at_worst import Contribution, contributions_at, reliability_at
from certcal.evaluation.confidence_map import ConfidenceMap, sample_of, warn_if_fitted_to
from certcal.evaluation.further import ACCEPTED, ANY_BINNING, FURTHER, WANTED
from certcal.evaluation.gap import Gap, planned_draws, split_gap, with_more_draws
from certcal.evaluation.group_table import Disparity, Group, GroupTable
from certcal.evaluation.metric import Before, Look, Rounding, number, percent
from certcal.evaluation.report import Report
from certcal.evaluation.requirements import Judgement, Requirement, judge
from certcal.evaluation.row import METRICS, Row, row_at
from certcal.evaluation.rows import as_given, evaluate
from certcal.evaluation.selection import Outcome, Selection, pareto_front, select
from certcal.evaluation.side_by_side import LEAST_INPUTS, Difference, SideBySide, check_resamples, compare_reports

__all__ = [
    "ACCEPTED",
    "ANY_BINNING",
    "FURTHER",
    "LEAST_INPUTS",
    "METRICS",
    "WANTED",
    "Before",
    "ConfidenceMap",
    "Contribution",
    "Difference",
    "Disparity",
    "Gap",
    "Group",
    "GroupTable",
    "Judgement",
    "Look",
    "Outcome",
    "Report",
    "Requirement",
    "Rounding",
    "Row",
    "Selection",
    "SideBySide",
    "as_given",
    "check_resamples",
    "compare_reports",
    "contributions_at",
    "evaluate",
    "judge",
    "number",
    "pareto_front",
    "percent",
    "planned_draws",
    "reliability_at",
    "row_at",
    "sample_of",
    "select",
    "split_gap",
    "warn_if_fitted_to",
    "with_more_draws",
]
