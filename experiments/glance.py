"""The results at a glance: what is run, and certified errors of the paper's methods, its own and ours three ways."""

import io
import math
import statistics

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from certcal.studies import study_names
from experiments.directions import ELSE, OTHER, SAME, compared
from experiments.not_run import FULL
from experiments.pack_table import Table, markdown, up

# Ways to the certified calibration error, with their colours in the figure.
WAYS = (
    ("the paper's ACCE", "#8a8f98"),
    ("ours, the paper's bounds", "#d1495b"),
    ("ours, cdf-cp", "#e0a030"),
    ("ours, cdf-cp and a map", "#1b7a8c"),
)
NEAR = 3.0  # points from the paper that count as reproduced
GLANCE = 0.5  # the radius of the overview
OVERVIEW = "What is run, and the least error among models of seed 0 whose CA reaches the range that the paper compares:"
IN_SHORT = (
    "The certified calibration error of the models selected, from the least to the largest of the paper's methods:"
)


def answers(tables: list[Table]) -> str:
    """A few plain lines: what is reproduced, what is not, what goes beyond the paper, and what is not run."""
    lines = [_answer(table) for table in tables if table.paper]
    run = {table.data for table in tables}
    left = ", ".join(name for name in study_names() if name not in run)
    return "\n".join(f"- {line}" for line in [*lines, f"Not run: {left}."]) + "\n"


def _answer(table: Table) -> str:
    """What there is to say of one data set."""
    apart = _apart(table)
    near = sum(abs(points) <= NEAR for points in apart)
    low = [
        (max(row.certified_accuracy for row in rows.values()), least)
        for radius, (least, _) in zip(table.paper["radii"], table.paper["CA"], strict=True)
        if (rows := table.comparable(radius))
    ]
    missed = sum(100 * best < least for best, least in low)
    weak = f" ({table.network} is less accurate here than the paper's at {missed} of {len(low)} radii)"
    found = [(verdict, unlike) for *_, verdict, unlike in compared(table)]
    same = sum(verdict == SAME for verdict, _ in found)
    other = [unlike for verdict, unlike in found if verdict == OTHER]
    apart_too = f" ({sum(ELSE in unlike for unlike in other)} of these start from another baseline than AT)"
    told = (
        f"**{table.data}**: by the paper's bounds, {near} of {len(apart)} certified errors are within {NEAR:g} points "
        f"of the paper's{weak if missed else ''}. Of {len(found)} directions {same} {'is' if same == 1 else 'are'} as "
        f"in the paper and {len(other)} not{apart_too if other else ''}; the others are too small to tell."
    )
    shown = next((ways for radius, ways in ranges(table) if radius == GLANCE), None)
    if shown is None:
        return told
    (paper, _), _, (sharp, _), (mapped, _) = shown
    draws = sorted({table.draws[one.name] for one in table.selected(GLANCE, "ece")})
    few = "" if draws == [FULL] else f", from {' to '.join(draws)} draws where the paper has {FULL}"
    return (
        f"{told} At R = {GLANCE:g} the least error of the paper's methods is {paper:.2f} in the paper, {sharp:.2f} by "
        f"our bounds and {mapped:.2f} with a map{few}{_other_trainings(table)}."
    )


def _other_trainings(table: Table) -> str:
    """What the model with the least error after a map came to when it was trained otherwise alike."""
    rows = table.at("recalibrated", GLANCE)
    known = [one.name for one in table.selected(GLANCE, "ece") if one.name in rows]
    least = min((name for name in known if table.theirs("ACCE", table.entries[name].method, GLANCE) is not None),
                key=lambda name: rows[name].certified_ece)  # fmt: skip
    others = [up(row.certified_ece) for name, row in rows.items()
              if name != least and name.rpartition("-seed")[0] == least.rpartition("-seed")[0]]  # fmt: skip
    if not others:
        return " (one training)"
    return f" ({', '.join(others)} when trained again or with other seeds: the least of many errs low)"


def _apart(table: Table) -> list[float]:
    """Our CCE by the paper's bounds less its ACCE, in points, of all methods and radii that both have."""
    return [
        100 * table.at("paper", radius)[one.name].certified_ece - theirs
        for radius in table.paper["radii"] for one in table.selected(radius, "ece")
        if (theirs := table.theirs("ACCE", one.method, radius)) is not None
    ]  # fmt: skip


