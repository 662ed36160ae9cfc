"""The results at a glance: what is run, and certified errors of the paper's methods, its own and ours three ways."""

import io
import math
import statistics

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from certcal.studies import Entry, ReferenceRow, study_names
from experiments.directions import ELSE, NO_VERDICT, OTHER, SAME, TOO_SMALL, Direction, alike, compared, outside
from experiments.pack_table import FULL, Table, mapped, mark, markdown, seed_in, stem_of, up

# Ways to the certified calibration error, with their colours in the figure.
WAYS = (
    ("the paper's ACCE", "#8a8f98"),
    ("ours, the paper's bounds", "#d1495b"),
    ("ours, cdf-cp", "#e0a030"),
    ("ours, cdf-cp and a map", "#1b7a8c"),
)
NEAR = 3.0  # points from the paper that count as reproduced
GLANCE = 0.5  # the radius of the overview
OVERVIEW = (
    f"What is run, and the least CCE with a map at R = {GLANCE:g}, of any method and network, among models of seed 0 "
    "whose CA reaches the range that the paper compares, without what “With a map” leaves out:"
)
IN_SHORT = (
    "The CCE of the models selected, from the least to the largest of the paper's methods that are run; in brackets of "
    "how many, where not of all:"
)
Cell = tuple[float, str]  # a number, and how it is told


def answers(tables: list[Table]) -> str:
    """A few plain lines: what is reproduced, what is not, what goes beyond the paper, and what is not run."""
    told = [f"**{table.data}**\n\n{''.join(f'- {line}{chr(10)}' for line in _answer(table))}"
            for table in tables if table.paper]  # fmt: skip
    run = {table.data for table in tables}
    left = ", ".join(name for name in study_names() if name not in run)
    return "\n".join([*told, f"Not run: {left}.\n"])


def _answer(table: Table) -> list[str]:
    """What there is to say of one data set: how near, from what to what, and whether methods order alike."""
    return [line for line in (_nearness(table), _chain(table), _sharper(table), _order(table)) if line]


def _nearness(table: Table) -> str:
    apart = _apart(table)
    near = sum(abs(points) <= NEAR for points in apart)
    low = [
        (max(row.certified_accuracy for row in rows.values()), least)
        for radius, (least, _) in zip(table.paper["radii"], table.paper["CA"], strict=True)
        if (rows := table.comparable(radius))
    ]
    missed = sum(100 * best < least for best, least in low)
    weak = f" ({table.network} is less accurate here than the paper's at {missed} of {len(low)} radii)"
    like = _apart(table, alike=True)
    same = sum(abs(points) <= NEAR for points in like)
    some = f"; of the {len(like)} whose CA is in the range that it compares, {same}"
    return (
        f"By the paper's bounds, {near} of {len(apart)} errors are within {NEAR:g} points of the paper's"
        f"{some if 0 < len(like) < len(apart) else ''}{weak if missed else ''}."
    )


def _chain(table: Table) -> str:
    """The least error of the paper's methods at one radius, from the paper's over the same bounds to ours."""
    shown = next((ways for radius, ways in ranges(table) if radius == GLANCE), None)
    if shown is None:
        return ""
    (paper, _), (same, _), (sharp, _), (after, _) = (tuple(text for _, text in way) for way in shown)
    rows = table.at("paper", GLANCE)
    own = sorted(_both(table, GLANCE), key=lambda one: rows[one.name].certified_ece)
    first, others = own[0], [up(rows[one.name].certified_ece) for one in own[1:]]
    choice, theirs = "", table.theirs("ACCE", first.method, GLANCE)
    if 100 * rows[first.name].certified_ece < shown[0][0][0] - NEAR and others:
        between = "–".join(dict.fromkeys((others[0], others[-1])))
        name = table.short(first.name).removesuffix("-seed0")
        choice = (
            f" The step to {same} is a choice of model, not of bounds: it is {first.method}, {name}, where the paper's "
            f"{first.method} has {theirs:.2f}. {' and '.join(one.method for one in own[1:])} here: {between}."
        )
    draws = sorted({table.draws[one.name] for one in table.selected(GLANCE, "ece")})
    few = "" if draws == [FULL] else f" Draws are {' to '.join(draws)}, the paper's {FULL}."
    return (
        f"At R = {GLANCE:g} the least error of the paper's methods, on {table.network}, is {paper} in the paper; here "
        f"{same} by the paper's bounds, {sharp} by cdf-cp and {after} with a map.{choice}{few}{_other_trainings(table)}"
    )


