"""The leaderboard of a reference pack: certified accuracy against certified errors at each radius, never one number."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from certcal.errors import several
from certcal.evaluation import Rounding, pareto_front, percent
from certcal.report.comparison import draw_steps, scatter_methods
from certcal.report.figures import NEUTRAL, axes_of, finished
from certcal.report.html import figure_row, fill_page, read_part
from certcal.scalars import exactly
from certcal.types import BoolArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORES = (("certified_ece", "certified ECE"), ("certified_brier", "certified Brier"))
NEAR = 0.1  # of certified accuracy below the best: models that are less accurate are in tables only
_WIDE, _HIGH = 12.4, 2.8  # of a row of figures, in inches
_FEW = 6  # models that a table shows without being asked to


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
    inputs: str = ""  # which these are: fronts are among models on the same ones


@dataclass(frozen=True)
class Track:
    """Models whose confidences were bounded in one way; tracks are never mixed."""

    title: str
    told: str  # what the way is
    standings: Sequence[Standing]


@dataclass(frozen=True)
class Board:
    """All that is known about one data set: tracks of recomputed models, and what was published."""

    data: str
    tracks: Sequence[Track]
    published: Sequence[tuple[str, float, str, str, str]]  # method, radius, range of CA, ACCE, CBS as printed


def leaderboard_page(boards: Sequence[Board]) -> str:
    """The page of all boards; it loads nothing and runs no script."""
    told = {track.title: track.told for board in boards for track in board.tracks}
    return fill_page(
        "leaderboard.html.j2",
        style=read_part("leaderboard.css"),
        drawn=True,
        boards=[_board(one) for one in boards],
        tracks=told,
        near=f"{100 * NEAR:g} points",
    )


def plot_standings(
    standings: Sequence[Standing],
    score: str,
    *,
    ax: "Axes | None" = None,
    methods: Sequence[str] | None = None,
    beside: Sequence[Standing] = (),
    **labels: Any,
) -> "Axes":
    """Certified accuracy against a certified error, one radius, one track; the Pareto fronts as steps.

    `methods` keep their markers from figure to figure, named in a key elsewhere; without them there is a legend. The
    axes also reach what stands `beside` these on other tracks.
    """
    axes, label = axes_of(ax), dict(SCORES)[score]
    shown = [one for one in standings if not np.isnan(getattr(one, score))]
    own = [_literal(one.method) for one in shown]
    x, y = (np.array([getattr(one, name) for one in shown]) for name in ("certified_accuracy", score))
    names = dict.fromkeys(own) if methods is None else [_literal(one) for one in methods]
    scatter_methods(axes, names, own, 100 * x, 100 * y, alpha=0.8)
    front = _front(shown, score)
    for inputs in dict.fromkeys(one.inputs for one in shown):
        steps = front & np.array([one.inputs == inputs for one in shown])
        draw_steps(axes, 100 * x[steps], 100 * y[steps], NEUTRAL)
    near = _near([*shown, *beside])
    right, left = (100 * side([one.certified_accuracy for one in near] or [1.0]) for side in (np.max, np.min))
    room = max(0.08 * (right - left), 0.5)
    top = max([0.01, *(error for one in near if not np.isnan(error := getattr(one, score)))])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlim=(left - room, right + room), ylim=(0, 108 * top))
    finished(axes, xlabel="certified accuracy, %", ylabel=f"{label}, %", **labels)
    if methods is not None and (legend := axes.get_legend()):
        legend.remove()
    return axes


def _literal(method: str) -> str:
    """A name as matplotlib shows it: no mathematics between dollars, and in a legend also where it begins with _."""
    return f"{' ' * method.startswith('_')}{method}".replace("$", r"\$")


def _near(standings: Sequence[Standing]) -> list[Standing]:
    """Those whose certified accuracy is near the best."""
    best = max((one.certified_accuracy for one in standings), default=0.0)
    return [one for one in standings if one.certified_accuracy >= best - NEAR]


def _board(board: Board) -> dict[str, Any]:
    """One data set: per radius the figures of all tracks and a table of each, then what was published."""
    every = [one for track in board.tracks for one in track.standings if not np.isnan(one.certified_ece)]
    methods = list(dict.fromkeys(one.method for one in every))
    radii = sorted({one.radius for one in every})
    return {
        "data": board.data,
        "entries": several(len({one.name for one in every}), "entry", "entries"),
        "key": [(one, figure_row([partial(_draw_key, methods=methods, method=one)], size=(0.2, 0.2)))
                for one in methods],
        "radii": [_radius(board, radius, methods) for radius in radii],
        "published": [([method, exactly(radius), *rest], False) for method, radius, *rest in board.published],
    }  # fmt: skip


def _radius(board: Board, radius: float, methods: Sequence[str]) -> dict[str, Any]:
    """What a board shows at one radius."""
    here = {track.title: [one for one in track.standings if one.radius == radius and not np.isnan(one.certified_ece)]
            for track in board.tracks}  # fmt: skip
    here = {title: own for title, own in here.items() if own}
    every = [one for own in here.values() for one in own]
    rows = [
        figure_row(
            [partial(plot_standings, own, score, methods=methods, beside=every, title=title)
             for title, own in here.items()], size=(_WIDE / max(len(here), 3) - 0.05, _HIGH),
        ) for score, _ in SCORES
    ]  # fmt: skip
    far = len({one.name for one in every} - {one.name for one in _near(every)})
    tables = [{"title": title} | _table(own) for title, own in here.items()]
    return {"radius": exactly(radius), "figures": rows, "tables": tables, "far": far}


def _table(standings: Sequence[Standing]) -> dict[str, Any]:
    """The lines of a track at one radius: those of the front, and all where these are more."""
    heads, lines, front = standing_cells(standings)
    marked = list(zip(lines, front, strict=True))
    if len(lines) <= _FEW:
        return {"heads": heads, "front": marked, "all": []}
    return {"heads": heads, "front": [one for one in marked if one[1]], "all": marked}


def _draw_key(ax: "Axes", methods: Sequence[str], method: str) -> None:
    """The marker of a method."""
    scatter_methods(ax, methods, [method], np.zeros(1), np.zeros(1), alpha=0.8)
    ax.set_axis_off()


def standing_cells(standings: Sequence[Standing]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Heads and lines of a table of one radius and track, the most accurate first, and which of them are on a front."""
    ordered = sorted(standings, key=lambda one: (-one.certified_accuracy, one.certified_ece))
    lines = [
        [one.name, one.method, percent(one.certified_accuracy, Rounding.DOWN),
         percent(one.certified_ece, Rounding.UP), percent(one.certified_brier, Rounding.UP),
         percent(one.brier, Rounding.NEAREST), one.about]
        for one in ordered
    ]  # fmt: skip
    heads = ["model", "method", "certified accuracy", *(label for _, label in SCORES), "clean Brier, all", "evidence"]
    return heads, lines, _best(ordered).tolist()


def _best(standings: Sequence[Standing]) -> BoolArray:
    """Which models no other one on the same inputs beats in accuracy and one of the scores."""
    return np.asarray(np.any([_front(standings, name) for name, _ in SCORES], axis=0))


def _front(standings: Sequence[Standing], score: str) -> BoolArray:
    """The Pareto fronts, one for each set of inputs: how hard other inputs are says nothing of a model."""
    found = np.zeros(len(standings), dtype=bool)
    for inputs in {one.inputs for one in standings}:
        own = [place for place, one in enumerate(standings) if one.inputs == inputs]
        accuracy, errors = ([getattr(standings[at], name) for at in own] for name in ("certified_accuracy", score))
        found[own] = pareto_front(accuracy, errors)
    return found
