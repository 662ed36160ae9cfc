"""Runs side by side: a table, their curves over each other, and the page that holds both."""

import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from certcal.evaluation import METRICS, Difference, SideBySide
from certcal.files import plain
from certcal.report.content import default_view
from certcal.report.figures import legend_below, new_axes
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
    axes = ax or new_axes()
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
    changed = _table(_changed_heads(compared), [[str(cell) for cell in line] for line in pages[:LISTED]], "changed")
    return _PAGE.format(
        title=escape(" · ".join(compared.names)),
        figures="".join(f"<figure>{_svg(compared, metric)}</figure>" for metric in CURVES),
        table=_table(heads, lines, "metrics"),
        note=escape(note(compared)),
        told=escape(told),
        changed=changed if pages else "",
    )


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


def _svg(compared: SideBySide, metric: str) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "certcal", "svg.fonttype": "none"}):
        figure = Figure(figsize=(3.8, 3.2), layout="constrained")
        plot_side_by_side(compared, metric, ax=figure.add_subplot())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]], kind: str) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1c2530; max-width: 1240px; margin: 2rem auto; padding: 0 1.5rem }}
h1 {{ font-size: 1.4rem }} h2 {{ font-size: 1.1rem; margin-top: 2rem }} p {{ color: #55606d; max-width: 75ch }}
.figures {{ display: flex; flex-wrap: wrap; gap: 1rem }} figure {{ margin: 0 }} .wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px }}
th {{ text-align: right; font-weight: 600; color: #55606d; border-bottom: 1px solid #c9d0d8; padding: .3rem .8rem }}
td {{ text-align: right; padding: .15rem .8rem; white-space: nowrap }} .metrics td:nth-child(2) {{ text-align: left }}
.metrics td:first-child {{ font-weight: 600 }}
.metrics tr:has(td:first-child:not(:empty)) td {{ border-top: 1px solid #e3e7eb }}
</style></head><body>
<h1>{title}</h1>
<div class="figures">{figures}</div>
<h2>At the same radii</h2>
{table}
<p>{note}</p>
<h2>Inputs that changed</h2>
<p>{told}</p>
{changed}
</body></html>
"""
