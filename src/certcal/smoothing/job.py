"""What is to be drawn: inputs, how far to draw for each, and what has been kept of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from certcal.progress import Progress
from certcal.smoothing.evidence import Evidence
from certcal.smoothing.keeper import Keeper
from certcal.smoothing.sources import Item, Source
from certcal.types import BoolArray

StoppingRule = Callable[[Evidence], BoolArray]

WINDOW = 32  # inputs whose statistics are on the device together; a GPU has room for more


@dataclass(frozen=True, eq=False)
class Job:
    """Draws of some inputs, stage by stage, until each has enough."""

    source: Source
    keeper: Keeper
    targets: list[int]  # chunks after which each stage ends
    stop: StoppingRule | None  # says after a stage which inputs need no more
    meter: Progress

    @property
    def over(self) -> bool:
        """Whether no input needs more draws."""
        return len(self.finished(self.source.indices)) == len(self.source)

    @property
    def left(self) -> int:
        """How many draws are missing, if no input stops early."""
        chunks = sum(self.targets[-1] - self.keeper.drawn(index) for index in self.source.indices)
        return max(0, chunks) * self.keeper.header.chunk

    def finished(self, indices: list[int]) -> set[int]:
        """Which inputs need no more draws: all were drawn, or the rule said so at the end of a stage."""
        over = {index for index in indices if not self.keeper.missing(index, self.targets[-1])}
        looked = [index for index in indices if index not in over and self._through(index)]
        if self.stop is not None and looked:
            evidence = self.keeper.evidence(looked)
            over |= set(evidence.index[self.stop(evidence)].tolist())
        return over

    def _through(self, index: int) -> bool:
        """Whether an input stands at the end of a stage before the last: with its first draws, and none left out."""
        drawn = self.keeper.drawn(index)
        return drawn in self.targets[:-1] and not self.keeper.missing(index, drawn)

    def stopped(self, indices: list[int]) -> set[int]:
        """The same for inputs that are through with a stage before the last; what they save is shown."""
        over = self.finished(indices)
        for index in over:
            self.meter.stopped(self.keeper.drawn(index) * self.keeper.header.chunk)
        return over

    def windows(self, size: int = WINDOW) -> Iterator[list[Item]]:
        """Groups of so many inputs that still need draws."""
        over = self.finished(self.source.indices)
        for index in self.source.indices:
            self.meter.known(self.keeper.drawn(index) * self.keeper.header.chunk, finished=index in over)
        items = self.source.items(over)
        while window := list(islice(items, size)):
            yield window
