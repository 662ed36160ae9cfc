"""Results for people: tables, figures, words, and a page that holds it all."""

from certcal.report.attack_figures import SandwichCurves, plot_sandwich, prepare_sandwich_curves
from certcal.report.changes import Changes, plot_changes, prepare_changes
from certcal.report.content import default_view, page_data
from certcal.report.figures import (
    INCORRECT,
    plot_certified_accuracy,
    plot_certified_boxes,
    plot_errors,
    plot_moves,
    plot_reliability,
    plot_trade_off,
    plot_widths,
)
from certcal.report.html import render_page
from certcal.report.recalibrated import lead, listed, recalibration_section, score_rows, warnings
from certcal.report.tables import cells, columns, exactly, number, percent, to_csv, to_latex, to_markdown
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
    "INCORRECT",
    "CertifiedBoxes",
    "Changes",
    "Contribution",
    "Moves",
    "SandwichCurves",
    "Widths",
    "caveats",
    "cells",
    "columns",
    "default_view",
    "exactly",
    "explanation",
    "guarantee",
    "lead",
    "listed",
    "number",
    "page_data",
    "percent",
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
    "recalibration_section",
    "render_page",
    "score_rows",
    "to_csv",
    "to_latex",
    "to_markdown",
    "warnings",
]