def _other_trainings(table: Table) -> str:
    """What the model with the least error after a map came to when it was trained otherwise alike."""
    rows = table.at("recalibrated", GLANCE)
    least = min((one.name for one in _both(table, GLANCE) if one.name in rows), default=None,
                key=lambda name: rows[name].certified_ece)  # fmt: skip
    if least is None:
        return ""
    others = {name: row for name, row in sorted(rows.items()) if name != least and stem_of(name) == stem_of(least)}
    if not others:
        return " One training."
    learned = sorted({_share(row) for row in others.values() if mark(row)})
    fewer = f": a map was learned in {' to '.join(learned)} of their halves, in {_share(rows[least])} of its own"
    draws = {name: "" if table.draws[name] == FULL else f", {table.draws[name]} draws" for name in others}
    told = ", ".join(f"{mapped(row)} (seed {seed_in(name)}{draws[name]})" for name, row in others.items())
    return (
        f" Other trainings of the model with {mapped(rows[least])} have {told}{fewer if learned else ''}. The least of "
        "many estimates tends to be too small."
    )


def _share(row: ReferenceRow) -> str:
    return f"{math.floor(100 * row.maps)} %" if row.maps < 1 else "all"


def _sharper(table: Table) -> str:
    """At which radii sharper bounds alone are no better than the paper's numbers."""
    least = {radius: [way[0][0] for way in ways] for radius, ways in ranges(table)}
    above = [radius for radius, (paper, _, sharp, _) in least.items() if sharp >= paper]
    lower = [radius for radius in above if least[radius][-1] < least[radius][0]]
    if not above:
        return ""
    where = "At every R" if len(above) == len(least) else f"At R = {_listed(above)}"
    best = {radius: max(row.certified_accuracy for row in table.comparable(radius).values()) for radius in lower}
    weak = [radius for radius in lower if outside(table, radius, best[radius]) < 0]
    with_map = "with a map they do" + ("" if lower == above else f" at R = {_listed(lower)}")
    with_map += ", of less accurate models" if weak else ""
    with_map += f" at R = {_listed(weak)}" if weak and weak != lower else ""
    return (
        f"{where} the paper's methods do not reach its least error by sharper bounds alone"
        f"{f'; {with_map}' if lower else ', nor do they with a map'}."
    )


def _listed(radii: list[float]) -> str:
    return ", ".join(f"{radius:g}" for radius in radii)


def _order(table: Table) -> str:
    """Whether methods order as in the paper: from their own baselines, and as selected."""
    found = compared(table)
    total, (own, selected) = len(found), ([getattr(one, name) for one in found] for name in ("own_verdict", "verdict"))
    told = (
        f"From the same baseline, methods order as in the paper in {own.count(SAME)} of {total} comparisons and the "
        f"other way in {own.count(OTHER)}{_named(found, 'own_verdict')}; {own.count(TOO_SMALL[0])} are too small to "
        f"tell in the paper, {own.count(TOO_SMALL[1])} here{_without(own)}."
    )
    if any(ELSE in one.unlike for one in found):
        told += (
            " As selected, which may be from different baselines, they order as in the paper in "
            f"{selected.count(SAME)} and the other way in {selected.count(OTHER)}{_named(found, 'verdict')}"
            f"{_without(selected)}."
        )
    return told + alike(table)


def _named(found: list[Direction], verdict: str) -> str:
    """Which comparisons go the other way than in the paper."""
    radii: dict[str, list[float]] = {}
    for one in found:
        if getattr(one, verdict) == OTHER:
            radii.setdefault(f"{one.method} − {one.than}", []).append(one.radius)
    told = "; ".join(f"{methods} at R = {_listed(own)}" for methods, own in radii.items())
    return f" ({told})" if told else ""


def _without(verdicts: list[str]) -> str:
    """On how many directions there is no verdict, and why."""
    found = [one for one in verdicts if one.endswith(NO_VERDICT)]
    why = "; ".join(dict.fromkeys(one.removesuffix(NO_VERDICT) for one in found))
    told = f", {len(found)} without a verdict ({why})" if found else ""
    return told + (f", {missing} for want of a model in the pack" if (missing := verdicts.count("—")) else "")


def _both(table: Table, radius: float) -> list[Entry]:
    """The models selected of the methods that the paper has at a radius."""
    return [one for one in table.selected(radius, "ece") if table.theirs("ACCE", one.method, radius) is not None]


