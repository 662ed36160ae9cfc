"""The rows of a reference pack about one data set, beside the paper's."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from certcal.certificates import confidence_bounds_at
from certcal.evaluation import Outcome, Rounding, select
from certcal.report import percent
from certcal.studies import Entry, Pack, ReferenceRow, draws_of, paper_table
from certcal.studies.reference_rows import ALPHA, PLAIN
from certcal.studies.starts import AGAIN

POINT = 0.01  # by which a map of the headline may raise the clean Brier score
OURS = "certcal"  # the source of entries that stand in every statistic; those of others stand apart
FULL = "100,000"  # draws, the paper's
NO_MAP = " ◦"  # behind means over halves of which some learned no map
METHODS = ("Finetuned AT", "Brier-ACT", "ACCE-ACT", "ACCE-ACT*", "CCE-ACT", "Certified Brier")
ORDER = ("Noise", "AT", *METHODS, "Consistency")  # of the lines of a table


def stem_of(name: str) -> str:
    """An entry's name without its seed, which trainings with the same settings share; the name if it has none."""
    return AGAIN.sub("", name)


def seed_in(name: str) -> str:
    """What an entry's name says of its seed, such as “0 again”."""
    found = AGAIN.search(name)  # names that others give may do without
    return found[0].removeprefix("-seed").replace("-", " ") if found else "—"


def epochs_of(entry: Entry) -> int | None:
    """The epochs that an entry was trained for, if its settings say so."""
    found = re.match(r"(\d+) epochs", entry.settings)
    return int(found[1]) if found else None


