"""A window of inputs under noise, on one device: draws in, rows of votes, histograms and sums out.

Noise belongs to (input, draw), so how draws are cut into passes is mere scheduling. On a CPU a draw has a fixed place
in a batch of fixed size, so that not even rounding depends on the cut. On a GPU batches are as large as runs fastest,
and nothing leaves the device between them.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from certcal.errors import CertcalError, InputError
from certcal.models import Conditions, Noise, Purpose, Runner, to_grid, wait_for
from certcal.smoothing.evidence import Counts, EvidenceHeader
from certcal.smoothing.passes import Pass, Work, aligned_passes, fastest_batch, packed_passes
from certcal.smoothing.shards import Rows
from certcal.smoothing.sources import Item
from certcal.smoothing.tally import Tally

COLLECT_SECONDS = 3.0  # how long statistics may stay on the device


def rows_on_cpu(elements: int) -> int:
    """Rows of a forward pass on a CPU: 250, or as many as fit in 16 MB. The last bits of evidence depend on it."""
    return max(1, min(250, 2**22 // elements))


def seconds_to_compile(model: nn.Module) -> float:
    """About how long torch.compile takes on a machine that has not done it before: 10 s, longer for deep networks."""
    return 10.0 + 0.2 * sum(1 for module in model.modules() if not any(module.children()))


class Sampler:
    """Draws noisy predictions of a window of inputs and counts them.

    The model is in evaluation mode and on the device of the made-up inputs.
    """

    def __init__(
        self, model: nn.Module, header: EvidenceHeader, conditions: Conditions, made_up: Tensor, *, draws: int = 0
    ) -> None:
        """Ready for inputs like the made-up ones.

        Args:
            draws: about how many are to come; a model that has many before it is worth compiling.
        """
        self.header = header
        self.run = Runner(model, conditions, outputs=header.outputs, classes=header.classes, made_up=made_up)
        self._on_cpu, self._shape = self.run.device.type == "cpu", made_up.shape[1:]
        self._noise = {purpose: Noise(header.seed, purpose, header.sigma) for purpose in Purpose}
        self._batches: dict[int, Tensor] = {}  # by their rows; one is filled again and again
        if self._on_cpu:
            self.rows = rows_on_cpu(made_up[0].numel())
            return
        undecided = conditions.compile is None and not conditions.fuse  # a fused model runs faster than a compiled one
        if conditions.batch_size is None:
            self.rows, rate = fastest_batch(
                lambda rows: self._seconds(made_up[:1], rows), header.chunk, made_up[0].numel()
            )
            torch.cuda.empty_cache()  # the largest trials may have taken most of a device that others share
        else:
            self.rows = max(1, conditions.batch_size // header.chunk) * header.chunk
            rate = self.rows / (self._seconds(made_up[:1], self.rows) or np.inf) if undecided else 0.0
        if undecided and 0 < rate * seconds_to_compile(model) < draws:
            self.run.compile_like(self._batch(self.rows))

    def open_window(self, items: Sequence[Item], selected: dict[int, int]) -> None:
        """Start on a window of inputs; classes not yet selected are selected now."""
        for item in items:
            if item.input.shape != self._shape:
                got = f"{tuple(item.input.shape)} at input {item.index}"
                raise InputError.expected("data", f"have inputs of one shape, {tuple(self._shape)}", got)
        self._items = list(items)
        self._place(torch.stack([item.input for item in items]), [item.index for item in items])
        missing = [slot for slot, item in enumerate(items) if item.index not in selected]
        chosen = torch.tensor([selected.get(item.index, 0) for item in items])
        if missing:
            work = Work.of([(slot, 0, self.header.n0) for slot in missing])
            for _ in self._count(work, Purpose.SELECTION, self.header.n0):
                pass
            self._check()
            chosen[missing] = self._tally.votes.argmax(dim=1).cpu()[missing]  # the lowest number wins a tie
            self._tally.reset()
        self.selected: list[int] = chosen.tolist()
        self._selected.copy_(chosen)

    def draw(
        self,
        work: Work,
        *,
        keep: Callable[[Rows], None],
        drew: Callable[[int], None] = lambda draws: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make draws, whole chunks of each input, and hand over their rows, now and then, to be kept."""
        made, kept, last = 0, 0, time.monotonic()

        def due() -> bool:
            return interrupted() or time.monotonic() - last > COLLECT_SECONDS

        for draws in self._count(work, Purpose.ESTIMATION, self.header.chunk, due):
            made += draws
            drew(draws)
            if made == len(work) or (made % self.header.chunk == 0 and due()):
                keep(self._rows(work.part(kept, made)))
                kept, last = made, time.monotonic()
                if interrupted():
                    raise KeyboardInterrupt("sampling stopped; with a store, the same call goes on from here")

    def _place(self, inputs: Tensor, indices: list[int]) -> None:
        """Put inputs on the device, with nothing counted yet."""
        device, step = self.run.device, self._noise[Purpose.ESTIMATION].step
        self._inputs = self.run.empty(len(inputs), inputs.shape[1:]).copy_(to_grid(inputs, step))
        self._indices = torch.tensor(indices, device=device)
        self._selected = torch.zeros(len(indices), dtype=torch.int64, device=device)
        temperatures = self.header.temperatures
        self._tally = Tally(len(indices), self.header.classes, device, temperatures=temperatures)

    def _count(self, work: Work, purpose: Purpose, unit: int, due: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Count all draws of the work, pass by pass, and tell how many each had."""
        if self._on_cpu:
            rows = min(self.rows, unit) if purpose is Purpose.SELECTION else self.rows
            passes = aligned_passes(work, rows, unit, due)
        else:
            rows = max(self.rows, unit)
            passes = packed_passes(work, rows, unit, self.run.device)
        for own in passes:
            self._add(own, purpose, rows, self.run.outputs)
            yield own.runs.shape[1] * own.draws

    def _add(self, own: Pass, purpose: Purpose, rows: int, run: Callable[[Tensor], Tensor]) -> None:
        """Add one pass to the statistics."""
        batch, (slots, first) = self._batch(rows), own.runs
        runs = torch.stack((slots, self._indices[slots], first))
        self._noise[purpose].add(self._inputs, batch[own.rows], runs)
        self._tally.add(run(batch)[own.rows], slots, self._selected, self.header.outputs)

    def _batch(self, rows: int) -> Tensor:
        """Room for so many noisy copies, the same each time."""
        if rows not in self._batches:
            self._batches[rows] = self.run.empty(rows, self._shape).zero_()
        return self._batches[rows]

    def _rows(self, drawn: Work) -> Rows:
        """The statistics of what was drawn since the last call. Waits for the device."""
        self._check()
        slots, items = drawn.slot, [self._items[slot] for slot in drawn.slot]
        rows = Rows(
            index=np.array([item.index for item in items]),
            content=np.array([item.content for item in items]),
            label=np.array([item.label for item in items]),
            selected=np.array(self.selected)[slots],
            first=drawn.first // self.header.chunk,
            stop=drawn.stop // self.header.chunk,
            votes=self._tally.votes.cpu().numpy()[slots],
            score_units=_by_input(self._tally.score_units, slots),
            square_units=_by_input(self._tally.square_units, slots),
            histogram=_by_input(self._tally.histogram, slots).reshape(len(slots), -1),
        )
        self._tally.reset()
        return rows

    def _check(self) -> None:
        """Refuse outputs that are no probabilities. Waits for the device."""
        invalid = self._tally.invalid.cpu()
        if invalid.any():
            slot = int(invalid.argmax())
            raise CertcalError(
                f"The model gave {int(invalid[slot])} outputs that are no probabilities (such as NaN) for "
                f"noisy copies of input {self._items[slot].index}. Finished chunks are kept; these are not."
            )

    def _seconds(self, made_up: Tensor, rows: int) -> float | None:
        """How long a pass of so many rows takes, not compiled; None if it does not fit on the device."""
        self._place(made_up, [0])
        own = Pass(torch.zeros(2, 1, dtype=torch.int64, device=self.run.device), rows)
        try:
            self._add(own, Purpose.ESTIMATION, rows, self.run.plain_outputs)  # convolutions are chosen in the first
            wait_for(self.run.device)
            start = time.perf_counter()
            for _ in range(3):
                self._add(own, Purpose.ESTIMATION, rows, self.run.plain_outputs)
            wait_for(self.run.device)
        except torch.OutOfMemoryError:
            return None
        finally:
            self._batches.clear()
        return (time.perf_counter() - start) / 3


def _by_input(counts: Tensor, slots: Counts) -> Counts:
    """Counts (t, inputs, …) of some inputs: (inputs, t, …), or (inputs, …) at one temperature."""
    own = counts.cpu().numpy()[:, slots]
    return own[0] if len(own) == 1 else np.ascontiguousarray(own.swapaxes(0, 1))
