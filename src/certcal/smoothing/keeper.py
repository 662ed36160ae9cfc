"""What has been drawn so far: which chunks of which inputs, in memory and, every few seconds, in the store."""

import time
from collections.abc import Sequence

import numpy as np

from certcal.errors import InputError
from certcal.smoothing.evidence import Evidence, EvidenceHeader
from certcal.smoothing.shards import Rows, concatenate
from certcal.smoothing.sources import Item
from certcal.smoothing.store import EvidenceStore, sum_rows

SAVE_SECONDS = 5.0


class Keeper:
    """Rows of finished chunks. Those not yet in the store are at most a few seconds old."""

    def __init__(self, header: EvidenceHeader, store: EvidenceStore | None) -> None:
        self.header, self._store = header if store is None else store.header, store
        self._parts: list[Rows] = []
        self._places: dict[int, list[tuple[int, int]]] = {}  # of each input, the parts and rows it is in
        self._unsaved: list[Rows] = []
        self._saved_at = time.monotonic()
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # chunks drawn of each input, as [first, stop)
        self.selected: dict[int, int] = {}
        self._known: dict[int, tuple[int, int]] = {}  # content and label
        if store is not None and len(there := store.rows()):
            self._note(there)

    def keep(self, rows: Rows) -> None:
        """Take rows of finished chunks in, and save them if the last time is long ago."""
        if self._store is not None and not self._parts:
            self._store.keep_plan()
        self._note(rows)
        self._unsaved.append(rows)
        if time.monotonic() - self._saved_at > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write what is not in the store yet."""
        # Forgotten before they are written: whatever interrupts the writing, they are never written twice.
        rows, self._unsaved, self._saved_at = self._unsaved, [], time.monotonic()
        if self._store is not None and rows:
            self._store.append(concatenate(rows, self.header))

    def drawn(self, index: int) -> int:
        """How many chunks of an input are drawn."""
        return sum(stop - first for first, stop in self._ranges.get(index, []))

    def missing(self, index: int, target: int) -> list[tuple[int, int]]:
        """Which of an input's first `target` chunks are not drawn, as [first, stop).

        Most often that is one piece; a shard that was moved away leaves gaps.
        """
        gaps: list[tuple[int, int]] = []
        position = 0
        for first, stop in [*sorted(self._ranges.get(index, [])), (target, target)]:
            if position < min(first, target):
                gaps.append((position, min(first, target)))
            position = max(position, stop)
        return gaps

    def evidence(self, indices: Sequence[int]) -> Evidence:
        """The evidence of some inputs, in their order."""
        wanted: dict[int, list[int]] = {}
        for index in indices:
            for part, row in self._places.get(index, []):
                wanted.setdefault(part, []).append(row)
        some = (self._parts[part].take(rows) for part, rows in wanted.items())
        whole = sum_rows(concatenate(some, self.header), self.header)
        position = {int(index): place for place, index in enumerate(whole.index)}
        return whole.select(np.array([position[index] for index in indices if index in position], dtype=np.int64))

    def check(self, item: Item) -> None:
        """Refuse a label that is no class of the model, or an input other than the one stored evidence is of."""
        if item.label >= self.header.classes:
            classes = f"have labels from 0 to {self.header.classes - 1}, the model's classes"
            hint = " (one output tells two classes apart; certcal certifies no regression)"
            got = f"{item.label} at input {item.index}{hint if self.header.classes == 2 else ''}"
            raise InputError.expected("data", classes, got)
        content, label = self._known.get(item.index, (item.content, item.label))
        if content != item.content:
            raise InputError(
                f"Expected input {item.index} to be the one its stored evidence was drawn from, but its values differ. "
                "Use another folder for other data."
            )
        if label != item.label:
            told = f"label input {item.index} {label}, as its stored evidence does"
            raise InputError.expected("data", told, item.label)

    def _note(self, rows: Rows) -> None:
        columns = (rows.index, rows.content, rows.label, rows.selected, rows.first, rows.stop)
        for row, (index, content, label, selected, first, stop) in enumerate(
            zip(*(part.tolist() for part in columns), strict=True)
        ):
            self._places.setdefault(index, []).append((len(self._parts), row))
            self._ranges.setdefault(index, []).append((first, stop))
            self.selected[index] = selected
            self._known[index] = content, label
        self._parts.append(rows)
