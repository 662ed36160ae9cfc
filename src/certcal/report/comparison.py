"""What a study of training shows: selected models beside the paper's, and what fine-tuning changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from certcal.errors import InputError
from certcal.evaluation import Outcome, Rounding, Selection, pareto_front, percent
from certcal.report.figures import CORRECT, NEUTRAL, axes_of, finished, style_of
from certcal.report.tables import markdown_text
from certcal.scalars import check_number, guarded
from certcal.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Certified errors that models are selected by: our name, the paper's, the field of `Selection` and that of `Outcome`.
SCORES = (("CCE", "ACCE", "ece", "certified_ece"), ("CBS", "CBS", "brier", "certified_brier"))


@dataclass(frozen=True)
class Line:
    """One method and metric over the radii, in percent; None where nothing was selected or printed."""

    metric: str
    method: str
    values: tuple[str | None, ...]  # ours, certified errors rounded up
    paper: tuple[float | None, ...]
    best: tuple[bool, ...]  # whether ours is the least of all methods


@dataclass(frozen=True)
class Comparison:
    """The whole table."""

    radii: tuple[float, ...]
    accuracy: tuple[str, ...]  # range of certified accuracies compared, ours
    paper_accuracy: tuple[str | None, ...]
    lines: tuple[Line, ...]
    has_paper: bool
    below: str = ""  # where our best accuracy is below the paper's range, and by how much
    above: str = ""  # where all models that are shown are above it
    outside: tuple[str, ...] = ()  # per radius, methods none of whose models comes within it, each at its most accurate


@guarded
def comparison_table(
    selections: Sequence[Selection],
    paper: Mapping[str, Any] | None,
    *,
    methods: Sequence[str] = (),
    outcomes: Sequence[Outcome] = (),
) -> Comparison:
    """Selected models per metric and method over radii, the methods in the order given.

    Of the outcomes that they were selected from, it names methods that are not among them.

    Paper: Sec. 5.   Errs: certified errors are rounded up.
    """
    radii, theirs, lines = tuple(one.radius for one in selections), paper or {}, []
    for name, theirs_name, selected, score in SCORES:
        found = [
            {method: getattr(model, score) for method, model in getattr(one, selected).items()} for one in selections
        ]
        printed = theirs.get(theirs_name, {})
        for method in dict.fromkeys([*methods, *(method for own in found for method in own), *printed]):
            values = tuple(
                percent(own[method], Rounding.UP, 2).removesuffix(" %") if method in own else None for own in found
            )
            best = tuple(method in own and own[method] == min(own.values()) for own in found)
            lines.append(Line(name, method, values, _at(radii, theirs, printed.get(method)), best))
    accuracies = tuple("—" if one.best_accuracy == 0 else _range(one) for one in selections)
    ends = _at(radii, theirs, theirs.get("CA"))
    ranges = tuple(None if own is None else f"{own[0]}–{own[1]}" for own in ends)
    both = [(one, own) for one, own in zip(selections, ends, strict=True) if own]
    below = _gaps((one.radius, own[0] - 100 * one.best_accuracy) for one, own in both)
    above = _gaps(((one.radius, _least(one) - own[1]) for one, own in both), over=0.5)  # the ends are rounded
    outside = tuple(told for one in selections if (told := _outside(one, outcomes)))
    return Comparison(radii, accuracies, ranges, tuple(lines), bool(paper), below, above, outside)


def _least(selection: Selection) -> float:
    """The least certified accuracy, in percent, of the models selected; NaN if there are none."""
    shown = [one.certified_accuracy for one in (*selection.ece.values(), *selection.brier.values())]
    return 100 * min(shown, default=np.nan)


def _gaps(points: Iterable[tuple[float, float]], *, over: float = 0.0) -> str:
    return ", ".join(f"{gap:.1f} at R = {radius:g}" for radius, gap in points if gap > over)


def _outside(selection: Selection, outcomes: Sequence[Outcome]) -> str:
    """The most accurate model of each method that has none within the accuracies that are compared."""
    here = sorted((one for one in outcomes if one.radius == selection.radius), key=lambda one: one.certified_accuracy)
    left = {one.method: one for one in here if one.certified_accuracy > 0 and one.method not in selection.ece}
    told = []
    for method, one in left.items():
        scores = (percent(own, Rounding.UP, 2).removesuffix(" %") for own in (one.certified_ece, one.certified_brier))
        accuracy = percent(one.certified_accuracy, Rounding.DOWN, 1).removesuffix(" %")
        told.append(f"{method} with CA {accuracy}, CCE {next(scores)}, CBS {next(scores)}")
    return f"R = {selection.radius:g}: {'; '.join(told)}" if told else ""


def _range(compared: Selection) -> str:
    """The certified accuracies that are compared, in percent, rounded down."""
    ends = (percent(own, Rounding.DOWN, 1) for own in (compared.least_accuracy, compared.best_accuracy))
    return "–".join(own.removesuffix(" %") for own in ends)


def _at(radii: Sequence[float], paper: Mapping[str, Any], line: Sequence[Any] | None) -> tuple[Any, ...]:
    """A line of the paper's table at our radii; None where it has nothing."""
    found = {} if line is None else dict(zip(map(float, paper["radii"]), line, strict=True))
    return tuple(found.get(radius) for radius in radii)


