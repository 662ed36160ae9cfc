"""What a notebook shows of a result: a table, a sentence and a small figure, as HTML."""

import io
from base64 import b64encode
from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation import METRICS, Report, Rounding, Row, number
from certcal.report.content import default_view
from certcal.report.figures import CORRECT, INCORRECT, axes_of, plot_certified_boxes, plot_errors
from certcal.report.tables import main_cells
from certcal.report.views import prepare_certified_boxes
from certcal.report.words import guarantee
from certcal.scalars import exactly
from certcal.smoothing import Evidence
from certcal.worstcase import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTHING = "Nothing is certified at this radius."


@singledispatch
def as_html(result: object, /) -> str:
    """A result as HTML for a notebook.

    Paper: —.   Errs: numbers are rounded to their cautious side.
    """
    return f"<pre>{escape(repr(result))}</pre>"


@singledispatch
def draw(result: object, /, *, ax: "Axes | None" = None) -> "Axes":
    """The figure of a result."""
    raise InputError.expected("result", "be one that certcal has a figure for, as a Report", type(result).__name__)


def shown(result: object, table: str, words: str = "", *, drawn: bool = True) -> str:
    """A table, a sentence, both as HTML, and what `draw` makes of the result."""
    text = table + (f"<p>{words}</p>" if words else "")
    if not drawn:
        return text
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure, file = Figure(figsize=(4.2, 3.4), layout="constrained"), io.BytesIO()
    FigureCanvasAgg(figure)
    draw(result, ax=figure.add_subplot())
    figure.savefig(file, format="png", dpi=100, bbox_inches="tight")
    return f'{text}<img alt="" src="data:image/png;base64,{b64encode(file.getvalue()).decode()}">'


def html_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Heads and lines of text as a table."""
    head = "".join(f'<th style="text-align:right">{escape(one)}</th>' for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@as_html.register(Report)
def _report(result: Report) -> str:
    return shown(result, html_table(*main_cells(result)), escape(guarantee(result, default_view(result))))


@draw.register(Report)
def _draw_report(result: Report, *, ax: "Axes | None" = None) -> "Axes":
    return plot_errors(result.rows, ax=ax)


@as_html.register(Row)
def _row(result: Row) -> str:
    known = {name: value for name, value in result.as_dict().items() if name in METRICS}
    lines = [[METRICS[name].label, METRICS[name].show(own)] for name, own in known.items()]
    words = "Errors and scores are of the inputs counted first; what they certify, a report says with its probability."
    drawn = result.worst is not None
    return shown(result, html_table(["metric", "value"], lines), words if drawn else NOTHING, drawn=drawn)


@draw.register(Row)
def _draw_row(result: Row, *, ax: "Axes | None" = None) -> "Axes":
    axes = axes_of(ax)
    axes.bar(["clean", "certified", "guaranteed"], [result.ece, result.certified_ece, result.joint_ece])
    axes.set(ylabel="ECE", ylim=(0, 1))
    return axes


@as_html.register(Evidence)
def _evidence(result: Evidence) -> str:
    header = result.header
    lines = [
        ["inputs", f"{len(result):,}"],
        ["draws", f"{int(result.draws.sum()):,}"],
        ["σ", f"{header.sigma:g}, in the units of {header.units}"],
        ["classes", str(header.classes)],
        ["accuracy of the smoothed model", f"{result.correct.mean():.1%}"],
        ["model", header.model[:12]],
        ["run as", header.precision],
    ]
    words = "These are estimates from draws. What they certify, <code>certcal.evaluate</code> says."
    return shown(result, html_table(["evidence", ""], lines), words)


@draw.register(Evidence)
def _draw_evidence(result: Evidence, *, ax: "Axes | None" = None) -> "Axes":
    axes, bins = axes_of(ax), np.linspace(0, 1, 31).tolist()
    parts = [result.confidence[result.correct], result.confidence[~result.correct]]
    axes.hist(parts, bins=bins, stacked=True, color=[CORRECT, INCORRECT], label=["correct", "incorrect"])
    axes.set(xlabel="confidence of the smoothed model", ylabel="inputs")
    axes.legend()
    return axes


@as_html.register(ConfidenceIntervals)
def _intervals(result: ConfidenceIntervals) -> str:
    kept = result.certified
    width = (result.upper - result.lower)[kept]
    lines = [
        ["inputs", f"{len(result):,}"],
        ["certified", f"{int(kept.sum()):,}"],
        ["certified and right", f"{int((kept & result.correct).sum()):,}"],
        ["mean width, certified", number(float(width.mean()), Rounding.UP) if kept.any() else "—"],
    ]
    chance = f" Each input's certificates fail with probability at most {result.level:g}." if result.level > 0 else ""
    words = f"Within R the prediction of a certified input stays, and its confidence stays in its bar.{chance}"
    drawn = bool(kept.any())
    heads = [f"certificates at R = {exactly(result.radius)}", ""]
    return shown(result, html_table(heads, lines), words if drawn else NOTHING, drawn=drawn)


@draw.register(ConfidenceIntervals)
def _draw_intervals(result: ConfidenceIntervals, *, ax: "Axes | None" = None) -> "Axes":
    return plot_certified_boxes(prepare_certified_boxes(result.select(result.certified)), ax=ax)


@as_html.register(Solution)
def _solution(result: Solution) -> str:
    lines = [
        ["value", number(result.value, Rounding.DOWN if result.kind == "lower" else Rounding.UP, 6)],
        ["kind", str(result.kind)],
        ["inputs", f"{len(result.confidence):,}"],
        ["status", str(result.status)],
    ]
    words = {
        "exact": "No confidences within the bounds are worse; these attain it.",
        "upper": "No confidences within the bounds are worse.",
        "lower": "Confidences within the bounds attain this, and others may be worse: it certifies nothing.",
    }[str(result.kind)]
    return shown(result, html_table(["worst case", ""], lines), words, drawn=len(result.confidence) > 0)


@draw.register(Solution)
def _draw_solution(result: Solution, *, ax: "Axes | None" = None) -> "Axes":
    axes = axes_of(ax)
    axes.hist(result.confidence, bins=np.linspace(0, 1, 31).tolist())
    axes.set(xlabel="confidence at the worst case", ylabel="inputs")
    return axes
