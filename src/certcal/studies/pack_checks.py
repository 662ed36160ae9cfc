"""What a pack's files, entries and rows must not contradict, and how stored rows differ from rows made again."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from certcal.errors import one_line, several
from certcal.smoothing import Evidence, evidence_digest, inputs_of
from certcal.studies.reference_rows import LOOSE, PLAIN, ReferenceRow

if TYPE_CHECKING:
    from certcal.studies.pack import Entry, Pack

Key = tuple[str, str, float]


class Together:
    """The evidence of entries one after the other: each is its own, and equal inputs of one data set have one label."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._labels: dict[str, dict[int, tuple[int, str]]] = {}  # by data set and content, and whose label it is

    def problems(self, name: str, data: str, evidence: Evidence) -> list[str]:
        """What contradicts the entries before it."""
        found, known = [], self._labels.setdefault(data, {})
        before = self._digests.setdefault(evidence_digest(evidence), name)
        if before != name:
            found.append(f"{name}: its evidence is that of {before}")
        others: dict[str, int] = {}
        for content, label in zip(evidence.content.tolist(), evidence.label.tolist(), strict=True):
            own, other = known.setdefault(content, (label, name))
            if own != label:
                others[other] = others.get(other, 0) + 1
        return found + [f"{name}: {several(count)} with other labels than in {own}" for own, count in others.items()]


def evidence_problems(pack: "Pack") -> list[str]:
    """What is wrong with the evidence of a pack: missing, changed, a link, unreadable, strange, or in contradiction."""
    folder, together = pack.evidence_folder, Together()
    if folder.is_symlink():
        return [f"{folder} is a link to another place"]
    found, shared = list[str](), set[Path]()
    wrong = Counter[str]()  # what is wrong with files of inputs, and for how many entries
    for one in pack.entry:
        if problem := pack.problem(one):
            found.append(problem)
            continue
        name = ""
        try:
            if name := inputs_of(pack.file(one)):
                shared.add(folder / name)
            found += together.problems(one.name, one.data, pack.evidence(one))
        except Exception as error:  # whatever a file of a stranger may lead to
            if name and str(folder / name) in str(error):
                wrong[one_line(error)] += 1  # not the fault of the evidence
            else:
                found.append(f"{one.name}: {pack.file(one)} is no evidence ({one_line(error)})")
    found += [f"{told} ({several(count, 'entry', 'entries')})" for told, count in wrong.items()]
    if found:  # some evidence may not have said which inputs are its own
        shared |= {*folder.glob(f"inputs-{'[0-9a-f]' * 40}.parquet")}
    stray = sorted({*folder.glob("*")} - {pack.file(one) for one in pack.entry} - shared)
    return found + [f"{path} is not in the manifest" for path in stray]


def row_problems(path: Path, entries: Sequence["Entry"], rows: Sequence[ReferenceRow]) -> list[str]:
    """Where the rows of a file are not those that a manifest says: missing, too many, of nobody, or impossible."""
    names, wanted, there = {one.name for one in entries}, set(row_keys(entries)), {row.key for row in rows}
    strange = sorted({row.entry for row in rows} - names)
    found = [f"{named(key)}: not stored" for key in wanted - there]
    found += [f"{named(key)}: stored, but no evidence gives it" for key in there - wanted if key[0] in names]
    found += [
        f"{named(row.key)}: acce is {row.acce:.6f}, but approximates {row.certified_ece:.6f} from below"
        for row in rows if row.acce > row.certified_ece + LOOSE
    ]  # fmt: skip
    plain = {(row.entry, row.radius): row.certified_accuracy for row in rows if row.track == "plain"}
    found += [f"{named(row.key)}: {told}" for row in rows for told in _contradictions(row, plain)]
    return sorted(found) + [f"{path} has rows of {one!r}, which is not in the manifest" for one in strange]


def may_have_acce(row: ReferenceRow) -> bool:
    """Whether the paper's ACCE can stand in a row: by its bounds, where inputs are certified."""
    return row.track == "paper" and row.certified_ece == row.certified_ece


def _contradictions(row: ReferenceRow, plain: Mapping[tuple[str, float], float]) -> Iterator[str]:
    """What a row of its track cannot have or miss; `plain` has the certified accuracies without a map."""
    if row.acce == row.acce and not may_have_acce(row):
        yield "acce is there, which only rows of the paper's bounds with certified inputs have"
    if row.track not in PLAIN:
        if math.isnan(row.maps + row.brier_all_before):
            yield "after a map there are maps, the share of halves where one was learned, and brier_all_before"
        if row.certified_accuracy != plain.get((row.entry, row.radius), row.certified_accuracy):
            yield "a map changed certified_accuracy, which it cannot"


def row_keys(entries: Sequence["Entry"]) -> Iterator[Key]:
    """What tells the rows apart that a manifest says there are."""
    for one in entries:
        tracks = dict.fromkeys(PLAIN, one.radii) | {"recalibrated": one.mapped, "freer": one.freer}
        yield from ((one.name, track, radius) for track, radii in tracks.items() for radius in radii)


def differences(stored: Sequence[ReferenceRow], made: Sequence[ReferenceRow]) -> list[str]:
    """Where stored rows differ from rows that were made again: missing, too many, or other numbers.

    An ACCE that is not stored, or was not made again, is not compared.
    """
    before, after = ({row.key: row for row in rows} for rows in (stored, made))
    numbers = [one.name for one in fields(ReferenceRow) if one.name not in ("entry", "track", "radius")]
    found = [f"{named(key)}: not stored" for key in after.keys() - before.keys()]
    found += [f"{named(key)}: stored, but no evidence gives it" for key in before.keys() - after.keys()]
    for key in before.keys() & after.keys():
        for name in numbers:
            one, other = getattr(before[key], name), getattr(after[key], name)
            fitted = key[1] not in PLAIN and name not in ("certified_accuracy", "brier_all_before")
            slack = LOOSE if name == "acce" or fitted else 1e-9
            missing = math.isnan(one + other) if name == "acce" else math.isnan(one) and math.isnan(other)
            if not (missing or abs(one - other) <= slack):
                found.append(f"{named(key)}: {name} is {other:.6f}, stored as {one:.6f}")
    return sorted(found)


def named(key: Key) -> str:
    """A row as errors call it."""
    return f"{key[0]}, {key[1]}, R = {key[2]:g}"
