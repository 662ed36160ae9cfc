"""Figures of attacks: errors against the radius, and reliability before and after."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from certcal.attacks import AceTable, Sandwich
from certcal.metrics import ReliabilityCurve
from certcal.report.attacks import ace_title
from certcal.report.figures import CORRECT, INCORRECT, NEUTRAL, axes_of, finished, plot_reliability
from certcal.scalars import check_choice, exactly, guarded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Callable[["Axes"], "Axes"]
ATTACKED = "#b8761f"  # between the two, and as dark as they are in grey


@guarded
def plot_sandwich(record: Sandwich, *, score: str = "ece", ax: "Axes | None" = None) -> "Axes":
    """Clean, attacked and certified ECE, or with `score="brier"` Brier score, against the radius.

    At each radius the strongest attack is drawn; the shade is what lies between attack and certificate.

    Paper: —; docs/attacks.md.
    """
    label = {"ece": "ECE", "brier": "Brier score"}[check_choice("score", score, ("ece", "brier"))]
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
