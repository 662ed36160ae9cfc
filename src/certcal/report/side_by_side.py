"""Runs side by side: a table, their curves over each other, and the page that holds both."""

from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from certcal.evaluation import METRICS, Difference, SideBySide
from certcal.files import plain
from certcal.report.content import default_view
from certcal.report.figures import axes_of, legend_below
from certcal.report.plain_page import figure_row, html_table, plain_page
from certcal.report.tables import Column, column_of, csv_text, exactly, markdown_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Readable for colour-blind eyes: Okabe and Ito's palette, without its yellow.
COLOURS = ("#1b7a8c", "#d55e00", "#6a3d9a", "#009e73", "#cc79a7", "#56b4e9", "#000000")
CURVES = ("certified_accuracy", "certified_ece", "certified_brier")
LISTED = 50  # inputs that changed, on the page
NOTE = (
    "Behind ±: half the 95 % bootstrap interval of the difference over the inputs, {paired}. It says how much the "
    "difference varies with the choice of inputs and certifies nothing. * marks differences whose interval does "
    "not hold 0."
)


def side_by_side_cells(compared: SideBySide) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the table: per radius and metric the value of each run, and each difference from the first."""
    heads = ["R", "", *compared.names, *(f"{name} − {compared.names[0]}" for name in compared.names[1:])]
    lines = []
    for position, radius in enumerate(compared.radii):
        for place, (name, own) in enumerate((one, column_of(one)) for one in compared.differences[position][0]):
            values = [own.show(getattr(report[position], name)) for report in compared.reports]
            apart = [_apart(later[name], own) for later in compared.differences[position]]
            lines.append([exactly(radius) if place == 0 else "", own.label, *values, *apart])
    return heads, lines


def side_by_side_markdown(compared: SideBySide) -> str:
    """The table in Markdown, and what its ± mean."""
    heads, lines = side_by_side_cells(compared)
    return markdown_text(heads, lines, sides="rl" + "r" * (len(heads) - 2)) + f"\n{note(compared)}\n"


def side_by_side_records(compared: SideBySide) -> list[dict[str, Any]]:
    """Every value and difference with every digit."""
    records = []
    for position, radius in enumerate(compared.radii):
        for name in compared.differences[position][0]:
            for place, (run, report) in enumerate(zip(compared.names, compared.reports, strict=True)):
                apart = vars(compared.differences[position][place - 1][name]) if place else {}
                ends = {"difference": apart.get("value"), "half_width": apart.get("half")}
                known = {"radius": radius, "metric": name, "run": run, "value": getattr(report[position], name)}
                records.append(plain(known | ends))
    return records


def side_by_side_csv(compared: SideBySide) -> str:
    """The same as CSV."""
    records = side_by_side_records(compared)
    return csv_text(list(records[0]), [list(one.values()) for one in records])


def changed_csv(compared: SideBySide) -> str:
    """The inputs whose prediction, or whether it is certified, changed, at each radius."""
    lines = [[radius, *line] for position, radius in enumerate(compared.radii) for line in _changed(compared, position)]
    return csv_text(["radius", *_changed_heads(compared)], lines)


def note(compared: SideBySide) -> str:
    """What stands behind ±."""
    return NOTE.format(paired="the same ones drawn for every run" if compared.paired else "drawn for each run apart")


def plot_side_by_side(compared: SideBySide, metric: str, *, ax: "Axes | None" = None) -> "Axes":
    """One metric of all runs over the radii."""
    axes = axes_of(ax)
    for place, (name, report) in enumerate(zip(compared.names, compared.reports, strict=True)):
        values = [getattr(row, metric) for row in report]
        axes.plot(compared.radii, values, "o-", color=COLOURS[place % len(COLOURS)], markersize=3.5, label=name)
    axes.margins(y=0.08)
    axes.set(xlabel="R", ylabel=METRICS[metric].label)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    legend_below(axes)
    return axes


def side_by_side_page(compared: SideBySide) -> str:
    """A page with curves, table and changed inputs; it loads nothing and runs no script."""
    shown = default_view(compared.reports[0])
    heads, lines = side_by_side_cells(compared)
    pages = _changed(compared, shown)
    told = "The runs are about different inputs, so no input is compared." if not compared.paired else (
        f"{len(pages):,} of {compared.reports[0].inputs:,} inputs are predicted or certified differently at "
        f"R = {exactly(compared.radii[shown])}" + (f"; the first {LISTED} are shown." if len(pages) > LISTED else ".")
    )  # fmt: skip
    changed = html_table(_changed_heads(compared), [[str(cell) for cell in line] for line in pages[:LISTED]], "changed")
    body = (
        figure_row([partial(plot_side_by_side, compared, metric) for metric in CURVES])
        + f"<h2>At the same radii</h2>\n{html_table(heads, lines, 'metrics')}\n<p>{escape(note(compared))}</p>\n"
        + f"<h2>Inputs that changed</h2>\n<p>{escape(told)}</p>\n{changed if pages else ''}\n"
    )
    return plain_page(" · ".join(compared.names), body)


def _apart(one: Difference, own: Column) -> str:
    scale, digits, unit = (100, own.digits or 2, " %") if own.percent else (1, own.digits or 4, "")
    if one.value != one.value:
        return "—"
    spread = "" if one.half != one.half else f" ± {scale * one.half:.{digits}f}"
    return f"{scale * one.value:+.{digits}f}{spread}{unit}{' *' if one.is_clear else ''}"


def _changed_heads(compared: SideBySide) -> list[str]:
    return ["index", "label", *(f"{name}: {what}" for name in compared.names for what in ("class", "certified"))]


def _changed(compared: SideBySide, position: int) -> list[list[object]]:
    bounds = [report.bounds[position] for report in compared.reports]
    return [
        [int(bounds[0].index[one]), int(bounds[0].label[one])]
        + [part for own in bounds for part in (int(own.predicted[one]), "yes" if own.certified[one] else "no")]
        for one in compared.changed(position)
    ]
