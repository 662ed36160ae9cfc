"""What fine-tuning changes of the baseline that it starts from."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from certcal.evaluation import Outcome, select
from certcal.studies import ReferenceRow
from experiments.every_setting import models_taken, room
from experiments.pack_table import METHODS, Table, down, markdown, stem_of, up

WITHIN = 0.03  # of the best certified accuracy, as the paper selects
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
DASH = " There a dash stands for a setting that would be taken, and is not in the pack."
LEFT_OUT = "Left out here, with what was fine-tuned from it, for fewer draws would pass for a larger error: {names}."


class Pair(NamedTuple):
    """What a model changes of another, such as its baseline, with its seed."""

    seed: int | None
    error: float
    accuracy: float
    same: bool  # both are of one commit


Pairs = list[Pair]


class Change(NamedTuple):
    """What fine-tuning changes of one baseline at one radius, by method, beside how many seeds there are at most."""

    radius: float
    baseline: str
    start: list[ReferenceRow]
    most: int
    pairs: dict[str, Pairs]


def tuned(table: Table) -> str:
    """Changes of the certified calibration error and accuracy, per radius and baseline."""
    found = changes(table)
    if not found:
        return ""
    lines = [
        [f"{one.radius:g}", one.baseline, str(one.most),
         down(mean_of(table, one.start, "certified_accuracy")), up(mean_of(table, one.start, "certified_ece")),
         *(_change(one.pairs.get(method), one.most) for method in METHODS)]
        for one in found
    ]  # fmt: skip
    names = left_out(table, found)
    few = f" {LEFT_OUT.format(names=', '.join(names))}" if names else ""
    same = [pair.same for one in found for pairs in one.pairs.values() for pair in pairs]
    starts = STARTS.format(same=sum(same), every=len(same), others="" if all(same) else ANOTHER)
    shown = markdown(["R", "baseline", "seeds", "its CA", "its CCE", *METHODS], lines, 2)
    return f"{TUNED}\n\n{shown}\n{starts}{few}{room(table)}{DASH if room(table) else ''}\n"


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
        stems = by_settings(table, radius)
        starts = {name: stems[own] for name in names if (own := f"{table.data}-{name.lower()}") in stems}
        best = max((mean_of(table, rows, "certified_accuracy") for rows in starts.values()), default=0.0)
        for name, start in starts.items():
            if mean_of(table, start, "certified_accuracy") < best - WITHIN:
                continue
            settings = selected_from(table, stems, name, radius)
            pairs = {method: pairs_of(table, stems[stem], start) for method, stem in settings.items()}
            if most := max(map(seeds_of, pairs.values()), default=0):  # else nothing fine-tuned can be compared
                found.append(Change(radius, name.lower(), start, most, pairs))
    return found


def pairs_of(table: Table, rows: list[ReferenceRow], starts: list[ReferenceRow]) -> Pairs:
    """What each row changes of the one with its seed in `starts`, such as the baseline that it began with."""
    found = []
    for row in rows:
        own = table.entries[row.entry]
        same = [one for one in starts if table.entries[one.entry].train_seed == own.train_seed]
        if same:  # of baselines trained again, the one of the same session, else the first
            start = max(same, key=lambda one: (table.entries[one.entry].commit == own.commit, -len(one.entry)))
            change = row.certified_ece - start.certified_ece, row.certified_accuracy - start.certified_accuracy
            found.append(Pair(own.train_seed, *change, table.entries[start.entry].commit == own.commit))
    return found


def difference(pairs: Pairs) -> float:
    """The mean change of the certified calibration error over seeds, in points."""
    return 100 * over_seeds((pair.seed, pair.error) for pair in pairs)


def over_seeds(values: Iterable[tuple[int | None, float]]) -> float:
    """The mean over seeds, each with the mean of its trainings: one that was trained again counts once."""
    found = defaultdict(list)
    for seed, value in values:
        found[seed].append(value)
    return statistics.fmean(map(statistics.fmean, found.values()))


def seeds_of(pairs: Pairs) -> int:
    """How many seeds there are pairs of."""
    return len({pair.seed for pair in pairs})


def _change(pairs: Pairs | None, most: int) -> str:
    if not pairs:
        return "—"
    accuracy = 100 * over_seeds((pair.seed, pair.accuracy) for pair in pairs)
    return f"{difference(pairs):+.2f} ({accuracy:+.1f}){' †' if seeds_of(pairs) == 1 < most else ''}"


def by_settings(table: Table, radius: float) -> dict[str, list[ReferenceRow]]:
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


def selected_from(table: Table, stems: dict[str, list[ReferenceRow]], baseline: str, radius: float) -> dict[str, str]:
    """Per method the settings with the least error of seed 0, of those near the best accuracy from this baseline."""
    made = [
        Outcome(table.entries[row.entry].method, stem, radius, row.certified_accuracy, row.certified_ece,
                row.certified_brier)
        for stem, rows in stems.items() for row in rows
        if (own := table.entries[row.entry]).baseline == baseline and own.train_seed == 0
        and not own.name.endswith("-again")
    ]  # fmt: skip
    found = {method: one.model for method, one in select(made, radius=radius).ece.items()} if made else {}
    study = models_taken(table.data, baseline, radius)  # of settings too that the pack has no room for
    return {method: stem for method, stem in found.items()
            if study.get(method) in (None, table.model[f"{stem}-seed0"])}  # fmt: skip


def mean_of(table: Table, rows: list[ReferenceRow], name: str) -> float:
    """The mean of a score over seeds."""
    return over_seeds((table.entries[row.entry].train_seed, getattr(row, name)) for row in rows)
