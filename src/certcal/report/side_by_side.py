"""Runs side by side: a table, their curves over each other, and the page that holds both."""

from functools import partial
from typing import TYPE_CHECKING, Any

from certcal.errors import several
from certcal.evaluation import LEAST_INPUTS, METRICS, Difference, Look, Report, Row, SideBySide
from certcal.files import csv_of, csv_text, plain
from certcal.report.content import default_view
from certcal.report.figures import axes_of, finished
from certcal.report.html import figure_row, fill_page, read_part
from certcal.report.tables import markdown_text
from certcal.scalars import exactly
from certcal.settings import Domain, Population

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Readable for colour-blind eyes: Okabe and Ito's palette, without its yellow.
COLOURS = ("#1b7a8c", "#d55e00", "#6a3d9a", "#009e73", "#cc79a7", "#56b4e9", "#000000")
CURVES = ("certified_accuracy", "certified_ece", "certified_brier")
CALLED = ("worse", "better")  # a difference that is clear, by whether it is for the better
TOO_FEW = "too few to tell"
LISTED = 50  # inputs that changed, on the page
NOTE = (
    "Behind ±: half the bootstrap interval of the difference over the inputs{draws}, {paired}. All intervals "
    "hold together at 95 %, as estimates; they certify nothing."
)
JUDGED = "A difference is called better or worse where its interval does not hold 0."
FEW = f"Fewer than {LEAST_INPUTS} inputs are {TOO_FEW}: their differences have no ±."


