"""Results for people: evaluation over radii, tables, figures, words, and a page that holds it all."""

from certcal.report.attack_figures import SandwichCurves, plot_sandwich, prepare_sandwich_curves
from certcal.report.changes import Changes, plot_changes, prepare_changes
from certcal.report.content import page_data
from certcal.report.evaluation import Report, Row, evaluate
from certcal.report.figures import (
    plot_certified_accuracy,
    plot_certified_boxes,
    plot_errors,
    plot_moves,
    plot_reliability,
    plot_trade_off,
    plot_widths,
)
from certcal.report.html import render_page
from certcal.report.options import Population
from certcal.report.selection import Outcome, Selection, pareto_front, select
from certcal.report.tables import to_csv, to_latex, to_markdown
from certcal.report.views import (
    CertifiedBoxes,
    Contribution,
    Moves,
    Widths,
    prepare_boxes,
    prepare_certified_boxes,
    prepare_contributions,
    prepare_moves,
    prepare_reliability,
    prepare_widths,
)
from certcal.report.words import caveats, explanation, guarantee

__all__ = [
    "CertifiedBoxes",
    "Changes",
    "Contribution",
    "Moves",
    "Outcome",
    "Population",
    "Report",
    "Row",
    "SandwichCurves",
    "Selection",
    "Widths",
    "caveats",
    "evaluate",
    "explanation",
    "guarantee",
    "page_data",
    "pareto_front",
    "plot_certified_accuracy",
    "plot_certified_boxes",
    "plot_changes",
    "plot_errors",
    "plot_moves",
    "plot_reliability",
    "plot_sandwich",
    "plot_trade_off",
    "plot_widths",
    "prepare_boxes",
    "prepare_certified_boxes",
    "prepare_changes",
    "prepare_contributions",
    "prepare_moves",
    "prepare_reliability",
    "prepare_sandwich_curves",
    "prepare_widths",
    "render_page",
    "select",
    "to_csv",
    "to_latex",
    "to_markdown",
]
