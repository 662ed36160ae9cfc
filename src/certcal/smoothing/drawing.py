"""Drawing as planned: window by window of inputs, stage by stage, chunk by chunk, until each input has enough."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from certcal.smoothing.evidence import Evidence
from certcal.smoothing.keeper import Keeper
from certcal.smoothing.progress import Progress
from certcal.smoothing.sampler import Sampler
from certcal.smoothing.shards import Rows
from certcal.smoothing.sources import Item, Source
from certcal.types import BoolArray

StoppingRule = Callable[[Evidence], BoolArray]

WINDOW = 32  # inputs whose statistics are on the device together
COLLECT_SECONDS = 3.0  # how long statistics may stay on the device


@dataclass(frozen=True)
class Plan:
    """How far to draw: after how many chunks each stage ends, and who may stop there."""

    targets: list[int]
    stop: StoppingRule | None

    def finished(self, keeper: Keeper, indices: list[int]) -> set[int]:
        """Which inputs need no more draws: all were drawn, or the rule said so at the end of a stage."""
        over = {index for index in indices if not keeper.missing(index, self.targets[-1])}
        looked = [index for index in indices if index not in over and keeper.drawn(index) in self.targets[:-1]]
        if self.stop is not None and looked:
            evidence = keeper.evidence(looked)
            over |= set(evidence.index[self.stop(evidence)].tolist())
        return over


def windows(source: Source, keeper: Keeper, plan: Plan, meter: Progress) -> Iterator[list[Item]]:
    """Groups of inputs that still need draws."""
    over = plan.finished(keeper, source.indices)
    for index in source.indices:
        meter.known(keeper.drawn(index) * keeper.header.chunk, finished=index in over)
    items = source.items(over)
    while window := list(islice(items, WINDOW)):
        yield window


def sample_window(
    window: list[Item], sampler: Sampler, keeper: Keeper, plan: Plan, meter: Progress, interrupted: Callable[[], bool]
) -> None:
    """Draw for the inputs of a window, stage by stage."""
    for item in window:
        keeper.check(item)
    sampler.open_window(window, keeper.selected)
    active = {item.index for item in window}
    for target in plan.targets:
        work = [
            (slot, chunk)
            for slot, item in enumerate(window)
            if item.index in active
            for chunk in keeper.missing(item.index, target)
        ]
        draw(work, window, sampler, keep=keeper.keep, drew=meter.drew, interrupted=interrupted)
        stopped = plan.finished(keeper, sorted(active)) if target != plan.targets[-1] else set()
        for index in stopped:
            meter.stopped(keeper.drawn(index) * keeper.header.chunk)
        active -= stopped


def draw(
    work: list[tuple[int, int]],
    window: list[Item],
    sampler: Sampler,
    *,
    keep: Callable[[Rows], None],
    drew: Callable[[int], None] = lambda draws: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Draw chunks in batches. A row holds chunks in one piece, so a gap is a reason to collect what came before it."""
    pending: list[tuple[int, int]] = []
    last = time.monotonic()
    for start in range(0, len(work), sampler.capacity):
        batch = work[start : start + sampler.capacity]
        if pending and (not _continues(pending + batch) or time.monotonic() - last > COLLECT_SECONDS):
            keep(_collected(pending, window, sampler))
            pending, last = [], time.monotonic()
        sampler.draw(batch)
        pending += batch
        drew(len(batch) * sampler.header.chunk)
        if interrupted():
            keep(_collected(pending, window, sampler))
            raise KeyboardInterrupt("sampling stopped; with a store, the same call goes on from here")
    if pending:
        keep(_collected(pending, window, sampler))


def _continues(chunks: list[tuple[int, int]]) -> bool:
    """Whether each slot's chunks follow one another without a gap."""
    last: dict[int, int] = {}
    for slot, chunk in chunks:
        if last.get(slot, chunk - 1) != chunk - 1:
            return False
        last[slot] = chunk
    return True


def _collected(pending: list[tuple[int, int]], window: list[Item], sampler: Sampler) -> Rows:
    """What the sampler has accumulated over the pending chunks."""
    votes, score_units, square_units, histogram = sampler.collect()
    slots = sorted({slot for slot, _ in pending})
    chunks = [[chunk for slot, chunk in pending if slot == own] for own in slots]
    return Rows(
        index=np.array([window[slot].index for slot in slots]),
        content=np.array([window[slot].content for slot in slots]),
        label=np.array([window[slot].label for slot in slots]),
        selected=np.array([sampler.selected[slot] for slot in slots]),
        first=np.array([own[0] for own in chunks]),
        stop=np.array([own[-1] + 1 for own in chunks]),
        votes=votes[slots],
        score_units=score_units[slots],
        square_units=square_units[slots],
        histogram=histogram[slots],
    )
