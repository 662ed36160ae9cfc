"""A window of inputs under noise, on one device: chunks of draws in, rows of votes, histograms and sums out.

Nothing leaves the device between batches. On a CPU a forward pass always holds exactly one chunk, so that no result
depends on what else is in the batch; on a GPU many chunks share one pass of fixed shape.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from certcal.errors import CertcalError, InputError
from certcal.models import Conditions, GaussianNoise, Purpose, Runner, no_distribution
from certcal.smoothing.evidence import CELLS, SCORE_UNIT, EvidenceHeader, threshold_grid
from certcal.smoothing.shards import Rows
from certcal.smoothing.sources import Item

COLLECT_SECONDS = 3.0  # how long statistics may stay on the device

Work = list[tuple[int, int]]  # chunks to draw: the place of an input in the window, and the number of its chunk


class Sampler:
    """Draws noisy predictions of a window of inputs and accumulates their statistics.

    The model is in evaluation mode and on the device of the made-up inputs.
    """

    def __init__(self, model: nn.Module, header: EvidenceHeader, conditions: Conditions, made_up: Tensor) -> None:
        self.header, self.capacity = header, conditions.chunks_at_once(header.chunk)
        self.run = Runner(model, conditions, outputs=header.outputs, classes=header.classes, made_up=made_up)
        self._noise = GaussianNoise(header.sigma, header.seed, header.chunk)
        self._thresholds = torch.as_tensor(threshold_grid()[1:-1], dtype=torch.float32, device=self.run.device)

    def open_window(self, items: Sequence[Item], selected: dict[int, int]) -> None:
        """Start on a window of inputs; classes not yet selected are selected now."""
        self._items = list(items)
        for item in items:
            if item.input.shape != items[0].input.shape:
                got = f"{tuple(item.input.shape)} at input {item.index}"
                raise InputError.expected("data", f"have inputs of one shape, {tuple(items[0].input.shape)}", got)
        self._inputs = torch.stack([item.input for item in items]).to(self.run.device)
        missing = [slot for slot, item in enumerate(items) if item.index not in selected]
        chosen = torch.tensor([selected.get(item.index, -1) for item in items])
        if missing:
            chosen[missing] = self._select(missing)
        self.selected: list[int] = chosen.tolist()
        self._selected = chosen.to(self.run.device)
        self._reset()

    def draw(
        self,
        work: Work,
        *,
        keep: Callable[[Rows], None],
        drew: Callable[[int], None] = lambda draws: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Draw chunks in batches and hand over their rows, now and then, to be kept."""
        pending: Work = []
        last = time.monotonic()
        for start in range(0, len(work), self.capacity):
            batch = work[start : start + self.capacity]
            # A row holds chunks in one piece, so a gap is a reason to collect what came before it.
            if pending and (not _continues(pending + batch) or time.monotonic() - last > COLLECT_SECONDS):
                keep(self._rows(pending))
                pending, last = [], time.monotonic()
            self._add(batch)
            pending += batch
            drew(len(batch) * self.header.chunk)
            if interrupted():
                keep(self._rows(pending))
                raise KeyboardInterrupt("sampling stopped; with a store, the same call goes on from here")
        if pending:
            keep(self._rows(pending))

    def _add(self, work: Work) -> None:
        """Add at most `capacity` chunks to the statistics."""
        size = self.header.chunk
        places = [(slot, chunk * size) for slot, chunk in work]
        probs = self.run(self._noisy(places, Purpose.ESTIMATION, size, self.capacity))[: len(work) * size]
        votes = probs.argmax(dim=1)
        slots = torch.tensor([slot for slot, _ in work]).to(self.run.device, non_blocking=True)
        per_draw = slots.repeat_interleave(size, output_size=len(votes))
        score = probs.gather(1, self._selected[per_draw][:, None]).squeeze(1)
        cell = torch.bucketize(score, self._thresholds, right=True)
        ones = torch.ones_like(votes)
        self._votes.view(-1).scatter_add_(0, per_draw * self.header.classes + votes, ones)
        self._histogram.view(-1).scatter_add_(0, per_draw * CELLS + cell, ones)
        exact = score.double().view(len(work), size)
        self._score_units.index_add_(0, slots, (exact.sum(dim=1) / SCORE_UNIT).round().long())
        self._square_units.index_add_(0, slots, (exact.square().sum(dim=1) / SCORE_UNIT).round().long())
        self._invalid.scatter_add_(0, per_draw, no_distribution(probs).long())

    def _rows(self, drawn: Work) -> Rows:
        """The statistics of the chunks drawn since the last call. Waits for the device."""
        invalid = self._invalid.cpu()
        if invalid.any():
            slot = int(invalid.argmax())
            raise CertcalError(
                f"The model gave {int(invalid[slot])} outputs that are no probabilities (such as NaN) for "
                f"noisy copies of input {self._items[slot].index}. Finished chunks are kept; these are not."
            )
        slots = sorted({slot for slot, _ in drawn})
        chunks = [[chunk for slot, chunk in drawn if slot == own] for own in slots]
        rows = Rows(
            index=np.array([self._items[slot].index for slot in slots]),
            content=np.array([self._items[slot].content for slot in slots]),
            label=np.array([self._items[slot].label for slot in slots]),
            selected=np.array([self.selected[slot] for slot in slots]),
            first=np.array([own[0] for own in chunks]),
            stop=np.array([own[-1] + 1 for own in chunks]),
            votes=self._votes.cpu().numpy()[slots],
            score_units=self._score_units.cpu().numpy()[slots],
            square_units=self._square_units.cpu().numpy()[slots],
            histogram=self._histogram.cpu().numpy()[slots],
        )
        self._reset()
        return rows

    def _reset(self) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(len(self._items), *shape, dtype=torch.int64, device=self.run.device)

        self._votes, self._histogram = zeros(self.header.classes), zeros(CELLS)
        self._score_units, self._square_units, self._invalid = zeros(), zeros(), zeros()

    def _select(self, slots: list[int]) -> Tensor:
        """The class most often predicted in the selection draws; the lowest number wins a tie."""
        n0 = self.header.n0
        together = 1 if self.run.device.type == "cpu" else max(1, self.capacity * self.header.chunk // n0)
        counts = []
        for start in range(0, len(slots), together):
            part = slots[start : start + together]
            probs = self.run(self._noisy([(slot, 0) for slot in part], Purpose.SELECTION, n0, together))
            probs = probs[: len(part) * n0]
            votes = probs.argmax(dim=1).view(len(part), n0)
            one_hot = torch.zeros(len(part), self.header.classes, dtype=torch.int64, device=self.run.device)
            counts.append(one_hot.scatter_add_(1, votes, torch.ones_like(votes)))
            bad = no_distribution(probs).view(len(part), n0).any(dim=1)
            if bad.any():
                index = self._items[part[int(bad.long().argmax())]].index
                raise CertcalError(f"The model gave outputs that are no probabilities (such as NaN) for input {index}.")
        return torch.cat(counts).argmax(dim=1).cpu()

    def _noisy(self, places: Work, purpose: Purpose, draws: int, capacity: int) -> Tensor:
        """Noisy copies in a batch of fixed size, whose end may be zero.

        Places are the slots of inputs, each with the first of its `draws` draws.
        """
        batch = self.run.empty(capacity * draws, self._inputs.shape[1:])
        for place, (slot, first) in enumerate(places):
            own = batch[place * draws : (place + 1) * draws]
            self._noise.fill(own, index=self._items[slot].index, purpose=purpose, first_draw=first)
            own += self._inputs[slot]
        batch[len(places) * draws :] = 0
        return batch


def _continues(chunks: Work) -> bool:
    """Whether each slot's chunks follow one another without a gap."""
    last: dict[int, int] = {}
    for slot, chunk in chunks:
        if last.get(slot, chunk - 1) != chunk - 1:
            return False
        last[slot] = chunk
    return True
