"""Draws to be made, and how they are cut into forward passes: the one place where a CPU and a GPU are told apart."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from certcal.blocks import slices
from certcal.smoothing.evidence import Counts

# Trials of batch sizes on a GPU.
FIRST_NUMBERS = 2**20  # of the first trial: the inputs of a pass, 4 MB
MOST_ROWS = 2**17
FACTOR = 4  # from trial to trial: each makes the library choose its convolutions anew, which takes longest
GAIN = 1.1  # what makes another trial worth while


@dataclass(frozen=True, eq=False)
class Work:
    """Draws first … stop − 1 of some inputs, each input once: a line of draws, end to end."""

    slot: Counts  # place of the input in its window
    first: Counts
    stop: Counts

    @classmethod
    def of(cls, spans: list[tuple[int, int, int]], unit: int = 1) -> "Work":
        """The work of (slot, first, stop) triples, the last two in units of so many draws."""
        slot, first, stop = np.array(spans, dtype=np.int64).reshape(-1, 3).T
        return cls(slot, first * unit, stop * unit)

    def __len__(self) -> int:
        return int((self.stop - self.first).sum())

    def part(self, begin: int, end: int) -> "Work":
        """What lies between two positions on the line."""
        size = self.stop - self.first
        start = np.cumsum(size) - size
        low, high = np.clip(begin - start, 0, size), np.clip(end - start, 0, size)
        some = high > low
        return Work(self.slot[some], (self.first + low)[some], (self.first + high)[some])


class Pass(NamedTuple):
    """The draws of one forward pass: runs of equally many, from a row of the batch on. Other rows do not count."""

    runs: Tensor  # (2, r) on the device: slots and first draws
    draws: int  # of each run
    offset: int = 0

    @property
    def rows(self) -> slice:
        """The rows of the batch that count."""
        return slice(self.offset, self.offset + self.runs.shape[1] * self.draws)


def aligned_passes(work: Work, rows: int, unit: int, due: Callable[[], bool]) -> Iterator[Pass]:
    """Passes for a CPU, where the place of a draw in its batch shows in its last bits: draw j is in row j % rows.

    A pass that begins when something is due ends with a whole unit, if one ends in it.
    """
    for slot, first, stop in zip(work.slot.tolist(), work.first.tolist(), work.stop.tolist(), strict=True):
        while first < stop:
            end = min(stop, first - first % rows + rows)
            if due() and end - end % unit > first:
                end -= end % unit
            yield Pass(torch.tensor([[slot], [first]]), end - first, first % rows)
            first = end


def packed_passes(work: Work, rows: int, unit: int, device: torch.device) -> Iterator[Pass]:
    """Passes for a GPU: as many runs of one unit as fit. All runs are sent there at once, before the first pass."""
    counts = (work.stop - work.first) // unit
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.repeat(work.first, counts) + within * unit
    runs = torch.from_numpy(np.stack([np.repeat(work.slot, counts), first])).to(device)
    for some in slices(runs.shape[1], max(1, rows // unit)):
        yield Pass(runs[:, some], unit)


def fastest_batch(seconds: Callable[[int], float | None], unit: int, elements: int) -> tuple[int, float]:
    """The rows of a pass on a GPU of which most go through in a second, whole units, and how many do.

    Ever more are tried until they gain little or do not fit.

    Args:
        seconds: how long so many rows take; None if they do not fit.
        elements: numbers of one row.
    """
    rows = max(1, FIRST_NUMBERS // elements // unit) * unit
    best, rate = unit, 0.0
    while rows <= MOST_ROWS or rate == 0.0:
        took = seconds(rows)
        if took is None and rate == 0.0 and rows > unit:  # not even the first fits
            rows = max(1, rows // FACTOR // unit) * unit
            continue
        if took is None or rows / took <= rate:
            break
        last, best, rate = rate, rows, rows / took
        if rate < GAIN * last:
            break
        rows *= FACTOR
    return best, rate
