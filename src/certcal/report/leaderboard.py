"""The leaderboard of a reference pack: certified accuracy against certified errors at each radius, never one number."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from certcal.errors import several
from certcal.evaluation import Rounding, pareto_front, percent
from certcal.report.comparison import scatter_methods
from certcal.report.figures import axes_of, finished
from certcal.report.html import figure_row, fill_page, read_part
from certcal.scalars import exactly
from certcal.types import BoolArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORES = (("certified_ece", "certified ECE"), ("certified_brier", "certified Brier"))
NEAR = 0.06  # of certified accuracy below the best on the same inputs: less accurate models are in tables only
_WIDE, _HIGH = 12.4, 2.8  # of a row of figures, in inches
_LINE: dict[str, Any] = {"color": "#3d3d3d", "linewidth": 1.3, "zorder": 0.9}  # of a Pareto front
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
    deviation: float = float("nan")  # of the certified ECE between splits, where there are maps
    maps: float = float("nan")  # share of the halves in which one was learned


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
        front=figure_row([_draw_front_key], size=(0.4, 0.2)),
    )


def plot_standings(
    standings: Sequence[Standing],
    score: str,
    *,
    ax: "Axes | None" = None,
    legend: bool = True,
    beside: Sequence[Standing] = (),
    **labels: Any,
) -> "Axes":
    """Certified accuracy against a certified error, one radius, one track; Pareto fronts as lines, the others fainter.

    The axes also reach what stands `beside` these on other tracks.
    """
    axes, label = axes_of(ax), dict(SCORES)[score]
    shown = [one for one in standings if not np.isnan(getattr(one, score))]
    own = np.array([_literal(one.method) for one in shown])
    x, y = (100 * np.array([getattr(one, name) for one in shown]) for name in ("certified_accuracy", score))
    front = _front(shown, score)
    for chosen, alpha in ((~front, 0.3), (front, 1.0)):
        for dots in axes.collections:  # a method has one name in the legend
            dots.set_label("_" * (dots.get_label() in own[chosen]) + str(dots.get_label()))
        scatter_methods(axes, dict.fromkeys(own[chosen]), own[chosen].tolist(), x[chosen], y[chosen], alpha=alpha)
    for inputs in dict.fromkeys(one.inputs for one in shown):
        steps = front & np.array([one.inputs == inputs for one in shown])
        order = np.lexsort((y[steps], x[steps]))
        axes.step(x[steps][order], y[steps][order], where="pre", label="_" * bool(axes.lines) + "Pareto front", **_LINE)
    near = _near([*shown, *beside])
    axes.set(
        xlim=_limits([one.certified_accuracy for one in near]), ylim=_limits([getattr(one, score) for one in near])
    )
    axes.spines[["top", "right"]].set_visible(False)
    finished(axes, xlabel="certified accuracy, %", ylabel=f"{label}, %", **labels)
    if not legend and (drawn := axes.get_legend()):
        drawn.remove()
    return axes


def _limits(shares: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis in percent, with room beside the shares: where all are large, it does not begin at 0."""
    known = [100 * one for one in shares if not np.isnan(one)] or [100.0]
    room = max(0.08 * (max(known) - min(known)), 0.5)
    return min(known) - room, max(known) + room


def _literal(method: str) -> str:
    """A name as matplotlib shows it: no mathematics between dollars, and in a legend also where it begins with _."""
    return f"{' ' * method.startswith('_')}{method}".replace("$", r"\$")


def _near(standings: Sequence[Standing]) -> list[Standing]:
    """Those whose certified accuracy is near the best on the same inputs."""
    best: dict[str, float] = {}
    for one in standings:
        best[one.inputs] = max(best.get(one.inputs, 0.0), one.certified_accuracy)
    return [one for one in standings if one.certified_accuracy >= best[one.inputs] - NEAR]


def _board(board: Board) -> dict[str, Any]:
    """One data set: per radius the figures of all tracks and a table of each, then what was published."""
    every = [one for track in board.tracks for one in track.standings if not np.isnan(one.certified_ece)]
    return {
        "data": board.data,
        "entries": several(len({one.name for one in every}), "entry", "entries"),
        "radii": [_radius(board, radius) for radius in sorted({one.radius for one in every})],
        "published": [([method, exactly(radius), *rest], False) for method, radius, *rest in board.published],
    }


