"""What fine-tuning changes: certified calibration error against certified accuracy, around the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from certcal.errors import InputError
from certcal.evaluation import Outcome, pareto_front
from certcal.report.figures import CORRECT, INCORRECT, NEUTRAL, axes_of, finished
from certcal.scalars import check_choice, check_number, guarded
from certcal.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart in grey by shape.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", ">")
COLOURS = (CORRECT, INCORRECT, "#e0a030", "#5b5ea6", "#6a994e", "#b56576", "#457b9d", "#9c6644", "#3d3d3d")
LABELS = {"certified_ece": "CCE", "certified_brier": "CBS"}


@dataclass(frozen=True, eq=False)
class Changes:
    """Models fine-tuned from one baseline, at one radius, in percentage points away from it."""

    radius: float
    score: str  # certified_ece or certified_brier
    baseline: Outcome
    method: tuple[str, ...]
    accuracy: FloatArray  # certified accuracy gained
    error: FloatArray  # score gained; below 0 is better
    front: BoolArray  # models that neither another one nor the baseline beats


@guarded
def prepare_changes(
    outcomes: Sequence[Outcome], *, baseline: str, radius: float, score: str = "certified_ece"
) -> Changes:
    """The changes that fine-tuning a baseline made at a radius.

    Paper: Sec. 5.
    Raises: InputError if the baseline has no outcome at the radius.
    """
    check_choice("score", score, tuple(LABELS))
    check_number("radius", radius, "be a number ≥ 0", lambda value: value >= 0)
    here = [one for one in outcomes if one.radius == radius and one.baseline == baseline]
    start = next((one for one in here if one.model == baseline), None)
    if start is None:
        raise InputError.expected("baseline", f"be a model evaluated at R = {radius:g}", repr(baseline))
    moved = [one for one in here if one is not start and not np.isnan(getattr(one, score))]
    accuracy = 100 * np.array([one.certified_accuracy - start.certified_accuracy for one in moved])
    error = 100 * np.array([getattr(one, score) - getattr(start, score) for one in moved])
    # The baseline takes part in the front, at the origin.
    front = pareto_front(np.append(accuracy, 0.0), np.append(error, 0.0))[:-1]
    return Changes(radius, score, start, tuple(one.method for one in moved), accuracy, error, front)


def plot_changes(changes: Changes, *, ax: "Axes | None" = None, methods: Sequence[str] | None = None) -> "Axes":
    """Each model as a point; below and to the right of the baseline it is better in both."""
    axes, label = axes_of(ax), LABELS[changes.score]
    axes.axhline(0, color=NEUTRAL, linewidth=0.8)
    axes.axvline(0, color=NEUTRAL, linewidth=0.8)
    names = list(dict.fromkeys(changes.method)) if methods is None else list(methods)
    own = np.array(changes.method)
    for name, marker, colour in zip(names, cycle(MARKERS), cycle(COLOURS), strict=False):
        chosen = own == name
        if chosen.any():
            x, y = changes.accuracy[chosen], changes.error[chosen]
            axes.scatter(x, y, s=34, marker=marker, color=colour, alpha=0.75, label=name)
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
        ylabel=f"change of {label}, points",
        title=f"R = {changes.radius:g}, from {changes.baseline.model}",
    )


def _front(axes: "Axes", changes: Changes) -> None:
    """A ring around each model of the front, and steps between them: what one can have of both at once."""
    x, y = changes.accuracy[changes.front], changes.error[changes.front]
    if len(x):
        axes.scatter(x, y, s=110, facecolors="none", edgecolors="black", linewidths=0.9, label="Pareto front")
    if not ((changes.accuracy >= 0) & (changes.error <= 0)).any():  # the baseline is on the front itself
        x, y = np.append(x, 0.0), np.append(y, 0.0)
    order = np.lexsort((y, x))
    axes.step(x[order], y[order], where="pre", color="black", linewidth=0.9, linestyle=":")
