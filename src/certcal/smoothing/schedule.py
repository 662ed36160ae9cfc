"""What to draw next when many workers draw: shards of inputs × chunks, decided one at a time as results come in.

Nothing here knows what the workers are, so that a simulation can use it as well.
"""

from collections import deque
from dataclasses import dataclass, field

from certcal.smoothing.job import Job
from certcal.smoothing.shards import Rows
from certcal.smoothing.sources import Item

SHARD_SECONDS = 2.0  # how long a shard should take: long beside its overhead, short beside the run
MOST_CHUNKS = 4096

Span = tuple[int, int]


@dataclass(frozen=True)
class Shard:
    """Work for one worker: select the classes of some inputs, or draw chunks of inputs whose classes are known."""

    items: tuple[Item, ...]
    selected: tuple[int, ...] = ()  # empty in a shard that selects
    chunks: tuple[Span, ...] = ()  # of each input, the first and that after the last

    @property
    def size(self) -> int:
        """Chunks to draw."""
        return sum(stop - first for first, stop in self.chunks)


@dataclass(eq=False)
class _Open:
    """An input on its way: chunks of its stage that wait to be drawn, and those under way."""

    item: Item
    selected: int
    stage: int
    waiting: deque[Span] = field(default_factory=deque)
    under_way: int = 0


class Schedule:
    """Hands out shards and takes results in. It reads inputs as they are needed, and forgets them when they are done.

    A class is selected once per input, before its first draws, and travels with them: on a GPU a second selection in
    another batch might round to another class.
    """

    def __init__(self, job: Job, *, batch: int) -> None:
        self._job, self._keeper, self._windows = job, job.keeper, job.windows()
        self._batch = self._size = batch  # chunks in one forward pass, and in the next shard
        self._unselected: deque[Item] = deque()
        self._drawable: deque[_Open] = deque()
        self._open: dict[int, _Open] = {}
        self._selecting = 0  # inputs whose classes are being selected
        self._ended = False

    @property
    def over(self) -> bool:
        """Whether everything is drawn."""
        return self._ended and not (self._unselected or self._open or self._selecting)

    def next(self, slots: int) -> Shard | None:
        """The next shard for one of so many slots, or None while results have to come in first."""
        if self._waiting_chunks() < slots * self._size and not self._unselected and not self._ended:
            self._read_window()
        if self._unselected and self._waiting_chunks() < slots * self._size:
            return self._selection()
        return self._drawing() if self._drawable else None

    def selected(self, shard: Shard, classes: list[int]) -> None:
        """Take in the classes that a shard selected."""
        self._selecting -= len(shard.items)
        for item, chosen in zip(shard.items, classes, strict=True):
            self._begin(item, chosen)

    def drawn(self, shard: Shard, rows: Rows, seconds: float) -> None:
        """Take in the rows that a shard drew, and decide who needs more."""
        self._keeper.keep(rows)
        self._job.meter.drew(shard.size * self._keeper.header.chunk)
        through = []
        for item, chunks in zip(shard.items, shard.chunks, strict=True):
            own = self._open[item.index]
            own.under_way -= chunks[1] - chunks[0]
            if not own.under_way and not own.waiting:
                through.append(own)
        self._look(through)
        # Draws do not depend on how they are cut into shards, so their size may follow the speed seen so far.
        fitting = int(shard.size / max(seconds, 1e-9) * SHARD_SECONDS) // self._batch * self._batch
        self._size = min(max(fitting, self._batch), MOST_CHUNKS)

    def _read_window(self) -> None:
        window = next(self._windows, None)
        self._ended = window is None
        for item in window or []:
            self._keeper.check(item)
            if item.index in self._keeper.selected:
                self._begin(item, self._keeper.selected[item.index])
            else:
                self._unselected.append(item)

    def _selection(self) -> Shard:
        header = self._keeper.header
        count = max(1, self._size * header.chunk // header.n0)
        items = tuple(self._unselected.popleft() for _ in range(min(count, len(self._unselected))))
        self._selecting += len(items)
        return Shard(items)

    def _drawing(self) -> Shard:
        items, selected, chunks, later, room = [], [], [], [], self._size
        while self._drawable and room:
            own = self._drawable.popleft()
            first, stop = own.waiting.popleft()
            cut = min(stop, first + room)
            if cut < stop:
                own.waiting.appendleft((cut, stop))
            if own.waiting:
                later.append(own)  # an input is in a shard once
            own.under_way += cut - first
            room -= cut - first
            items.append(own.item)
            selected.append(own.selected)
            chunks.append((first, cut))
        self._drawable.extendleft(reversed(later))
        return Shard(tuple(items), tuple(selected), tuple(chunks))

    def _begin(self, item: Item, selected: int) -> None:
        own = self._open[item.index] = _Open(item, selected, stage=0)
        self._go_on(own)

    def _go_on(self, own: _Open) -> None:
        """Queue the chunks of the first stage that has any missing; an input whose stages are all drawn is done."""
        while own.stage < len(self._job.targets):
            own.waiting.extend(self._keeper.missing(own.item.index, self._job.targets[own.stage]))
            if own.waiting:
                self._drawable.append(own)
                return
            own.stage += 1
        del self._open[own.item.index]

    def _look(self, through: list[_Open]) -> None:
        """After a stage: inputs that the rule stops are done, the others enter the next stage."""
        indices = [own.item.index for own in through if own.stage + 1 < len(self._job.targets)]
        stopped = self._job.stopped(indices) if indices else set()
        for own in through:
            if own.item.index in stopped:
                del self._open[own.item.index]
            else:
                own.stage += 1
                self._go_on(own)

    def _waiting_chunks(self) -> int:
        waiting = sum(stop - first for own in self._drawable for first, stop in own.waiting)
        return waiting + self._selecting * self._job.targets[0]
