"""Runs side by side: a table, their curves over each other, and the page that holds both."""

from functools import partial
from typing import TYPE_CHECKING, Any

from certcal.errors import several
from certcal.evaluation import METRICS, Difference, Report, SideBySide
from certcal.files import plain
from certcal.report.content import default_view
from certcal.report.figures import axes_of, legend_below
from certcal.report.html import Verbatim, fill_page, read_part
from certcal.report.plain_page import figure_row
from certcal.report.tables import Column, column_of, csv_text, markdown_text
from certcal.scalars import exactly

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Readable for colour-blind eyes: Okabe and Ito's palette, without its yellow.
COLOURS = ("#1b7a8c", "#d55e00", "#6a3d9a", "#009e73", "#cc79a7", "#56b4e9", "#000000")
CURVES = ("certified_accuracy", "certified_ece", "certified_brier")
LISTED = 50  # inputs that changed, on the page
NOTE = (
    "Behind ±: half the bootstrap interval of the difference over the inputs{draws}, {paired}. All intervals "
    "hold together at 95 %, as estimates; they certify nothing. * marks differences whose interval does not hold 0."
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
    """The table in Markdown, what the runs are, and what ± means."""
    heads, lines = side_by_side_cells(compared)
    table = markdown_text(heads, lines, sides="rl" + "r" * (len(heads) - 2))
    runs = "".join(f"- {line}\n" for line in about_runs(compared))
    return f"{table}\n{runs}\n{note(compared)}\n"


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


_APART = {
    True: "The runs are about different inputs, so no input is compared.",
    False: "Bounds from elsewhere do not say which inputs they are of, so no input is compared.",
}


def _drawn(compared: SideBySide) -> bool:
    """Whether all runs are of smoothed models, whose evidence says which inputs it is of."""
    return all(report.evidence is not None for report in compared.reports)


def note(compared: SideBySide) -> str:
    """What stands behind ±, and what a difference may come from beside the models."""
    paired = "the same ones drawn for every run" if compared.paired else "drawn for each run apart"
    told = NOTE.format(draws=" and their draws" * _drawn(compared), paired=paired)
    drawn = [report.evidence for report in compared.reports if report.evidence is not None]
    if len({(own.header.sigma, int(own.draws.max())) for own in drawn}) > 1:
        told += " The runs differ in σ or draws: certified values may differ for that alone."
    if len({(report.level, report.delta) for report in compared.reports}) > 1:
        told += " They differ in α or δ: certified and guaranteed values may differ for that alone."
    return " ".join([told, *compared.remarks])


def about_runs(compared: SideBySide) -> list[str]:
    """What each run was drawn with, in a line."""
    return [f"{name}: {_drawn_with(report)}" for name, report in zip(compared.names, compared.reports, strict=True)]


def _drawn_with(report: Report) -> str:
    own, inputs = report.evidence, several(report.inputs)
    if own is None:
        return f"bounds from elsewhere ({report.method}), {inputs}"
    least, most = int(own.draws.min()), int(own.draws.max())
    draws = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    divided = "" if report.temperature == 1 else f", logits divided by {report.temperature:g}"
    return f"σ = {own.header.sigma:g}, n = {draws} draws, {inputs}{divided}"


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
    """A page with verdict, curves, table and changed inputs; it loads nothing and runs no script."""
    shown = default_view(compared.reports[0])
    heads, lines = side_by_side_cells(compared)
    pages = _changed(compared, shown)
    told = _APART[_drawn(compared)] if not compared.paired else (
        f"{len(pages):,} of {compared.reports[0].inputs:,} inputs are predicted or certified differently at "
        f"R = {exactly(compared.radii[shown])}" + (f"; the first {LISTED} are shown." if len(pages) > LISTED else ".")
    )  # fmt: skip
    style = "".join(map(read_part, ("page.css", "compare.css")))
    return fill_page(
        "compare.html.j2",
        style=style,
        drawn=True,
        names=compared.names,
        runs=about_runs(compared),
        verdict=_verdict(compared, shown),
        figures=Verbatim(figure_row([partial(plot_side_by_side, compared, metric) for metric in CURVES])),
        heads=heads,
        lines=lines,
        starred=[[cell.endswith("*") for cell in line] for line in lines],
        note=note(compared),
        told=told,
        changed_heads=_changed_heads(compared),
        changed=pages[:LISTED],
    )


def _verdict(compared: SideBySide, position: int) -> str:
    """Which of the later runs has clearly another certified error than the first."""
    first, parts = compared.names[0], []
    for name, apart in zip(compared.names[1:], compared.differences[position], strict=True):
        one = apart["certified_ece"]
        size = f"clearly {abs(100 * one.value):.1f} points {'below' if one.value < 0 else 'above'} {first}"
        words = size if one.is_clear else f"not clearly different from {first}"
        parts.append(f"{name} is {words}" if one.value == one.value else f"nothing to compare with {name}")
    return f"Certified calibration error at R = {exactly(compared.radii[position])}: {'; '.join(parts)}"


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
