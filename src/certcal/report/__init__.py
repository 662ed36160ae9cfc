"""Results for people: tables, figures, words, and a page that holds it all."""

from certcal.evaluation import number, percent
from certcal.report.advice import advice_section
from certcal.report.attack_figures import attack_diagrams, plot_sandwich
from certcal.report.attack_page import attack_data
from certcal.report.attacks import (
    GALIL,
    SANDWICH_COLUMNS,
    ace_cells,
    ace_heads,
    ace_sentence,
    ace_tables,
    sandwich_cells,
    sandwich_tables,
    tightness,
    verdict,
)
from certcal.report.card import model_card
from certcal.report.changes import Changes, plot_changes, prepare_changes
from certcal.report.comparison import Comparison, comparison_cells, comparison_markdown, comparison_table, reading
from certcal.report.content import by_radius, default_view, page_data, why_first
from certcal.report.display_found import as_html, draw
from certcal.report.figures import (
    INCORRECT,
    plot_certified_accuracy,
    plot_certified_boxes,
    plot_choice,
    plot_errors,
    plot_moves,
    plot_reliability,
    plot_trade_off,
    plot_widths,
)
from certcal.report.groups import group_cells, group_words, groups_section
from certcal.report.html import render_page
from certcal.report.judgements import judgements_markdown, to_junit
from certcal.report.leaderboard import Board, Standing, leaderboard_page, plot_standings, standing_cells
from certcal.report.more_tables import more_tables
from certcal.report.operating import acceptance, operating_data, operating_section, wanted_acceptance
from certcal.report.recalibrated import (
    chosen_because,
    lead,
    listed,
    map_name,
    recalibration_section,
    score_rows,
    warnings,
)
from certcal.report.side_by_side import (
    changed_csv,
    side_by_side_cells,
    side_by_side_csv,
    side_by_side_markdown,
    side_by_side_page,
    side_by_side_records,
    side_by_side_words,
)
from certcal.report.tables import cells, columns, main_cells, to_csv, to_latex, to_markdown
from certcal.report.views import (
    CertifiedInputs,
    Widths,
    prepare_boxes,
    prepare_certified_boxes,
    prepare_moves,
    prepare_widths,
)
from certcal.report.words import answer, answer_about, caveats, clean_words, explanation, guarantee

__all__ = [
    "GALIL",
    "INCORRECT",
    "SANDWICH_COLUMNS",
    "Board",
    "CertifiedInputs",
    "Changes",
    "Comparison",
    "Standing",
    "Widths",
    "acceptance",
    "ace_cells",
    "ace_heads",
    "ace_sentence",
    "ace_tables",
    "advice_section",
    "answer",
    "answer_about",
    "as_html",
    "attack_data",
    "attack_diagrams",
    "by_radius",
    "caveats",
    "cells",
    "changed_csv",
    "chosen_because",
    "clean_words",
    "columns",
    "comparison_cells",
    "comparison_markdown",
    "comparison_table",
    "default_view",
    "draw",
    "explanation",
    "group_cells",
    "group_words",
    "groups_section",
    "guarantee",
    "judgements_markdown",
    "lead",
    "leaderboard_page",
    "listed",
    "main_cells",
    "map_name",
    "model_card",
    "more_tables",
    "number",
    "operating_data",
    "operating_section",
    "page_data",
    "percent",
    "plot_certified_accuracy",
    "plot_certified_boxes",
    "plot_changes",
    "plot_choice",
    "plot_errors",
    "plot_moves",
    "plot_reliability",
    "plot_sandwich",
    "plot_standings",
    "plot_trade_off",
    "plot_widths",
    "prepare_boxes",
    "prepare_certified_boxes",
    "prepare_changes",
    "prepare_moves",
    "prepare_widths",
    "reading",
    "recalibration_section",
    "render_page",
    "sandwich_cells",
    "sandwich_tables",
    "score_rows",
    "side_by_side_cells",
    "side_by_side_csv",
    "side_by_side_markdown",
    "side_by_side_page",
    "side_by_side_records",
    "side_by_side_words",
    "standing_cells",
    "tightness",
    "to_csv",
    "to_junit",
    "to_latex",
    "to_markdown",
    "verdict",
    "wanted_acceptance",
    "warnings",
    "why_first",
]
