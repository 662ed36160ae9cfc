"""The figures of a run, as PNG and SVG for papers."""

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from certcal.evaluation import Report, Rounding, reliability_at
from certcal.report import (
    INCORRECT,
    default_view,
    percent,
    plot_certified_accuracy,
    plot_certified_boxes,
    plot_errors,
    plot_moves,
    plot_reliability,
    plot_widths,
    prepare_boxes,
    prepare_moves,
    prepare_widths,
)
from certcal.runs.folder import RunFolder
from certcal.runs.switch import Change
from certcal.scalars import exactly

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_figures(into: Change, report: Report) -> None:
    for name, draw in _drawings(report):
        save_figure(into, name, draw)


def save_figure(into: Change | RunFolder, name: str, *draws: Callable[["Axes"], "Axes"]) -> None:
    """One figure as PNG and SVG, the same bytes for the same data; several drawings stand in lines of three."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"svg.hashsalt": "certcal", "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(style):
        across, down = min(len(draws), 3), -(-len(draws) // 3)
        figure = Figure(figsize=(5 * across, 4.5 * down), layout="constrained")
        FigureCanvasAgg(figure)
        for place, draw in enumerate(draws, start=1):
            draw(figure.add_subplot(down, across, place))
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
            into.write(f"figures/{name}.{kind}", buffer.getvalue())


def _drawings(report: Report) -> Iterator[tuple[str, Callable[["Axes"], "Axes"]]]:
    shown = default_view(report)
    row = report.rows[shown]
    at = f"R = {exactly(row.radius)}"
    yield "calibration_error", lambda ax: plot_errors(report.rows, ax=ax)
    yield "brier_score", lambda ax: plot_errors(report.rows, ax=ax, score="brier")
    yield "certified_accuracy", lambda ax: plot_certified_accuracy(report.rows, ax=ax)
    yield "widths", lambda ax: _titled(plot_widths(prepare_widths(report, shown), ax=ax), at)
    curves = reliability_at(report, shown)
    boxes, moves = prepare_boxes(report, shown), prepare_moves(report, shown)
    if curves is not None:
        clean = f"clean: ECE {curves[0].error:.1%}"
        worst = f"worst case at {at}: ECE {percent(row.certified_ece, Rounding.UP, 1)}"
        yield "reliability_clean", lambda ax: plot_reliability(curves[0], ax=ax, title=clean)
        yield (
            "reliability_worst",
            lambda ax: plot_reliability(curves[1], ax=ax, title=worst, colour=INCORRECT, interval=False),
        )
    if boxes.inputs:
        yield "certified_confidences", lambda ax: _titled(plot_certified_boxes(boxes, ax=ax), at)
    if moves.inputs:
        yield "moves", lambda ax: _titled(plot_moves(moves, ax=ax), at)


def _titled(axes: "Axes", title: str) -> "Axes":
    axes.set_title(title)
    return axes
