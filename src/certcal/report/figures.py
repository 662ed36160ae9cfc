"""Figures: `prepare_*` gives arrays, `plot_*` draws them on the axes it is given. Needs the extra `certcal[plot]`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from certcal.metrics.reliability import ReliabilityCurve
from certcal.types import BoolArray, FloatArray
from certcal.worstcase.problem import WorstCaseProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Readable for colour-blind eyes and in grey.
CORRECT, INCORRECT, NEUTRAL = "#1b7a8c", "#d1495b", "#8a8f98"


@dataclass(frozen=True, eq=False)
class CertifiedBoxes:
    """One vertical box per input, from left to right by the middle of its certified confidences."""

    lower: FloatArray
    upper: FloatArray
    correct: BoolArray
    worst: FloatArray | None
    inputs: int  # how many there are in all, of which these are shown


def prepare_certified_boxes(
    problem: WorstCaseProblem, *, worst: FloatArray | None = None, limit: int = 120
) -> CertifiedBoxes:
    """At most `limit` inputs, spread evenly over the whole set ordered by the middle of their bounds.

    Paper: Fig. 1, left.
    """
    order = np.argsort(problem.lower + problem.upper, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(limit, len(order))).round().astype(np.intp)]
    return CertifiedBoxes(
        problem.lower[shown],
        problem.upper[shown],
        problem.correct[shown],
        None if worst is None else worst[shown],
        len(order),
    )


def plot_certified_boxes(boxes: CertifiedBoxes, *, ax: "Axes | None" = None) -> "Axes":
    """Certified confidences as boxes coloured by correctness, the worst case as a tick in each."""
    axes = ax or _new_axes()
    place = np.arange(len(boxes.lower))
    # A hair of height keeps point intervals visible.
    height = np.maximum(boxes.upper - boxes.lower, 0.004)
    for flag, colour, label in ((True, CORRECT, "correct"), (False, INCORRECT, "incorrect")):
        chosen = boxes.correct == flag
        axes.bar(place[chosen], height[chosen], 0.8, boxes.lower[chosen], color=colour, alpha=0.45, label=label)
    if boxes.worst is not None:
        axes.hlines(boxes.worst, place - 0.4, place + 0.4, color="black", linewidth=1.4, label="worst case")
    axes.set(
        xlabel=f"{len(place)} of {boxes.inputs} inputs, by certified confidence",
        ylabel="confidence",
        ylim=(0, 1.01),
        xlim=(-1, len(place)),
    )
    _legend_below(axes)
    return axes


def plot_reliability(
    curve: ReliabilityCurve,
    *,
    ax: "Axes | None" = None,
    colour: str = CORRECT,
    title: str | None = None,
    interval: bool = True,
) -> "Axes":
    """A reliability diagram: accuracy per bin, its gap to the mean confidence, and where the inputs lie.

    Leave out the intervals of the accuracy at a worst case: an adversary's bins are no random sample.
    """
    axes = ax or _new_axes()
    left, width = curve.edges[:-1], np.diff(curve.edges)
    filled, share = curve.count > 0, curve.count / curve.count.sum()
    axes.bar(left, 0.25 * share / share.max(), width, align="edge", color=NEUTRAL, alpha=0.35, label="inputs (scaled)")
    axes.plot([0, 1], [0, 1], color=NEUTRAL, linewidth=1, linestyle="--")
    low, high = np.minimum(curve.accuracy, curve.confidence), np.maximum(curve.accuracy, curve.confidence)
    axes.bar(left[filled], (high - low)[filled], width[filled], low[filled], align="edge", color=colour, alpha=0.3,
             hatch="///", edgecolor=colour, linewidth=0, label="gap")  # fmt: skip
    spread = np.clip([curve.accuracy - curve.lower, curve.upper - curve.accuracy], 0, 1)[:, filled]
    axes.errorbar((left + width / 2)[filled], curve.accuracy[filled], spread if interval else None, color=colour,
                  fmt="o", markersize=4, linewidth=1,
                  label=f"accuracy, {1 - curve.alpha:.0%} interval" if interval else "accuracy")  # fmt: skip
    axes.set(
        xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.01), title=title or f"ECE {curve.error:.1%}"
    )
    _legend_below(axes)
    return axes


def _legend_below(axes: "Axes") -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False, columnspacing=1.2)


def _new_axes() -> "Axes":
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(5, 4.5), layout="constrained")[1]