def _radius(board: Board, radius: float) -> dict[str, Any]:
    """What a board shows at one radius."""
    here = {track.title: [one for one in track.standings if one.radius == radius and not np.isnan(one.certified_ece)]
            for track in board.tracks}  # fmt: skip
    here = {title: own for title, own in here.items() if own}
    every = [one for own in here.values() for one in own]
    near = _near(every)
    far = len({one.name for one in every} - {one.name for one in near})
    rows = [
        figure_row(
            [partial(plot_standings, own, score, legend=False, beside=every, title=title)
             for title, own in here.items()], size=(_WIDE / max(len(here), 3) - 0.05, _HIGH),
        ) for score, _ in SCORES
    ]  # fmt: skip
    return {
        "radius": exactly(radius),
        "key": [(one, figure_row([partial(_draw_key, method=one)], size=(0.2, 0.2)))
                for one in dict.fromkeys(one.method for one in near)],
        "fronts": any(_front(own, score).any() for own in here.values() for score, _ in SCORES),
        "figures": rows,
        "far": several(far, "entry", "entries") if far else "",
        "tables": [{"title": title} | _table(own, f"{board.data}-") for title, own in here.items()],
    }  # fmt: skip


def _table(standings: Sequence[Standing], prefix: str) -> dict[str, Any]:
    """The lines of a track at one radius, by inputs: those of the fronts, and all where these are more."""
    heads, lines, front = standing_cells([replace(one, name=one.name.removeprefix(prefix)) for one in standings])
    parts: dict[str | None, list[tuple[list[str], bool]]] = {}
    for (inputs, _), line, marked in zip(_ordered(standings), lines, front, strict=True):
        parts.setdefault(inputs, []).append((line, marked))
    told = {inputs: "On other inputs, not comparable" if inputs is None else f"{len(part)} entries on the same inputs"
            for inputs, part in parts.items()}  # fmt: skip
    every = [(told[inputs] if len(parts) > 1 else "", part) for inputs, part in parts.items()]
    fronts = [(name, [one for one in part if one[1]] or part) for name, part in every]
    few = len(lines) <= _FEW
    return {"heads": heads, "count": len(lines), "front": every if few else fronts, "all": [] if few else every}


def _draw_key(ax: "Axes", method: str) -> None:
    """The marker of a method."""
    own = [_literal(method)]
    scatter_methods(ax, own, own, np.zeros(1), np.zeros(1), alpha=1.0)
    ax.set_axis_off()


def _draw_front_key(ax: "Axes") -> None:
    """The line of a front."""
    ax.plot([0, 1], [0, 0], **_LINE)
    ax.set_axis_off()


def standing_cells(standings: Sequence[Standing]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Heads and lines of a table of one radius and track, and which of them are on a front.

    What shares its inputs stands together, the most accurate first, and what shares them with nothing at the end.
    """
    ordered = [one for _, one in _ordered(standings)]
    mapped = any(one.maps == one.maps for one in standings)
    lines = [
        [one.name, percent(one.certified_accuracy, Rounding.DOWN), percent(one.certified_ece, Rounding.UP),
         *([_known(one.deviation, Rounding.NEAREST, 1).removesuffix(" %")] if mapped else []),
         percent(one.certified_brier, Rounding.UP), percent(one.brier, Rounding.NEAREST),
         *([_known(one.maps, Rounding.DOWN, 0)] if mapped else []), one.method, one.about]
        for one in ordered
    ]  # fmt: skip
    ece, brier = (label for _, label in SCORES)
    heads = ["model", "certified accuracy", ece, *["± points"] * mapped, brier, "clean Brier, all",
             *["with a map"] * mapped, "method", "evidence"]  # fmt: skip
    return heads, lines, np.any([_front(ordered, name) for name, _ in SCORES], axis=0).tolist()


def _known(share: float, rounding: Rounding, digits: int) -> str:
    return "" if np.isnan(share) else percent(share, rounding, digits)


def _ordered(standings: Sequence[Standing]) -> list[tuple[str | None, Standing]]:
    """Standings as a table has them, with the inputs that they share with others; None where they share none."""
    size = Counter(one.inputs for one in standings)
    pairs = [(one.inputs if size[one.inputs] > 1 else None, one) for one in standings]
    rank: dict[str | None, int] = {inputs: place for place, (inputs, _) in enumerate(size.most_common())}
    rank[None] = len(size)
    return sorted(pairs, key=lambda pair: (rank[pair[0]], -pair[1].certified_accuracy, pair[1].certified_ece))


def _front(standings: Sequence[Standing], score: str) -> BoolArray:
    """The Pareto fronts, one for all models on the same inputs: a model that is alone on its inputs beats nothing."""
    found = np.zeros(len(standings), dtype=bool)
    for inputs, count in Counter(one.inputs for one in standings).items():
        own = [place for place, one in enumerate(standings) if one.inputs == inputs]
        accuracy, errors = ([getattr(standings[at], name) for at in own] for name in ("certified_accuracy", score))
        found[own] = count > 1 and pareto_front(accuracy, errors)
    return found