class Table:
    """The rows of a pack that are about one data set: our own, or those that others submitted."""

    def __init__(self, pack: Pack, data: str, *, ours: bool = True) -> None:
        own = [one for one in pack.entry if one.data == data and (one.source == OURS) == ours]
        self.entries = {one.name: one for one in own}
        self.rows = [row for row in pack.rows() if row.entry in self.entries]
        evidence = {name: pack.evidence(one) for name, one in self.entries.items()}
        self.draws = {name: draws_of(own) for name, own in evidence.items()}
        self.inputs = {name: len(own) for name, own in evidence.items()}
        self.sigma = {name: own.header.sigma for name, own in evidence.items()}
        self.model = {name: own.header.model for name, own in evidence.items()}  # some have several sets of inputs
        self.pack, self.data, self.paper = pack, data, paper_table(data) or {}

    @property
    def models(self) -> dict[str, Entry]:
        """The entries with rows; others are there to fit maps on."""
        return {name: one for name, one in self.entries.items() if one.radii}

    @property
    def distinct(self) -> int:
        """How many models have rows."""
        return len({self.model[name] for name in self.models})

    @cached_property
    def network(self) -> str:
        """The network of most entries, which the paper's is."""
        return Counter(one.network for one in self.models.values()).most_common(1)[0][0]

    @cached_property
    def usual(self) -> int:
        """How many inputs most entries have; errors of other inputs are not compared with theirs."""
        return Counter(self.inputs[name] for name in self.models).most_common(1)[0][0]

    @property
    def headlines(self) -> dict[tuple[float, bool], ReferenceRow]:
        """By radius the row with the least CCE of all `candidates`, and of those that held-out images chose (True)."""
        found = {(radius, honest): self.candidates(radius, held_out=honest)
                 for radius in self.paper.get("radii", ()) for honest in (False, True)}  # fmt: skip
        return {key: min(rows, key=lambda row: row.certified_ece) for key, rows in found.items() if rows}

    def candidates(self, radius: float, *, held_out: bool) -> list[ReferenceRow]:
        """Rows after a map, of models as accurate as the paper's, that raises the clean Brier score by a point at most.

        Of models of seed 0 by halves of their inputs, and where the table has other seeds, of models that have such
        rows of those too. With `held_out`, of those among them that held-out training images chose at that radius.
        """
        seeds = {one.train_seed for one in self.models.values()}
        least = self.paper["CA"][self.paper["radii"].index(radius)][0]
        return [
            row
            for row in self.at("recalibrated", radius).values()
            if 100 * row.certified_accuracy >= least
            and row.brier_all - row.brier_all_before <= POINT
            and self.entries[row.entry].train_seed == 0
            and not row.entry.endswith("-again")
            and not self.entries[row.entry].fitted_on
            and len(self.with_seeds(row)) == len(seeds)
            and (self.held_out(row.entry, "(ece|brier)", radius) or not held_out)
        ]

    def with_seeds(self, row: ReferenceRow) -> list[ReferenceRow]:
        """The row and those of the same settings, inputs and track with other seeds."""
        alike = [
            other for name, other in self.at(row.track, row.radius).items()
            if name != row.entry and stem_of(name) == stem_of(row.entry) and not name.endswith("-again")
        ]  # fmt: skip
        return [row, *sorted(alike, key=lambda one: (self.entries[one.entry].train_seed or 0, one.entry))]

    def held_out(self, name: str, score: str, radius: float) -> bool:
        """Whether held-out training images chose the model of an entry by a score at R."""
        words = rf"held-out training images:[^;]*\b{score} at {radius:g}(,|;|$)"
        same = [one for other, one in self.entries.items() if self.model[other] == self.model[name]]
        return any(re.search(words, one.chosen) for one in same)

    def chosen_held_out(self, radius: float, score: str) -> Iterator[Entry]:
        """The entries of seed 0 that held-out training images chose by a score at R, where they certify anything."""
        rows = self.at("paper", radius)
        for one in sorted(self.entries.values(), key=self.place):
            usual = self.inputs[one.name] == self.usual or one.network != self.network
            if one.name in rows and rows[one.name].certified_accuracy > 0 and one.train_seed == 0 and usual:
                yield from [one] if self.held_out(one.name, score, radius) else []

    def others(self, radius: float) -> list[Entry]:
        """Entries of other networks with a row at R."""
        return [self.entries[one] for one in self.at("paper", radius) if self.entries[one].network != self.network]

    def at(self, track: str, radius: float) -> dict[str, ReferenceRow]:
        """Rows of a track and radius, by entry; of maps, those where one was learned."""
        return {row.entry: row for row in self.rows if (row.track, row.radius) == (track, radius) and row.maps != 0}

    def comparable(self, radius: float) -> dict[str, ReferenceRow]:
        """Rows by the paper's bounds of models with the usual network and number of inputs, each training once."""
        return {
            name: row
            for name, row in self.at("paper", radius).items()
            if row.certified_accuracy > 0
            and self.entries[name].network == self.network
            and self.inputs[name] == self.usual
            and not name.endswith("-again")
        }

    def theirs(self, name: str, method: str, radius: float) -> Any:
        """The paper's number; None where it has none."""
        line = self.paper.get(name, {}).get(method)
        return None if line is None else dict(zip(map(float, self.paper["radii"]), line, strict=True)).get(radius)

    def selected(self, radius: float, score: str) -> Iterator[Entry]:
        """Per method the entry of seed 0 that the paper's selection takes on the test inputs, by the paper's bounds.

        Other seeds, and models trained again, show the spread; the least of several would be too good.
        """
        own = {name: row for name, row in self.comparable(radius).items() if self.entries[name].train_seed == 0}
        made = [
            Outcome(self.entries[name].method, name, radius, row.certified_accuracy, row.certified_ece,
                    row.certified_brier) for name, row in own.items()
        ]  # fmt: skip
        if made:
            yield from (self.entries[one.model] for one in getattr(select(made, radius=radius), score).values())

    def short(self, name: str) -> str:
        """An entry's name without that of the data."""
        return name.removeprefix(f"{self.data}-")

    def line(self, radius: float, name: str, theirs: str, score: str, entry: Entry) -> list[str]:
        """Theirs, ours with the paper's bounds, with ours, with a map; and where it comes from."""
        rows = [self.at(track, radius).get(entry.name) for track in ("paper", "plain", "recalibrated")]
        ours = [None if row is None else getattr(row, score) for row in rows]
        paper, first = self.theirs(theirs, entry.method, radius), rows[0]
        apart = "—" if paper is None or ours[0] is None else f"{100 * ours[0] - paper:+.2f}"
        accuracy = "—" if first is None else down(first.certified_accuracy)
        quoted = "—" if paper is None else f"{paper:.2f}"
        acce = "—" if first is None or name != "CCE" or first.acce != first.acce else f"{100 * first.acce:.2f}"
        about = [acce, self.short(entry.name).removesuffix("-seed0") + self.fewer(entry.name)]  # models of seed 0
        after = "—" if rows[2] is None else mapped(rows[2], score)
        method = entry.method if entry.network == self.network else f"{entry.method}, {entry.network}"
        return [f"{radius:g}", name, method, accuracy, quoted, up(ours[0]), apart, up(ours[1]), after, *about]

    def certified(self, name: str, radius: float) -> str:
        """How many inputs of an entry are certified at R by cdf-cp, of how many if not the usual, and the wrong."""
        (bounds,) = confidence_bounds_at(
            self.pack.evidence(self.entries[name]), radii=[radius], alpha=ALPHA, **PLAIN["plain"]
        )
        own = bounds.certified
        some = "" if len(own) == self.usual else f" of {len(own):,}"
        return f"{own.sum():,}{some} ({(own & ~bounds.correct).sum()})"

    def fewer(self, name: str) -> str:
        """The draws of an entry, to be told behind its name where the paper has others."""
        return "" if self.draws[name] == FULL else f" ({self.draws[name]} draws)"

    def place(self, entry: Entry) -> tuple[bool, int, str]:
        """Where an entry stands among the lines of a table."""
        known = ORDER.index(entry.method) if entry.method in ORDER else len(ORDER)
        return entry.network != self.network, known, entry.name


def mapped(row: ReferenceRow, score: str = "certified_ece") -> str:
    """A score after a map, marked where some halves learned none."""
    return up(getattr(row, score)) + mark(row)


def mark(row: ReferenceRow) -> str:
    """What stands behind a number after a map: a sign, where some halves learned none."""
    return NO_MAP if row.maps < 1 else ""


def up(value: float | None) -> str:
    return "—" if value is None or value != value else percent(value, Rounding.UP).removesuffix(" %")


def down(value: float) -> str:
    return percent(value, Rounding.DOWN).removesuffix(" %")


def markdown(heads: list[str], lines: list[list[str]], left: int) -> str:
    """A table, its first columns to the left."""
    rule = ["---"] * left + ["---:"] * (len(heads) - left)
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, rule, *lines))
