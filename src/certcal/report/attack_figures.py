"""Figures of attacks: clean, attacked and certified errors against the radius."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from certcal.inputs import check_choice
from certcal.report.attacks import SandwichRecord
from certcal.report.figures import CORRECT, INCORRECT, NEUTRAL
from certcal.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def prepare_sandwich_curves(record: SandwichRecord, *, score: str = "ece") -> SandwichCurves:
    """The curves of the sandwich, for the ECE or with `score="brier"` for the Brier score.

    Paper: —; docs/attacks.md.
    """
    check_choice("score", score, ("ece", "brier"))
    rows = [record.rows[place] for place in record.strongest()]
    refuted = {row["radius"] for row in record.rows if not row["holds"]}

    def column(name: str) -> FloatArray:
        return np.array([row[name] for row in rows], dtype=np.float64)

    return SandwichCurves(
        score,
        radius=column("radius"),
        clean=column(f"clean_{score}"),
        attacked=column(f"attacked_{score}"),
        certified=column(f"certified_{score}"),
        limit=column(f"limit_{score}"),
        refuted=np.array([row["radius"] in refuted for row in rows]),
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
