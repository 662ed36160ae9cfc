"""The rows of a reference pack about one data set, beside the paper's."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from certcal.certificates import average_certified_radius, confidence_bounds_at
from certcal.evaluation import Outcome, Rounding, select
from certcal.report import percent
from certcal.studies import Entry, Pack, ReferenceRow, draws_of, paper_table

ALPHA = 0.001


class Table:
    """The rows of a pack that are about one data set."""

    def __init__(self, pack: Pack, data: str) -> None:
        self.entries = {one.name: one for one in pack.entry if one.data == data}
        self.rows = [row for row in pack.rows() if row.entry in self.entries]
        evidence = {name: pack.evidence(one) for name, one in self.entries.items()}
        self.draws = {name: draws_of(own) for name, own in evidence.items()}
        self.inputs = {name: len(own) for name, own in evidence.items()}
        self.pack, self.data, self.paper = pack, data, paper_table(data) or {}

    @property
    def models(self) -> dict[str, Entry]:
        """The entries with rows; others are there to fit maps on."""
        return {name: one for name, one in self.entries.items() if one.radii}

    @cached_property
    def mean_radius(self) -> dict[str, float]:
        """The average certified radius of each entry, 0 where it is wrong."""
        found = {}
        for name, one in self.models.items():
            (own,) = confidence_bounds_at(self.pack.evidence(one), radii=[0.0], alpha=ALPHA, method="cdf")
            found[name] = average_certified_radius(own.certified_radius, own.correct)
        return found

    @cached_property
    def network(self) -> str:
        """The network of most entries, which the paper's is."""
        return Counter(one.network for one in self.models.values()).most_common(1)[0][0]

    def others(self, radius: float) -> list[Entry]:
        """Entries of other networks with a row at R."""
        return [self.entries[one] for one in self.at("paper", radius) if self.entries[one].network != self.network]

    def at(self, track: str, radius: float) -> dict[str, ReferenceRow]:
        """Rows of a track and radius, by entry."""
        return {row.entry: row for row in self.rows if (row.track, row.radius) == (track, radius)}

    def theirs(self, name: str, method: str, radius: float) -> Any:
        """The paper's number; None where it has none."""
        line = self.paper.get(name, {}).get(method)
        return None if line is None else dict(zip(map(float, self.paper["radii"]), line, strict=True)).get(radius)

    def selected(self, radius: float, score: str) -> Iterator[Entry]:
        """Per method the entry of seed 0 that the paper's selection takes on the test inputs, by the paper's bounds.

        Other seeds show the spread; the least of several would be too good.
        """
        own = {
            name: row
            for name, row in self.at("paper", radius).items()
            if row.certified_accuracy > 0
            and not self.entries[name].train_seed
            and self.entries[name].network == self.network
        }
        made = [
            Outcome(self.entries[name].method, name, radius, row.certified_accuracy, row.certified_ece,
                    row.certified_brier) for name, row in own.items()
        ]  # fmt: skip
        if made:
            yield from (self.entries[one.model] for one in getattr(select(made, radius=radius), score).values())

    def line(self, radius: float, name: str, theirs: str, score: str, entry: Entry) -> list[str]:
        """Theirs, ours with the paper's bounds, with ours, with a map; and where it comes from."""
        rows = [self.at(track, radius).get(entry.name) for track in ("paper", "plain", "recalibrated")]
        ours = [None if row is None else getattr(row, score) for row in rows]
        paper, first = self.theirs(theirs, entry.method, radius), rows[0]
        apart = "—" if paper is None or ours[0] is None else f"{100 * ours[0] - paper:+.2f}"
        accuracy = "—" if first is None else down(first.certified_accuracy)
        quoted = "—" if paper is None else f"{paper:.2f}"
        acce = "—" if first is None or name != "CCE" or first.acce != first.acce else f"{100 * first.acce:.2f}"
        about = [acce, self.draws[entry.name], str(entry.train_seed)]
        method = entry.method if entry.network == self.network else f"{entry.method}, {entry.network}"
        return [f"{radius:g}", name, method, accuracy, quoted, up(ours[0]), apart, *map(up, ours[1:]), *about]


def up(value: float | None) -> str:
    return "—" if value is None or value != value else percent(value, Rounding.UP).removesuffix(" %")


def down(value: float) -> str:
    return percent(value, Rounding.DOWN).removesuffix(" %")


def markdown(heads: list[str], lines: list[list[str]], left: int) -> str:
    """A table, its first columns to the left."""
    rule = ["---"] * left + ["---:"] * (len(heads) - left)
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, rule, *lines))
