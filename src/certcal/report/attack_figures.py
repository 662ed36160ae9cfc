"""Figures of attacks: errors against the radius, and reliability before and after."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from certcal.attacks import AceTable, Sandwich
from certcal.inputs import check_choice
from certcal.metrics import ReliabilityCurve
from certcal.report.attacks import ace_title
from certcal.report.figures import CORRECT, INCORRECT, NEUTRAL, plot_reliability
from certcal.report.tables import exactly
from certcal.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Callable[["Axes"], "Axes"]
ATTACKED = "#b8761f"  # between the two, and as dark as they are in grey


@dataclass(frozen=True, eq=False)
class SandwichCurves:
    """One entry per radius, rising: the strongest attack between what is clean and what is certified."""

    score: str  # "ece" or "brier"
    radius: FloatArray
    clean: FloatArray
    attacked: FloatArray
    certified: FloatArray
    limit: FloatArray  # the most that the attacked estimate may show if the certificates are sound
    refuted: BoolArray  # where an attack contradicts them


def prepare_sandwich_curves(record: Sandwich, *, score: str = "ece") -> SandwichCurves:
    """The curves of the sandwich, for the ECE or with `score="brier"` for the Brier score.

    Paper: —; docs/attacks.md.
    """
    check_choice("score", score, ("ece", "brier"))
    rows = [record.rows[place] for place in record.strongest()]
    refuted = {row.radius for row in record.rows if not row.holds}

    def column(name: str) -> FloatArray:
        return np.array([getattr(row, name) for row in rows], dtype=np.float64)

    return SandwichCurves(
        score,
        radius=column("radius"),
        clean=column(f"clean_{score}"),
        attacked=column(f"attacked_{score}"),
        certified=column(f"certified_{score}"),
        limit=column(f"limit_{score}"),
        refuted=np.array([row.radius in refuted for row in rows]),
    )


def plot_sandwich(curves: SandwichCurves, *, ax: "Axes | None" = None) -> "Axes":
    """Clean, attacked and certified against the radius; the shade is what lies between attack and certificate."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(5, 4.5), layout="constrained")[1]
    axes, size = ax, 3.5
    axes.fill_between(curves.radius, curves.attacked, curves.certified, color=INCORRECT, alpha=0.1, linewidth=0)
    axes.plot(curves.radius, curves.limit, ":", color=NEUTRAL, label="refuted above this")
    axes.plot(curves.radius, curves.certified, "-o", color=INCORRECT, label="certified (from above)", markersize=size)
    axes.plot(curves.radius, curves.attacked, "-s", color=ATTACKED, label="attacked (from below)", markersize=size)
    axes.plot(curves.radius, curves.clean, "-o", color=CORRECT, label="clean", markersize=size)
    if curves.refuted.any():
        where = curves.radius[curves.refuted], curves.attacked[curves.refuted]
        axes.plot(*where, "x", color="black", markersize=10, markeredgewidth=2, label="REFUTED")
    axes.set(xlabel="radius R", ylabel={"ece": "ECE", "brier": "Brier score"}[curves.score])
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, columnspacing=1.2)
    return axes


def attack_diagrams(sandwich: Sandwich | None, ace: AceTable | None, *, radius: float) -> dict[str, list[Panel]]:
    """What draws the panels of each figure, by its name.

    The sandwich, reliability before and after at the attacked radius closest to that given, and the paper's five
    diagrams.
    """
    figures: dict[str, list[Panel]] = {}
    if sandwich is not None:
        curves = prepare_sandwich_curves(sandwich)
        figures["sandwich"] = [lambda ax: plot_sandwich(curves, ax=ax)]
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
