"""The leaderboard of a reference pack: certified accuracy against certified errors at each radius, never one number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from certcal.evaluation import Rounding, pareto_front, percent
from certcal.report.comparison import draw_steps, scatter_methods
from certcal.report.figures import NEUTRAL, axes_of, finished
from certcal.report.html import figure_row, fill_page, read_part
from certcal.scalars import exactly

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORES = (("certified_ece", "certified ECE"), ("certified_brier", "certified Brier"))


@dataclass(frozen=True)
class Standing:
    """One model at one radius, as it stands on a leaderboard. Shares, not percent."""

    name: str
    method: str
    radius: float
    certified_accuracy: float
    certified_ece: float
    certified_brier: float
    brier: float  # clean, of all inputs
    about: str = ""  # draws, seed


@dataclass(frozen=True)
class Board:
    """All that is known about one data set: tracks of recomputed models, and what was published."""

    data: str
    tracks: Mapping[str, Sequence[Standing]]  # by title; they are never mixed
    published: Sequence[tuple[str, float, str, str, str]]  # method, radius, range of CA, ACCE, CBS as printed


def leaderboard_page(boards: Sequence[Board]) -> str:
    """The page of all boards; it loads nothing and runs no script."""
    style = read_part("leaderboard.css")
    return fill_page("leaderboard.html.j2", style=style, drawn=True, boards=[_board(one) for one in boards])


def plot_standings(standings: Sequence[Standing], score: str, *, ax: "Axes | None" = None) -> "Axes":
    """Certified accuracy against a certified error, one radius, one track; the Pareto front as steps."""
    axes, label = axes_of(ax), dict(SCORES)[score]
    shown = [one for one in standings if not np.isnan(getattr(one, score))]
    methods = [one.method for one in shown]
    x, y = (np.array([getattr(one, name) for one in shown]) for name in ("certified_accuracy", score))
    scatter_methods(axes, dict.fromkeys(methods), methods, 100 * x, 100 * y, alpha=0.8)
    front = pareto_front(x, y)
    draw_steps(axes, 100 * x[front], 100 * y[front], NEUTRAL)
    axes.margins(0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return finished(axes, xlabel="certified accuracy, %", ylabel=f"{label}, %", ylim=(0, 115 * max([0.01, *y])))


def _board(board: Board) -> dict[str, Any]:
    """One data set: per track and radius figures and a table, then what was published."""
    return {
        "data": board.data,
        "tracks": {title: [*_by_radius(standings)] for title, standings in board.tracks.items()},
        "published": [[method, exactly(radius), *rest] for method, radius, *rest in board.published],
    }


def _by_radius(standings: Sequence[Standing]) -> Iterator[dict[str, Any]]:
    known = [one for one in standings if not np.isnan(one.certified_ece)]
    for radius in sorted({one.radius for one in known}):
        here = [one for one in known if one.radius == radius]
        heads, lines = standing_cells(here)
        figures = figure_row([partial(plot_standings, here, score) for score, _ in SCORES])
        yield {"radius": exactly(radius), "figures": figures, "heads": heads, "lines": lines}


def standing_cells(standings: Sequence[Standing]) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of a table of one radius and track, the most accurate first; the Pareto front in bold."""
    ordered = sorted(standings, key=lambda one: (-one.certified_accuracy, one.certified_ece))
    accuracy = [one.certified_accuracy for one in ordered]
    best = np.any([pareto_front(accuracy, [getattr(one, name) for one in ordered]) for name, _ in SCORES], axis=0)
    lines = [
        [f"**{one.name}**" if front else one.name, one.method, percent(one.certified_accuracy, Rounding.DOWN),
         percent(one.certified_ece, Rounding.UP), percent(one.certified_brier, Rounding.UP),
         percent(one.brier, Rounding.NEAREST), one.about]
        for one, front in zip(ordered, best, strict=True)
    ]  # fmt: skip
    heads = ["model", "method", "certified accuracy", *(label for _, label in SCORES), "clean Brier, all", "evidence"]
    return heads, lines