def comparison_cells(table: Comparison) -> list[list[str]]:
    """The table as text: a header and rows of metric, method and a cell for each radius, the least in bold."""
    head = ["metric", "method", *(f"R = {radius:g}" for radius in table.radii)]
    accuracy = [_beside(own, theirs) for own, theirs in zip(table.accuracy, table.paper_accuracy, strict=True)]
    rows = [head, ["CA", "", *accuracy]]
    for line in table.lines:
        if table.outside and all(own is None for own in (*line.values, *line.paper)):
            continue  # named below the table
        cells = []
        for value, theirs, best in zip(line.values, line.paper, line.best, strict=True):
            own = "—" if value is None else f"**{value}**" if best else value
            cells.append(_beside(own, None if theirs is None else f"{theirs:.2f}"))
        rows.append([line.metric, line.method, *cells])
    return rows


def comparison_markdown(table: Comparison, *, held_out: bool = False) -> str:
    """The table as Markdown, with a line on how to read it; with `held_out`, of models that such images chose."""
    head, *rows = comparison_cells(table)
    text = markdown_text(head, rows, sides="ll" + "r" * len(table.radii))
    return f"{text}\n{reading(table, held_out=held_out)}"


def reading(table: Comparison, *, held_out: bool = False) -> str:
    """How to read the table; with `held_out`, one of models that such images chose."""
    own = (
        "In percent. CA, certified accuracy: the 3 points up to the best model's at R, from which all are taken. Of "
        "each method's models there, the least certified calibration error (CCE, exact) and certified Brier score "
        "(CBS); least of all in bold. A dash: no model of the method is there, or no input is certified at R."
    )
    if held_out:
        own += (
            " Held-out training images chose, by their CA, which is the one shown, and by their errors. The errors "
            "shown are of the test inputs, which took no part in the choice."
        )
    if table.has_paper:
        own += " In brackets: the paper, whose ACCE approximates the CCE from below"
        own += ", and which chose by its test inputs." if held_out else "."
    if table.below:
        own += f" The best CA is below the paper's range, in points: {table.below}. So errors are not comparable there."
    if table.above:
        own += f" All shown are above the paper's range, in points: {table.above}. So errors are not comparable there."
    if table.outside:
        listed = "".join(f"\n- {one}" for one in table.outside)
        own += f"\n\nOutside these points, the most accurate model of each method that has none there:\n{listed}"
    return own


def _beside(own: str, theirs: str | None) -> str:
    return own if theirs is None else f"{own} ({theirs})"