def overview(tables: list[Table]) -> str:
    """What is run of each data set, and the least certified error at one radius of models as the paper's."""
    lines = []
    for table in tables:
        row, told = table.headlines.get((GLANCE, False)), ["—", "—", "—"]
        if row is not None:
            network = table.entries[row.entry].network
            other = "" if network == table.network else f", {network} where the paper has {table.network}"
            place = table.paper["radii"].index(GLANCE)
            least = (min(line[place] for line in table.paper[name].values()) for name in ("ACCE", "CBS"))
            ours = row.certified_ece, row.certified_brier
            told = [f"{up(own)} ({theirs:.2f})" for own, theirs in zip(ours, least, strict=True)]
            told.append(f"{100 * (row.brier_all - row.brier_all_before):+.2f}{other}")
        seeds = ", ".join(map(str, sorted({one.train_seed for one in table.models.values()} - {None})))
        lines.append([table.data, str(table.distinct), seeds or "—", *told])
    run = {table.data for table in tables}
    lines += [[name, "not run", "—", "—", "—", "—"] for name in study_names() if name not in run]
    heads = ["data", "models", "seeds run", f"certified ECE at R = {GLANCE:g} with a map (the paper's best ACCE)",
             "certified Brier (the paper's best CBS)", "clean Brier"]  # fmt: skip
    return f"{OVERVIEW}\n\n{markdown(heads, lines, 1)}"


def ranges(table: Table) -> list[tuple[float, list[tuple[float, float]]]]:
    """Per radius, the least and largest of the methods that the paper has too: its ACCE, and our CCE three ways."""
    found = []
    for radius in table.paper.get("radii", ()):
        own = [one for one in table.selected(radius, "ece") if table.theirs("ACCE", one.method, radius) is not None]
        ways = [[table.theirs("ACCE", one.method, radius) for one in own]]
        for track in ("paper", "plain", "recalibrated"):
            rows = table.at(track, radius)
            ways.append([float(up(rows[one.name].certified_ece)) for one in own if one.name in rows])
        if own:
            found.append((radius, [(min(way, default=math.nan), max(way, default=math.nan)) for way in ways]))
    return found


def in_short(table: Table) -> str:
    """Per radius the range over the methods that the paper has too: theirs, ours by its bounds, by ours, with a map."""
    lines = [
        [f"{radius:g}", *("—" if low != low else "–".join(dict.fromkeys((f"{low:.2f}", f"{high:.2f}")))
                          for low, high in ways)]
        for radius, ways in ranges(table)
    ]  # fmt: skip
    if not lines:
        return ""
    apart = _apart(table)
    told = (
        f"By the paper's bounds, ours less the paper's is {statistics.median(apart):+.2f} points in the median of "
        f"{len(apart)} numbers, and {min(apart):+.2f} to {max(apart):+.2f}."
    )
    return f"{IN_SHORT}\n\n{markdown(['R', *(label for label, _ in WAYS)], lines, 1)}\n{told}\n"


def picture(table: Table) -> bytes:
    """The figure: per radius the range of the certified calibration error over the paper's methods, four ways."""
    with matplotlib.rc_context({"svg.hashsalt": "certcal", "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        axes = figure.add_subplot()
        shown = ranges(table)
        for place, (label, colour) in enumerate(WAYS):
            at = np.arange(len(shown)) + 0.2 * (place - 1.5)
            low, high = np.array([own[place] for _, own in shown]).T
            axes.bar(at, np.maximum(high - low, 0.4), 0.17, low, color=colour, label=label)
            under = {"textcoords": "offset points", "ha": "center", "va": "top", "fontsize": 7}
            for x, y in zip(at, low, strict=True):
                axes.annotate(f"{y:.2f}", (x, y), (0, -2), **under)
        axes.set_xticks(range(len(shown)), [f"R = {radius:g}" for radius, _ in shown])
        axes.set(ylim=(0, None), ylabel="certified calibration error, %")
        axes.set_title(f"{table.data}: the least to the largest of AT, ACCE-ACT and Brier-ACT", loc="left", fontsize=10)
        axes.legend(frameon=False, loc="upper left")
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