def _apart(table: Table, *, alike: bool = False) -> list[float]:
    """Our CCE by the paper's bounds less its ACCE, in points, of all methods and radii that both have.

    With `alike`, of models whose certified accuracy is in the range that the paper compares.
    """
    return [
        100 * table.at("paper", radius)[one.name].certified_ece - theirs
        for radius in table.paper["radii"] for one in table.selected(radius, "ece")
        if (theirs := table.theirs("ACCE", one.method, radius)) is not None
        and not (alike and outside(table, radius, table.at("paper", radius)[one.name].certified_accuracy))
    ]  # fmt: skip


def overview(tables: list[Table]) -> str:
    """What is run of each data set, and the least certified error at one radius of models as the paper's."""
    lines = []
    for table in tables:
        row, told = table.headlines.get((GLANCE, False)), ["—"] * 4
        if row is not None:
            one, place = table.entries[row.entry], table.paper["radii"].index(GLANCE)
            other = "" if one.network == table.network else f" (the paper: {table.network})"
            least = (min(line[place] for line in table.paper[name].values()) for name in ("ACCE", "CBS"))
            told = [f"{one.method}, {one.network}{other}"]
            told += [f"{mapped(row, name)} ({theirs:.2f})"
                     for name, theirs in zip(("certified_ece", "certified_brier"), least, strict=True)]  # fmt: skip
            told.append(f"{100 * (row.brier_all - row.brier_all_before):+.2f}{mark(row)}")
        seeds = ", ".join(map(str, sorted({one.train_seed for one in table.models.values()} - {None})))
        lines.append([table.data, str(table.distinct), seeds or "—", *told])
    heads = ["data", "models", "seeds run", "model with the least CCE", "CCE (the paper's ACCE)", "CBS (the paper's)",
             "rise of the clean Brier score, points"]  # fmt: skip
    return f"{OVERVIEW}\n\n{markdown(heads, lines, 4)}"


def ranges(table: Table) -> list[tuple[float, list[tuple[Cell, Cell]]]]:
    """Per radius, the least and largest of the methods that the paper has too: its ACCE, and our CCE three ways."""
    found = []
    for radius in table.paper.get("radii", ()):
        own = _both(table, radius)
        ways = [[(theirs, f"{theirs:.2f}") for one in own if (theirs := table.theirs("ACCE", one.method, radius))]]
        for track in ("paper", "plain", "recalibrated"):
            rows = table.at(track, radius)
            errors = [(float(up(rows[one.name].certified_ece)), rows[one.name]) for one in own if one.name in rows]
            ways.append([(error, mapped(row)) for error, row in errors])
        if own:
            none = math.nan, "—"
            found.append((radius, [(min(way, default=none), max(way, default=none)) for way in ways]))
    return found


def in_short(table: Table) -> str:
    """Per radius the range over the methods that the paper has too: theirs, ours by its bounds, by ours, with a map."""
    lines = [
        [f"{radius:g}", *("–".join(dict.fromkeys((low, high))) + some for ((_, low), (_, high)), some in
                          zip(ways, _some(table, radius), strict=True))]
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


def _some(table: Table, radius: float) -> list[str]:
    """Of how many of the paper's methods that are run each range is, where not of all."""
    run = {one.method for one in table.models.values() if one.network == table.network}
    every, own = len(run & set(table.paper["ACCE"])), _both(table, radius)
    rows = [{one.name for one in own}, *(table.at(track, radius) for track in ("paper", "plain", "recalibrated"))]
    counts = [sum(one.name in known for one in own) for known in rows]
    return [f" ({count} of {every})" if 0 < count < every else "" for count in counts]


def picture(table: Table) -> bytes:
    """The figure: per radius the range of the certified calibration error over the paper's methods, four ways."""
    with matplotlib.rc_context({"svg.hashsalt": "certcal", "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        axes = figure.add_subplot()
        shown = ranges(table)
        for place, (label, colour) in enumerate(WAYS):
            at = np.arange(len(shown)) + 0.2 * (place - 1.5)
            low, high = np.array([[value for value, _ in own[place]] for _, own in shown]).T
            axes.bar(at, np.maximum(high - low, 0.4), 0.17, low, color=colour, label=label)
            under = {"textcoords": "offset points", "ha": "center", "va": "top", "fontsize": 7}
            for x, (_, own) in zip(at, shown, strict=True):
                axes.annotate(own[place][0][1], (x, own[place][0][0]), (0, -2), **under)
        axes.set_xticks(range(len(shown)), [f"R = {radius:g}" for radius, _ in shown])
        axes.set(ylim=(0, None), ylabel="certified calibration error, %")
        axes.set_title(f"{table.data}: the least to the largest of AT, ACCE-ACT and Brier-ACT", loc="left", fontsize=10)
        axes.legend(frameon=False, loc="upper left")
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
