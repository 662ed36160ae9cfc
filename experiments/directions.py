"""Whether methods order as in the paper."""

import math
import statistics
from typing import NamedTuple

from certcal.errors import several
from certcal.studies import ReferenceRow
from experiments.pack_table import Table, markdown, stem_of
from experiments.tuned import Pairs, by_settings, changes, difference, mean_of, pairs_of, seeds_of, selected_from

CLOSE = 1.5  # points between methods that no direction is read off: seeds differ by as much
SMALL = 0.2  # radii up to which AT alone is compared with Brier-ACT
SAME, OTHER, ELSE = "as in the paper", "**not as in the paper**", "; other baseline"
TOO_SMALL = "too small in the paper", "too small here"
NO_VERDICT = ": no verdict"
DIRECTIONS = (
    "Which method is better, as in the paper? Differences in points of CCE by the paper's bounds: of the first "
    "method's model to its own baseline, as above, or to what the other method makes of that baseline; and between the "
    "models selected, as the paper has it of ACCE. These may be of different baselines. Numbers are means over the "
    "seeds that both have:"
)
ORDERS = ("Brier-ACT", "AT"), ("ACCE-ACT", "AT"), ("ACCE-ACT", "Brier-ACT")  # the paper's claims
NOISE = (
    f"Differences below {CLOSE:g} points are too small to tell{{seeds}}. There is no verdict on one seed, nor where a "
    "model's CA, in whole points, is outside the paper's range."
)


class Direction(NamedTuple):
    """A method beside another at one radius: differences in points, and whether they go as the paper's does."""

    radius: float
    method: str
    than: str
    own: float  # ours from the baseline of the model selected, NaN if there is none
    selected: float  # ours between the models selected
    paper: float
    own_verdict: str
    verdict: str
    unlike: str  # in what else the models selected differ


def directions(table: Table) -> str:
    """Whether methods order as in the paper, said plainly."""
    lines = [
        [f"{one.radius:g}", f"{one.method} − {one.than}", "—" if one.own != one.own else f"{one.own:+.2f}",
         f"{one.selected:+.2f}", f"{one.paper:+.2f}", one.own_verdict, one.verdict + one.unlike]
        for one in compared(table)
    ]  # fmt: skip
    if not lines:
        return ""
    heads = ["R", "methods", "own baseline", "selected", "the paper", "own baseline: verdict", "selected: verdict"]
    return f"{DIRECTIONS}\n\n{markdown(heads, lines, 2)}\n{NOISE.format(seeds=_apart_by_seeds(table))}\n"


def alike(table: Table) -> str:
    """Whether fine-tuning by AT alone comes to the same as by Brier-ACT at small radii, in a sentence."""
    names = "Finetuned AT", "Brier-ACT"
    both = [
        [difference(one.pairs[name]) for name in names]
        for one in changes(table) if one.radius <= SMALL and all(one.pairs.get(name) for name in names)
    ]  # fmt: skip
    gap = max((abs(plain - brier) for plain, brier in both), default=CLOSE)
    if gap >= CLOSE:
        return ""
    plain, brier = (statistics.fmean(pair[place] for pair in both) for place in (0, 1))
    return (
        f" At R ≤ {SMALL:g} fine-tuning by AT alone changes the error as Brier-ACT does: by {plain:+.2f} and "
        f"{brier:+.2f} points in the mean of {several(len(both), 'comparison')}, never more than {gap:.2f} apart."
    )


def _apart_by_seeds(table: Table) -> str:
    """How far seeds of the same settings are apart, in words."""
    apart = []
    for radius in sorted({row.radius for row in table.rows}):
        for rows in by_settings(table, radius).values():
            if len({table.entries[row.entry].train_seed for row in rows}) > 1:
                errors = [100 * row.certified_ece for row in rows]
                apart.append(max(errors) - min(errors))
    if not apart:
        return "; one seed each"
    more = sum(gap > CLOSE for gap in apart) / len(apart)
    return (
        f": trainings of the same settings with several seeds are {statistics.median(apart):.2f} points apart in the "
        f"median, and {more:.0%} of settings by more than {CLOSE:g}"
    )


def compared(table: Table) -> list[Direction]:
    """The methods that the paper sets against each other, at each radius."""
    found = []
    for radius in sorted({row.radius for row in table.rows}):
        best = {entry.method: entry.name for entry in table.selected(radius, "ece")}
        for method, than in ORDERS:
            theirs = [table.theirs("ACCE", one, radius) for one in (method, than)]
            if method in best and than in best and None not in theirs:
                found.append(_direction(table, radius, best[method], best[than], theirs[0] - theirs[1]))
    return found


def _direction(table: Table, radius: float, name: str, than: str, paper: float) -> Direction:
    """The model selected beside that of another method, and beside what this makes of its own baseline."""
    rows, stems = table.at("paper", radius), by_settings(table, radius)
    one, other = table.entries[name], table.entries[than]
    baseline, method = one.baseline, other.method
    start = f"{table.data}-{baseline.lower()}" if method == "AT" else (
        selected_from(table, stems, baseline, radius).get(method, ""))  # fmt: skip
    model, *others = (stems.get(stem, []) for stem in (stem_of(name), start, stem_of(than)))
    both = [pairs_of(table, model, rows) for rows in others]
    own, selected = (difference(pairs) if pairs else math.nan for pairs in both)
    if not both[1]:  # of different seeds, or numbers of draws
        selected = 100 * (rows[name].certified_ece - rows[than].certified_ece)
    verdicts = (
        _verdict(apart, paper, _why_none(table, radius, pairs, model, other))
        for apart, pairs, other in zip((own, selected), both, others, strict=True)
    )
    return Direction(radius, one.method, method, own, selected, paper, *verdicts, _unlike(table, name, than))


def _verdict(ours: float, paper: float, why_none: str) -> str:
    """Whether a difference goes as the paper's does, or why that is not said."""
    if ours != ours:
        return "—"
    if abs(paper) < CLOSE:
        return TOO_SMALL[0]
    if why_none:
        return why_none + NO_VERDICT
    return TOO_SMALL[1] if abs(ours) < CLOSE else SAME if ours * paper > 0 else OTHER


def _why_none(table: Table, radius: float, pairs: Pairs, *both: list[ReferenceRow]) -> str:
    """Why nothing can be said of a difference between trainings of two settings; empty if something can."""
    sides = {outside(table, radius, mean_of(table, rows, "certified_accuracy")) for rows in both if rows}
    why = {"one seed": seeds_of(pairs) < 2, "below the paper's CA": -1 in sides, "above the paper's CA": 1 in sides}
    return ", ".join(words for words, holds in why.items() if holds)


def outside(table: Table, radius: float, accuracy: float) -> int:
    """Whether a certified accuracy is, in whole points, below (-1) or above (1) the range that the paper compares."""
    low, high = table.paper["CA"][table.paper["radii"].index(radius)]
    return (round(100 * accuracy) > high) - (round(100 * accuracy) < low)


def _unlike(table: Table, name: str, plain: str) -> str:
    """In what else two models differ."""
    baseline, draws = table.entries[name].baseline.lower(), [table.draws[name], table.draws[plain]]
    other = "" if table.short(plain).startswith(f"{baseline}-") else ELSE
    return other + (f"; draws differ: {draws[0]} and {draws[1]}" if draws[0] != draws[1] else "")