@dataclass(frozen=True, eq=False)
class Changes:
    """Models fine-tuned from one baseline, at one radius, in percentage points away from it."""

    radius: float
    baseline: Outcome
    method: tuple[str, ...]
    accuracy: FloatArray  # certified accuracy gained
    error: FloatArray  # certified calibration error gained; below 0 is better
    front: BoolArray  # models that neither another one nor the baseline beats


@guarded
def prepare_changes(outcomes: Sequence[Outcome], *, baseline: str, radius: float) -> Changes:
    """The changes that fine-tuning a baseline made at a radius.

    Paper: Sec. 5.
    Raises: InputError if the baseline has no outcome at the radius.
    """
    check_number("radius", radius, "be a number ≥ 0", lambda value: value >= 0)
    here = [one for one in outcomes if one.radius == radius and one.baseline == baseline]
    start = next((one for one in here if one.model == baseline), None)
    if start is None:
        raise InputError.expected("baseline", f"be a model evaluated at R = {radius:g}", repr(baseline))
    moved = [one for one in here if one is not start and not np.isnan(one.certified_ece)]
    accuracy = 100 * np.array([one.certified_accuracy - start.certified_accuracy for one in moved])
    error = 100 * np.array([one.certified_ece - start.certified_ece for one in moved])
    # The baseline takes part in the front, at the origin.
    front = pareto_front(np.append(accuracy, 0.0), np.append(error, 0.0))[:-1]
    return Changes(radius, start, tuple(one.method for one in moved), accuracy, error, front)


def plot_changes(changes: Changes, *, ax: "Axes | None" = None, methods: Sequence[str] | None = None) -> "Axes":
    """Each model as a point; below and to the right of the baseline it is better in both."""
    axes = axes_of(ax)
    axes.axhline(0, color=NEUTRAL, linewidth=0.8)
    axes.axvline(0, color=NEUTRAL, linewidth=0.8)
    names = list(dict.fromkeys(changes.method)) if methods is None else list(methods)
    scatter_methods(axes, names, changes.method, changes.accuracy, changes.error)
    _front(axes, changes)
    axes.plot(0, 0, "*", color="black", markersize=13, label="baseline")
    axes.margins(0.12)
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    # Room for the better side, even if nothing is there.
    low, right = min(low, -0.15 * (high - low)), max(right, 0.35 * (right - left))
    axes.fill_between([0, right], low, 0, color=CORRECT, alpha=0.06, linewidth=0)
    axes.text(right, low, "better in both ", ha="right", va="bottom", color=CORRECT)
    axes.set(xlim=(left, right), ylim=(low, high))
    return finished(
        axes,
        xlabel="change of certified accuracy, points",
        ylabel="change of CCE, points",
        title=f"R = {changes.radius:g}, from {changes.baseline.model}",
    )


def _front(axes: "Axes", changes: Changes) -> None:
    """A ring around each model of the front, and steps between them: what one can have of both at once."""
    x, y = changes.accuracy[changes.front], changes.error[changes.front]
    if len(x):
        axes.scatter(x, y, s=110, facecolors="none", edgecolors="black", linewidths=0.9, label="Pareto front")
    if not ((changes.accuracy >= 0) & (changes.error <= 0)).any():  # the baseline is on the front itself
        x, y = np.append(x, 0.0), np.append(y, 0.0)
    draw_steps(axes, x, y, "black")


def scatter_methods(
    axes: "Axes", names: Iterable[str], method: Sequence[str], x: FloatArray, y: FloatArray, *, alpha: float = 0.75
) -> None:
    """Models as points with the marker and the colour of their method, in the order of the names."""
    for name in names:
        chosen, (colour, marker) = np.array(method) == name, style_of(name)
        if chosen.any():
            axes.scatter(x[chosen], y[chosen], s=34, marker=marker, color=colour, alpha=alpha, label=name)


def draw_steps(axes: "Axes", x: FloatArray, y: FloatArray, colour: str) -> None:
    """Dotted steps between the points of a Pareto front."""
    order = np.lexsort((y, x))
    axes.step(x[order], y[order], where="pre", color=colour, linewidth=0.9, linestyle=":")
