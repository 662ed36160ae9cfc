"""Figures for papers: each `plot_*` draws what a `prepare_*` of `certcal.report.views` gives, on the axes given."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from certcal.attacks import AceTable, Sandwich
from certcal.errors import InputError, kind_of
from certcal.evaluation import Row
from certcal.metrics import ReliabilityCurve
from certcal.recalibration import Choice, TradeOff
from certcal.report.attacks import ace_title
from certcal.report.views import CertifiedInputs, Widths
from certcal.scalars import check_choice, exactly, guarded
from certcal.types import BoolArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Readable for colour-blind eyes and in grey.
CORRECT, INCORRECT, NEUTRAL = "#1b7a8c", "#d1495b", "#8a8f98"
ATTACKED = "#b8761f"  # between the two, and as dark as they are in grey
# Colour and marker of each method of training, the same in all figures. Told apart in grey by shape.
STYLES = {
    "AT": (CORRECT, "o"),
    "Finetuned AT": ("#457b9d", "D"),
    "Brier-ACT": ("#e0a030", "s"),
    "ACCE-ACT": (INCORRECT, "^"),
    "ACCE-ACT*": ("#b56576", "v"),
    "CCE-ACT": ("#5b5ea6", "P"),
    "Certified Brier": ("#6a994e", "X"),
    "Noise": ("#9c6644", "<"),
    "Consistency": ("#3d3d3d", ">"),
    "baseline": (NEUTRAL, "h"),
}
Panel = Callable[["Axes"], "Axes"]
_SCORES = {"ece": "ECE", "brier": "Brier score"}


def plot_certified_boxes(boxes: CertifiedInputs, *, ax: "Axes | None" = None) -> "Axes":
    """Certified confidences as boxes coloured by correctness, the worst case as a tick in each."""
    axes = axes_of(ax)
    place = np.arange(len(boxes.lower))
    # A hair of height keeps point intervals visible.
    height = np.maximum(boxes.upper - boxes.lower, 0.004)
    for chosen, colour, label in by_correctness(boxes.correct):
        axes.bar(place[chosen], height[chosen], 0.8, boxes.lower[chosen], color=colour, alpha=0.45, label=label)
    shown = f"{len(place)} of {boxes.inputs}" if len(place) < boxes.inputs else f"{boxes.inputs}"
    if boxes.worst is not None:
        axes.hlines(boxes.worst, place - 0.4, place + 0.4, color="black", linewidth=1.4, label="worst case")
    label = f"{shown} inputs, by certified confidence"
    return finished(axes, xlabel=label, ylabel="confidence", ylim=(0, 1.01), xlim=(-1, len(place)))


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
    axes = axes_of(ax)
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
    named = title or f"ECE {curve.error:.1%}"
    return finished(axes, xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.01), title=named)


def plot_errors(rows: Sequence[Row], *, ax: "Axes | None" = None, score: str = "ece") -> "Axes":
    """The ECE, or with `score="brier"` the Brier score, against the radius: clean, certified, and jointly certified."""
    name = _SCORES[check_choice("score", score, tuple(_SCORES))]
    axes, rows = axes_of(ax), sorted(rows, key=lambda row: row.radius)
    radius = [row.radius for row in rows]
    for key, label, colour, style in (
        (f"joint_{score}", "joint", INCORRECT, ":"),
        (f"certified_{score}", "certified", INCORRECT, "-"),
        (score, "clean", CORRECT, "-"),
    ):
        axes.plot(
            radius, [getattr(row, key) for row in rows], style, color=colour, marker="o", markersize=3.5, label=label
        )
    if score == "ece":
        for method in sorted({name for row in rows for name in row.approximations}):
            values = [row.approximations.get(method, np.nan) for row in rows]
            axes.plot(radius, values, "--", color=NEUTRAL, label=f"approximated, {method}")
    axes.set_ylim(bottom=0)
    return finished(axes, xlabel="radius R", ylabel=name)


def plot_certified_accuracy(rows: Sequence[Row], *, ax: "Axes | None" = None) -> "Axes":
    """Certified accuracy against the radius, per input and for the whole set at once."""
    axes, rows = axes_of(ax), sorted(rows, key=lambda row: row.radius)
    radius = [row.radius for row in rows]
    axes.plot(
        radius, [row.certified_accuracy for row in rows], color=CORRECT, marker="o", markersize=3.5, label="certified"
    )
    axes.plot(radius, [row.joint_accuracy for row in rows], ":", color=CORRECT, label="joint")
    return finished(axes, xlabel="radius R", ylabel="accuracy", ylim=(0, 1.01))


def plot_widths(widths: Widths, *, ax: "Axes | None" = None) -> "Axes":
    """How wide the certified confidence intervals are, by correctness."""
    axes = axes_of(ax)
    left, width, below = widths.edges[:-1], np.diff(widths.edges), np.zeros_like(widths.correct)
    for counts, colour, label in ((widths.correct, CORRECT, "correct"), (widths.incorrect, INCORRECT, "incorrect")):
        if counts.any():
            axes.bar(left, counts, width, below, align="edge", color=colour, alpha=0.7, label=label)
            below = below + counts
    return finished(axes, xlabel="width of the certified confidence interval", ylabel="inputs", xlim=(0, 1))


def plot_moves(moves: CertifiedInputs, *, ax: "Axes | None" = None) -> "Axes":
    """Where the worst case sends each input: its worst confidence against its estimated one."""
    axes = axes_of(ax)
    clean, worst = np.asarray(moves.clean), np.asarray(moves.worst)
    axes.plot([0, 1], [0, 1], color=NEUTRAL, linewidth=1, linestyle="--", label="unmoved")
    for chosen, colour, label in by_correctness(moves.correct):
        axes.vlines(clean[chosen], clean[chosen], worst[chosen], color=colour, linewidth=0.5, alpha=0.35)
        axes.scatter(clean[chosen], worst[chosen], s=9, color=colour, label=label)
    axes.set(xlim=(0, 1.01), ylim=(0, 1.01))
    return finished(axes, xlabel="estimated confidence", ylabel="confidence at the worst case")


def plot_trade_off(curve: TradeOff, *, ax: "Axes | None" = None) -> "Axes":
    """Clean against certified Brier score of held-out inputs as clean points gain weight, and without a map."""
    axes = axes_of(ax)
    certified, clean = curve.of("certified_brier"), curve.of("brier_all")
    axes.plot(certified, clean, color=CORRECT, marker="o", markersize=4, label="recalibrated")
    before = curve.identity
    axes.plot(before.certified_brier, before.brier_all, "D", color=INCORRECT, label="without a map")
    room = np.ptp([*certified, before.certified_brier]), np.ptp([*clean, before.brier_all])
    last = None
    for share, x, y in zip(curve.clean_weight, certified, clean, strict=True):
        point = (x, y)
        # A label only where the one before leaves room for it.
        if last is None or max(abs(a - b) / (r or 1) for a, b, r in zip(point, last, room, strict=True)) > 0.06:
            axes.annotate(f"λ = {share:g}", point, xytext=(5, 4), textcoords="offset points", fontsize=8)
            last = point
    label = f"certified Brier score of inputs certified at R = {exactly(curve.radius)}"
    return finished(axes, xlabel=label, ylabel="Brier score without an attack, all inputs")


def plot_choice(choice: Choice, against: str, *, ax: "Axes | None" = None) -> "Axes":
    """Certified ECE of every map that was tried against its AUROC or clean Brier score, and which one was chosen."""
    axes = axes_of(ax)
    x, y = (np.array([getattr(own, name) for own in choice.scores]) for name in (against, "certified_ece"))
    allowed = np.array([choice.allows(own) for own in choice.scores])
    axes.plot(*np.transpose(choice.pareto(against)), color=NEUTRAL, linewidth=1, drawstyle="steps-post")
    axes.plot(x[~allowed], y[~allowed], "o", color=NEUTRAL, fillstyle="none", markersize=4, label="beyond a limit")
    axes.plot(x[allowed], y[allowed], "o", color=CORRECT, markersize=4, label="allowed")
    chosen = [place for place, (one, _) in enumerate(choice.tried) if one == choice.chosen]
    axes.plot(x[chosen], y[chosen], "o", color=CORRECT, markersize=8, label="chosen")
    axes.plot(getattr(choice.untouched, against), choice.untouched.certified_ece, "D", color=INCORRECT, label="no map")
    axes.axvline(choice.limits[against], color=NEUTRAL, linewidth=1, linestyle=":")
    name = "AUROC, all inputs" if against == "auroc" else "Brier score without an attack, all inputs"
    return finished(axes, xlabel=name, ylabel=f"certified ECE at R = {exactly(choice.radius)}")


@guarded
def plot_sandwich(record: Sandwich, *, score: str = "ece", ax: "Axes | None" = None) -> "Axes":
    """Clean, attacked and certified ECE, or with `score="brier"` Brier score, against the radius.

    At each radius the strongest attack is drawn; the shade is what lies between attack and certificate.

    Paper: —; docs/attacks.md.
    """
    label = _SCORES[check_choice("score", score, tuple(_SCORES))]
    rows = [record.rows[place] for place in record.strongest()]
    refuted = {row.radius for row in record.rows if not row.holds}
    radius, axes = [row.radius for row in rows], axes_of(ax)
    clean, attacked, certified, limit = (
        [getattr(row, f"{kind}_{score}") for row in rows] for kind in ("clean", "attacked", "certified", "limit")
    )
    axes.fill_between(radius, attacked, certified, color=INCORRECT, alpha=0.1, linewidth=0)
    axes.plot(radius, limit, ":", color=NEUTRAL, label="refuted above this")
    for values, style, colour, name in (
        (certified, "-o", INCORRECT, "certified (from above)"),
        (attacked, "-s", ATTACKED, "attacked (from below)"),
        (clean, "-o", CORRECT, "clean"),
    ):
        axes.plot(radius, values, style, color=colour, label=name, markersize=3.5)
    if refuted:
        crossed = [value if row.radius in refuted else math.nan for row, value in zip(rows, attacked, strict=True)]
        axes.plot(radius, crossed, "x", color="black", markersize=10, markeredgewidth=2, label="REFUTED")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    return finished(axes, columns=2, xlabel="radius R", ylabel=label)


def attack_diagrams(sandwich: Sandwich | None, ace: AceTable | None, *, radius: float) -> dict[str, list[Panel]]:
    """What draws the panels of each figure, by its name.

    The sandwich, reliability before and after at the attacked radius closest to that given, and the paper's five
    diagrams.
    """
    figures: dict[str, list[Panel]] = {}
    if sandwich is not None:
        figures["sandwich"] = [lambda ax: plot_sandwich(sandwich, ax=ax)]
        place = sandwich.nearest(radius)
        row, before, after = sandwich.rows[place], sandwich.before[place], sandwich.after[place]
        if before is not None and after is not None:
            where = f"{row.adversary}, R = {exactly(row.radius)}"
            figures["attack_reliability"] = [_diagram(before, "no attack"), _diagram(after, where, attacked=True)]
    if ace is not None:
        worst = ace.rows[ace.strongest()].epsilon
        figures["ace_reliability"] = [
            _diagram(curve, ace_title(row, stronger=ace.stronger), attacked=place > 0)
            for place, (row, curve) in enumerate(zip(ace.rows, ace.curves, strict=True))
            if place == 0 or row.epsilon == worst
        ]
    return figures


def _diagram(curve: ReliabilityCurve, title: str, *, attacked: bool = False) -> Panel:
    colour = ATTACKED if attacked else CORRECT
    named = f"{title}: ECE {100 * curve.error:.1f} %"
    return lambda ax: plot_reliability(curve, ax=ax, title=named, colour=colour, interval=not attacked)


def style_of(method: str) -> tuple[str, str]:
    """The colour and marker of a method of training, the same in all figures; of one not listed, by its name."""
    colours, markers = zip(*STYLES.values(), strict=True)
    others = [pair for pair in product(colours, markers) if pair not in STYLES.values()]
    return STYLES.get(method) or others[crc32(method.encode(errors="replace")) % len(others)]


def by_correctness(correct: BoolArray) -> Iterator[tuple[BoolArray, str, str]]:
    """Right and wrong inputs where there are any, with their colour and name."""
    both = (correct, CORRECT, "correct"), (~correct, INCORRECT, "incorrect")
    return (one for one in both if one[0].any())


def finished(axes: "Axes", *, columns: int = 3, **labels: Any) -> "Axes":
    """The axes with their labels, and below them the legend, in so many columns, if there is anything to name."""
    axes.set(**labels)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=columns, frameon=False, columnspacing=1.2)
    return axes


def axes_of(ax: "Axes | None") -> "Axes":
    """The axes given, or those of a figure of their own."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    if ax is not None:
        raise InputError.expected("ax", "be Axes of matplotlib or None", kind_of(ax))
    return plt.subplots(figsize=(5, 4.5), layout="constrained")[1]
