"""What a notebook shows of attacks and recalibration, as `display.py` does of evaluations."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from certcal.attacks import AceTable, Attacked, CalibrationAttack, Sandwich
from certcal.recalibration import AnyMap, Choice, HeldOut, Scores, TradeOff
from certcal.report.attacks import (
    SANDWICH_COLUMNS,
    ace_cells,
    ace_heads,
    ace_sentence,
    ace_title,
    sandwich_cells,
    verdict,
)
from certcal.report.display import as_html, draw, html_table, shown
from certcal.report.figures import (
    CORRECT,
    NEUTRAL,
    axes_of,
    by_correctness,
    finished,
    plot_reliability,
    plot_sandwich,
    plot_trade_off,
)
from certcal.report.recalibrated import SCORES, chosen_because, mapped, score_rows, splits_shown, warnings
from certcal.scalars import exactly
from certcal.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["as_html", "draw"]

FEW = ("radius", "adversary", "inputs", "clean_ece", "attacked_ece", "certified_ece", "limit_ece", "holds")
COMPARED = ("certified_ece", "certified_brier", "brier_all", "auroc")  # of maps side by side
HEADS = ["certified ECE", "certified Brier", "clean Brier, all inputs", "AUROC"]


@as_html.register(Sandwich)
def _sandwich(result: Sandwich) -> str:
    heads = [SANDWICH_COLUMNS[key].label for key in FEW]
    return shown(result, html_table(heads, sandwich_cells(result, FEW)), escape(verdict(result)))


draw.register(Sandwich, plot_sandwich)


@as_html.register(AceTable)
def _ace(result: AceTable) -> str:
    sentence = f"This is {ace_sentence(result)}. The figure is of the strongest attack."
    return shown(result, html_table(ace_heads(result), ace_cells(result)), escape(sentence))


@draw.register(AceTable)
def _draw_ace(result: AceTable, *, ax: "Axes | None" = None) -> "Axes":
    place = result.strongest()
    title = ace_title(result.rows[place], stronger=result.stronger)
    return plot_reliability(result.curves[place], ax=ax, title=title)


@as_html.register(Attacked)
def _attacked(result: Attacked) -> str:
    lines = [
        ["inputs", f"{len(result):,}"],
        ["budget", f"{result.norm} ≤ {result.epsilon:.4g}"],
        ["inputs that moved", f"{int((result.updates > 0).sum()):,}"],
        ["mean loss before", f"{result.clean_loss.mean():.4f}"],
        ["mean loss after", f"{result.loss.mean():.4f}"],
    ]
    return shown(result, html_table(["attacked inputs", ""], lines))


@draw.register(Attacked)
def _draw_attacked(result: Attacked, *, ax: "Axes | None" = None) -> "Axes":
    return _before_after(result.clean_loss, result.loss, None, "loss", ax)


@as_html.register(CalibrationAttack)
def _calibration(result: CalibrationAttack) -> str:
    lines = [
        ["inputs", f"{len(result):,}"],
        ["adversary", str(result.adversary)],
        ["budget", f"l2 ≤ {result.epsilon:.4g}"],
    ]
    told = "Confidences are those of the attack's own few draws, on which it was optimised: they are too extreme."
    return shown(result, html_table(["attacked inputs", ""], lines), told)


@draw.register(CalibrationAttack)
def _draw_calibration(result: CalibrationAttack, *, ax: "Axes | None" = None) -> "Axes":
    return _before_after(result.seen_before, result.seen_after, result.correct, "confidence", ax)


def _before_after(
    before: FloatArray, after: FloatArray, correct: BoolArray | None, what: str, ax: "Axes | None"
) -> "Axes":
    """One value of each input after an attack against the same before."""
    axes = axes_of(ax)
    if correct is None:
        axes.scatter(before, after, s=9, color=CORRECT)
    else:
        for chosen, colour, label in by_correctness(correct):
            axes.scatter(before[chosen], after[chosen], s=9, color=colour, label=label)
    axes.axline((0, 0), slope=1, color=NEUTRAL, linewidth=0.8, linestyle="--")
    return finished(axes, xlabel=f"{what} before", ylabel=f"{what} after")


@as_html.register(AnyMap)
def _map(result: AnyMap) -> str:
    about = result.about
    known = [
        ["kind", result.kind],
        ["fitted for", ", ".join(f"R = {exactly(radius)}" for radius in about.get("radii", []))],
        ["clean weight", f"{about['clean_weight']:g}" if "clean_weight" in about else ""],
        ["logits divided by", "" if result.divisor is None else f"{result.divisor:g}"],
        ["unchanged because", str(about.get("reason", ""))],
    ]
    words = "Confidences and their certified bounds go through the map; predictions stay as they are."
    return shown(result, html_table(["map of confidences", ""], [line for line in known if line[1]]), words)


@draw.register(AnyMap)
def _draw_map(result: AnyMap, *, ax: "Axes | None" = None) -> "Axes":
    axes, graph, own = axes_of(ax), np.linspace(0, 1, 401), mapped(result)
    what = "confidence" if result.stages[0] is None else "a draw's score"
    axes.plot([0, 1], [0, 1], color=NEUTRAL, linewidth=0.8, linestyle="--")
    axes.plot(graph, own.transform(graph), color=CORRECT)
    axes.set(xlabel=f"{what} before", ylabel=f"{what} after", xlim=(0, 1), ylim=(0, 1.01))
    return axes


@as_html.register(HeldOut)
def _held_out(result: HeldOut) -> str:
    radii = sorted({row.radius for row in result.rows})
    heads = "before", "after", "spread"
    tables = [html_table([f"held out, R = {exactly(one)}", *heads], score_rows(result, one)) for one in radii]
    told = [
        f"Means over {splits_shown(result)}, always on inputs that no map was fitted on, and the standard deviation "
        "between splits. Predictions are the same before and after. The figure is the map of the first split.",
        *warnings(result, radii[-1]),
    ]
    return shown(result, "".join(tables), escape(" ".join(told)))


@as_html.register(TradeOff)
def _trade_off(result: TradeOff) -> str:
    pairs = [
        ("no map", result.identity),
        *((f"{one:g}", own) for one, own in zip(result.clean_weight, result.scores, strict=True)),
    ]
    lines = [[name, *_scores(own)] for name, own in pairs]
    told = f"Means over splits, at R = {exactly(result.radius)}, on inputs that no map was fitted on."
    return shown(result, html_table(["weight of clean points", *HEADS], lines), told)


draw.register(TradeOff, plot_trade_off)


@as_html.register(Choice)
def _choice(result: Choice) -> str:
    tried = [("no map", result.untouched), *((one.name, own) for one, own in result.tried)]
    lines = [[name, *_scores(own), "chosen" if name == result.chosen.name else ""] for name, own in tried]
    return shown(result, html_table(["map", *HEADS, ""], lines), escape(chosen_because(result)))


@draw.register(HeldOut | Choice)
def _draw_kept(result: HeldOut | Choice, *, ax: "Axes | None" = None) -> "Axes":
    return draw(result.map, ax=ax)


def _scores(own: Scores) -> list[str]:
    return [SCORES[key].show(getattr(own, key)) for key in COMPARED]
