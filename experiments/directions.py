"""Whether methods order as in the paper, and what each changes of the baseline that it starts from."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from certcal.errors import several
from certcal.evaluation import Outcome, select
from certcal.studies import ReferenceRow
from experiments.pack_table import METHODS, Table, down, markdown, stem_of, up

WITHIN = 0.03  # of the best certified accuracy, as the paper selects
CLOSE = 1.5  # points between methods that no direction is read off: seeds differ by as much
SMALL = 0.2  # radii up to which AT alone is compared with Brier-ACT
SAME, OTHER, ELSE = "as in the paper", "**not as in the paper**", "; other baseline"
TOO_SMALL = "too small in the paper", "too small here"
NO_VERDICT = ": no verdict"
TUNED = (
    "What fine-tuning changes of its own baseline, of the same seed: points of CCE by the paper's bounds and, in "
    "brackets, of CA. Numbers are means over seeds, of the mean of each; † of a single one. Per method it "
    "is the setting that the paper's selection takes among those of this baseline. Baselines are those within "
    f"{100 * WITHIN:g} points of the best CA at R:"
)
STARTS = (
    "Where model and baseline are of one commit, the model started from that baseline as far as the pack tells: so in "
    "{same} of the {every} comparisons behind these numbers.{others}"
)
ANOTHER = " In the others it may be another training with the same settings and seed."
LEFT_OUT = "Left out here, with what was fine-tuned from it, for fewer draws would pass for a larger error: {names}."
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


class Pair(NamedTuple):
    """What a model changes of a baseline with its seed."""

    seed: int | None
    error: float
    accuracy: float
    same: bool  # both are of one commit


Pairs = list[Pair]


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


class Change(NamedTuple):
    """What fine-tuning changes of one baseline at one radius, by method, beside how many seeds there are at most."""

    radius: float
    baseline: str
    start: list[ReferenceRow]
    most: int
    pairs: dict[str, Pairs]


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
        [_difference(one.pairs[name]) for name in names]
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
        for rows in _by_settings(table, radius).values():
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
    rows, stems, one, other = (
        table.at("paper", radius),
        _by_settings(table, radius),
        *map(table.entries.get, (name, than)),
    )
    baseline, method = one.baseline, other.method
    start = f"{table.data}-{baseline.lower()}" if method == "AT" else (
        _selected(table, stems, baseline, radius).get(method, ""))  # fmt: skip
    model, *others = (stems.get(stem, []) for stem in (stem_of(name), start, stem_of(than)))
    both = [_pairs(table, model, rows) for rows in others]
    own, selected = (_difference(pairs) if pairs else math.nan for pairs in both)
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
    sides = {outside(table, radius, _mean(table, rows, "certified_accuracy")) for rows in both if rows}
    why = {"one seed": _seeds(pairs) < 2, "below the paper's CA": -1 in sides, "above the paper's CA": 1 in sides}
    return ", ".join(words for words, holds in why.items() if holds)


def outside(table: Table, radius: float, accuracy: float) -> int:
    """Whether a certified accuracy is, in whole points, below (-1) or above (1) the range that the paper compares."""
    low, high = table.paper["CA"][table.paper["radii"].index(radius)]
    return (round(100 * accuracy) > high) - (round(100 * accuracy) < low)


def _difference(pairs: Pairs) -> float:
    return 100 * over_seeds((pair.seed, pair.error) for pair in pairs)


def over_seeds(values: Iterable[tuple[int | None, float]]) -> float:
    """The mean over seeds, each with the mean of its trainings: one that was trained again counts once."""
    found = defaultdict(list)
    for seed, value in values:
        found[seed].append(value)
    return statistics.fmean(map(statistics.fmean, found.values()))


def _unlike(table: Table, name: str, plain: str) -> str:
    """In what else two models differ."""
    baseline, draws = table.entries[name].baseline.lower(), [table.draws[name], table.draws[plain]]
    other = "" if table.short(plain).startswith(f"{baseline}-") else ELSE
    return other + (f"; draws differ: {draws[0]} and {draws[1]}" if draws[0] != draws[1] else "")


def tuned(table: Table) -> str:
    """Changes of the certified calibration error and accuracy, per radius and baseline."""
    found = changes(table)
    if not found:
        return ""
    lines = [
        [f"{one.radius:g}", one.baseline, str(one.most),
         down(_mean(table, one.start, "certified_accuracy")), up(_mean(table, one.start, "certified_ece")),
         *(_change(one.pairs.get(method), one.most) for method in METHODS)]
        for one in found
    ]  # fmt: skip
    names = left_out(table, found)
    few = f" {LEFT_OUT.format(names=', '.join(names))}" if names else ""
    same = [pair.same for one in found for pairs in one.pairs.values() for pair in pairs]
    starts = STARTS.format(same=sum(same), every=len(same), others="" if all(same) else ANOTHER)
    shown = markdown(["R", "baseline", "seeds", "its CA", "its CCE", *METHODS], lines, 2)
    return f"{TUNED}\n\n{shown}\n{starts}{few}\n"


def left_out(table: Table, found: list[Change]) -> list[str]:
    """Trainings of the baselines of the table that are not in it for their draws, with these."""
    names: dict[str, None] = {}
    for one in found:
        taken, stem = {row.entry for row in one.start}, f"{table.data}-{one.baseline}"
        left = (name for name, row in table.at("paper", one.radius).items()
                if stem_of(name) == stem and row.certified_accuracy > 0 and name not in taken
                and table.inputs[name] == table.usual)  # fmt: skip
        names |= {f"{table.short(name)} ({table.draws[name]} draws)": None for name in left}
    return list(names)


def changes(table: Table) -> list[Change]:
    """What fine-tuning changes of each baseline that is near the best accuracy, per radius."""
    names = sorted({one.baseline for one in table.models.values() if one.baseline and one.network == table.network})
    found = []
    for radius in table.paper.get("radii", ()):
        stems = _by_settings(table, radius)
        starts = {name: stems[own] for name in names if (own := f"{table.data}-{name.lower()}") in stems}
        best = max((_mean(table, rows, "certified_accuracy") for rows in starts.values()), default=0.0)
        for name, start in starts.items():
            if _mean(table, start, "certified_accuracy") < best - WITHIN:
                continue
            settings = _selected(table, stems, name, radius)
            pairs = {method: _pairs(table, stems[stem], start) for method, stem in settings.items()}
            if most := max(map(_seeds, pairs.values()), default=0):  # else nothing fine-tuned can be compared
                found.append(Change(radius, name.lower(), start, most, pairs))
    return found


def _pairs(table: Table, rows: list[ReferenceRow], starts: list[ReferenceRow]) -> Pairs:
    """What each model changes of the baseline that it was fine-tuned from."""
    found = []
    for row in rows:
        own = table.entries[row.entry]
        same = [one for one in starts if table.entries[one.entry].train_seed == own.train_seed]
        if same:  # of baselines trained again, the one of the same session, else the first
            start = max(same, key=lambda one: (table.entries[one.entry].commit == own.commit, -len(one.entry)))
            change = row.certified_ece - start.certified_ece, row.certified_accuracy - start.certified_accuracy
            found.append(Pair(own.train_seed, *change, table.entries[start.entry].commit == own.commit))
    return found


def _seeds(pairs: Pairs) -> int:
    return len({pair.seed for pair in pairs})


def _change(pairs: Pairs | None, most: int) -> str:
    if not pairs:
        return "—"
    accuracy = 100 * over_seeds((pair.seed, pair.accuracy) for pair in pairs)
    return f"{_difference(pairs):+.2f} ({accuracy:+.1f}){' †' if _seeds(pairs) == 1 < most else ''}"


def _by_settings(table: Table, radius: float) -> dict[str, list[ReferenceRow]]:
    """Rows by the paper's bounds of all trainings with the same settings, on the usual number of inputs.

    Of as many draws as most have: fewer draws would pass for larger errors of the baseline.
    """
    found = defaultdict(list)
    own = {name: row for name, row in table.at("paper", radius).items() if table.inputs[name] == table.usual}
    usual = Counter(table.draws[name] for name in own).most_common(1)[0][0] if own else ""
    for name, row in own.items():
        if row.certified_accuracy > 0 and table.draws[name] == usual:
            found[stem_of(name)].append(row)
    return found


def _selected(table: Table, stems: dict[str, list[ReferenceRow]], baseline: str, radius: float) -> dict[str, str]:
    """Per method the settings with the least error of seed 0, of those near the best accuracy from this baseline."""
    made = [
        Outcome(table.entries[row.entry].method, stem, radius, row.certified_accuracy, row.certified_ece,
                row.certified_brier)
        for stem, rows in stems.items() for row in rows
        if (own := table.entries[row.entry]).baseline == baseline and own.train_seed == 0
        and not own.name.endswith("-again")
    ]  # fmt: skip
    return {method: one.model for method, one in select(made, radius=radius).ece.items()} if made else {}


def _mean(table: Table, rows: list[ReferenceRow], name: str) -> float:
    return over_seeds((table.entries[row.entry].train_seed, getattr(row, name)) for row in rows)