def side_by_side_cells(compared: SideBySide, *at: int) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the table: per radius and metric the value of each run, and each difference from the first.

    Of all radii, or of those at these positions.
    """
    heads = ["R", "", *compared.names, *(f"{name} − {compared.names[0]}" for name in compared.names[1:])]
    lines = []
    for position in at or range(len(compared.radii)):
        for place, name in enumerate(_shown(compared)):
            own = METRICS[name]
            values = [own.show(getattr(row, name)) for row in compared.rows[position]]
            apart = [_apart(later.get(name), own) for later in compared.differences[position]]
            label = "inputs compared" if name == "inputs" else own.label
            lines.append([exactly(compared.radii[position]) if place == 0 else "", label, *values, *apart])
    return heads, lines


def _shown(compared: SideBySide) -> list[str]:
    """The metrics in order: those of all inputs, how many the others are about, and those."""
    names = list(compared.differences[0][0])
    names.insert(next(place for place, name in enumerate(names) if not METRICS[name].of_all), "inputs")
    return names


def side_by_side_words(compared: SideBySide) -> tuple[str, list[str], str]:
    """The verdict; what is clear at other radii and what the runs are, line by line; and what the numbers mean."""
    return f"{_verdict(compared)}.", [*_elsewhere(compared), *_about_runs(compared)], _note(compared)


def _elsewhere(compared: SideBySide) -> list[str]:
    """Which run is clearly better or worse at other radii than the one shown, a line for each run and metric."""
    shown = default_view(compared.reports[0])
    found: dict[tuple[str, str, str], list[str]] = {}
    for position, later in enumerate(compared.differences):
        for run, apart in zip(compared.names[1:], later, strict=True):
            for name, one in apart.items():
                if position != shown and one.is_clear:
                    key = run, METRICS[name].label, CALLED[bool(one.better)]
                    found.setdefault(key, []).append(exactly(compared.radii[position]))
    return [f"{run}: {label} {called} at R = {', '.join(radii)}" for (run, label, called), radii in found.items()]


def side_by_side_markdown(compared: SideBySide) -> str:
    """The table in Markdown, what the runs are, and what ± means."""
    heads, lines = side_by_side_cells(compared)
    table = markdown_text(heads, lines, sides="rl" + "r" * (len(heads) - 2))
    verdict, about, note = side_by_side_words(compared)
    listed = "".join(f"- {line}\n" for line in about)
    return f"{verdict}\n\n{table}\n{listed}\n{note}\n"


def side_by_side_records(compared: SideBySide) -> list[dict[str, Any]]:
    """Every value and difference with every digit."""
    records = []
    for position, radius in enumerate(compared.radii):
        for name in _shown(compared):
            for place, (run, row) in enumerate(zip(compared.names, compared.rows[position], strict=True)):
                apart = compared.differences[position][place - 1].get(name) if place else None
                ends = {"difference": apart and apart.value, "half_width": apart and apart.half}
                known = {"radius": radius, "metric": name, "run": run, "value": getattr(row, name)}
                records.append(plain(known | ends))
    return records


def side_by_side_csv(compared: SideBySide) -> str:
    """The same as CSV."""
    return csv_of(side_by_side_records(compared))


def changed_csv(compared: SideBySide) -> str:
    """The inputs whose prediction, or whether it is certified, changed, at each radius."""
    lines = [[radius, *line] for position, radius in enumerate(compared.radii) for line in _changed(compared, position)]
    return csv_text(["radius", *_changed_heads(compared)], lines)


def _apart_for(compared: SideBySide) -> str:
    """Why no input is compared."""
    if _drawn(compared):
        return "The runs are about different inputs, so no input is compared."
    if all(report.bounds[0].indexed for report in compared.reports):
        return "The runs have other indices or labels, so no input is compared."
    return "Bounds without a column 'index' do not say which inputs they are of, so no input is compared."


def _drawn(compared: SideBySide) -> bool:
    """Whether all runs are of smoothed models, whose evidence says which inputs it is of."""
    return all(report.evidence is not None for report in compared.reports)


def _note(compared: SideBySide) -> str:
    """What stands behind ±, and what a difference may come from beside the models."""
    differences = [one for at in compared.differences for later in at for one in later.values()]
    told = _about(compared)
    if any(one.half == one.half for one in differences):  # not so where nothing was drawn again
        paired = "the same ones drawn for every run" if compared.paired else "drawn for each run apart"
        told += f" {NOTE.format(draws=' and their draws' * _drawn(compared), paired=paired)}"
        told += f" {JUDGED}" * compared.paired
    if any(one.too_few for one in differences):
        told += f" {FEW}"
    if compared.paired and not _drawn(compared):  # bounds from elsewhere do not say what their inputs look like
        told += " Inputs are taken for the same by index and label."
    elif not compared.paired:
        told += f" {_apart_for(compared)}"
    drawn = [report.evidence for report in compared.reports if report.evidence is not None]
    if len({(own.header.sigma, int(own.draws.max())) for own in drawn}) > 1:
        told += " The runs differ in σ or draws: certified values may differ for that alone."
    if len({(report.level, report.delta) for report in compared.reports}) > 1:
        told += " They differ in α or δ: certified and guaranteed values may differ for that alone."
    if len({report.bounds[0].domain for report in compared.reports}) > 1:
        told += " Some hold only for inputs moved within [0, 1]: certified values may differ for that alone."
    if drawn and not _drawn(compared):
        told += f" Bounds from elsewhere do not say their units: R is taken to be in those of {drawn[0].header.units}."
    if any(report.share < 1 for report in compared.reports):
        told += " Guaranteed errors are by failed certificates here; a run's own page has the best of three ways."
    return " ".join([told, *compared.remarks])


def _about(compared: SideBySide) -> str:
    """Which inputs errors and scores are of."""
    if compared.in_common:
        return "Errors and scores are of the inputs that all runs certify at R, not of each run's own as on its page."
    of = "certified inputs" if compared.reports[0].population is Population.CERTIFIED else "inputs"
    if compared.paired:
        return "Errors and scores are of all inputs."
    return f"Errors and scores are of each run's own {of}, so none is called better or worse."


def _about_runs(compared: SideBySide) -> list[str]:
    """What each run was drawn with, in a line."""
    return [f"{name}: {_drawn_with(report)}" for name, report in zip(compared.names, compared.reports, strict=True)]


def _drawn_with(report: Report) -> str:
    own, inputs = report.evidence, several(report.inputs)
    if own is None:
        box = ", moved within [0, 1]" if report.bounds[0].domain is Domain.BOX else ""
        return f"bounds from elsewhere ({report.method}), {inputs}{box}"
    least, most = int(own.draws.min()), int(own.draws.max())
    draws = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    divided = "" if report.temperature == 1 else f", logits divided by {report.temperature:g}"
    return f"σ = {own.header.sigma:g}, n = {draws} draws, {inputs}{divided}"


def plot_side_by_side(compared: SideBySide, metric: str, *, ax: "Axes | None" = None) -> "Axes":
    """One metric of all runs over the radii."""
    axes = axes_of(ax)
    for place, name in enumerate(compared.names):
        values = [getattr(beside[place], metric) for beside in compared.rows]
        axes.plot(compared.radii, values, "o-", color=COLOURS[place % len(COLOURS)], markersize=3.5, label=name)
    axes.margins(y=0.08)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    of = ", inputs that all certify" if compared.in_common and not METRICS[metric].of_all else ""
    return finished(axes, xlabel="R", ylabel=METRICS[metric].label + of)


def side_by_side_page(compared: SideBySide) -> str:
    """A page with verdict, curves, table and changed inputs; it loads nothing and runs no script."""
    shown = default_view(compared.reports[0])
    heads, lines = side_by_side_cells(compared)
    pages = _changed(compared, shown)
    told = _apart_for(compared) if not compared.paired else (
        f"{len(pages):,} of {compared.reports[0].inputs:,} inputs are predicted or certified differently at "
        f"R = {exactly(compared.radii[shown])}" + (f"; the first {LISTED} are shown." if len(pages) > LISTED else ".")
    )  # fmt: skip
    style = "".join(map(read_part, ("page.css", "compare.css")))
    return fill_page(
        "compare.html.j2",
        style=style,
        drawn=True,
        names=compared.names,
        runs=_about_runs(compared),
        verdict=f"{_verdict(compared)}.",
        figures=figure_row([partial(plot_side_by_side, compared, metric) for metric in CURVES]),
        heads=heads,
        lines=lines,
        called=[[next(filter(cell.endswith, CALLED), "") for cell in line] for line in lines],
        note=_note(compared),
        told=told,
        changed_heads=_changed_heads(compared),
        changed=pages[:LISTED],
    )


def _verdict(compared: SideBySide) -> str:
    """Which of the later runs has clearly another certified error than the first, on which inputs and draws.

    How many inputs each run certifies stands in the same sentence: a larger error of more inputs is no worse a run.
    """
    position = default_view(compared.reports[0])
    rows, first = compared.rows[position], compared.names[0]
    about = f"Certified calibration error at R = {exactly(compared.radii[position])}"
    if not compared.paired:
        each = [
            f"{name} {_error(row)} of its {several(row.inputs)}" for name, row in zip(compared.names, rows, strict=True)
        ]
        return f"{about}, of different inputs: {', '.join(each)}; {_means(compared, position)}"
    if not rows[0].inputs:
        return f"{about}: no input is certified by all runs; {_means(compared, position)}"
    about += f", of the {several(rows[0].inputs)} {'certified by all runs' if compared.in_common else 'of the set'}"
    parts = []
    for name, row, apart in zip(compared.names[1:], rows[1:], compared.differences[position], strict=True):
        one = apart["certified_ece"]
        if one.too_few:  # then it is so for all of them
            each = [f"{run} {_error(own)}" for run, own in zip(compared.names, rows, strict=True)]
            return f"{about}, {TOO_FEW}: {', '.join(each)}; {_means(compared, position)}"
        size = f"{abs(100 * one.value):.1f} points {'below' if one.value < 0 else 'above'} {first}"
        known = f"clearly {size}" if one.is_clear else f"not clearly different from {first}"
        words = known if one.half == one.half else size  # without resamples nobody knows
        parts.append(f"{name} is {words} ({_error(row)} against {_error(rows[0])})")
    return f"{about}: {'; '.join(parts)}; {_means(compared, position)}"


def _error(row: Row) -> str:
    return METRICS["certified_ece"].show(row.certified_ece)


def _means(compared: SideBySide, position: int) -> str:
    """How many inputs each run certifies, and with how many draws where these differ."""
    draws = [0 if own.evidence is None else int(own.evidence.draws.max()) for own in compared.reports]
    apart = [None, *(later["certified_share"].better for later in compared.differences[position])]
    return ", ".join(
        f"{name} certifies {report[position].certified:,} of {several(report.inputs)}"
        + ("" if better is None or not compared.paired else f" (clearly {'more' if better else 'fewer'})")
        + (f" with {each:,} draws each" if each and len(set(draws)) > 1 else "")
        for name, report, each, better in zip(compared.names, compared.reports, draws, apart, strict=True)
    )


def _apart(one: Difference | None, own: Look) -> str:
    scale, digits, unit = (100, own.digits or 2, " %") if own.percent else (1, own.digits or 4, "")
    if one is None:
        return ""
    if one.value != one.value:
        return "—"
    spread = "" if one.half != one.half else f" ± {scale * one.half:.{digits}f}"
    known = TOO_FEW if one.too_few else CALLED[one.better] if one.better is not None else ""
    return f"{scale * one.value:+.{digits}f}{spread}{unit} {known}".rstrip()


def _changed_heads(compared: SideBySide) -> list[str]:
    return ["index", "label", *(f"{name}: {what}" for name in compared.names for what in ("class", "certified"))]


def _changed(compared: SideBySide, position: int) -> list[list[object]]:
    bounds = [report.bounds[position] for report in compared.reports]
    return [
        [int(bounds[0].index[one]), int(bounds[0].label[one])]
        + [part for own in bounds for part in (int(own.predicted[one]), "yes" if own.certified[one] else "no")]
        for one in compared.changed(position)
    ]
