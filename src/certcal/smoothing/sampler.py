"""A model under noise, on one device: batches of chunks in, votes, histograms and sums out.

Nothing leaves the device between batches. On a CPU a forward pass always holds exactly one chunk, so that no result
depends on what else is in the batch; on a GPU many chunks share one pass of fixed shape.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from certcal.errors import CertcalError, InputError
from certcal.models.noise import SELECTION, NoiseSource
from certcal.smoothing.evidence import CELLS, SCORE_UNIT, Counts, EvidenceHeader, threshold_grid
from certcal.smoothing.sources import Item

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Sampler:
    """Draws noisy predictions of a window of inputs and accumulates their statistics."""

    def __init__(
        self,
        model: nn.Module,
        header: EvidenceHeader,
        *,
        device: torch.device,
        precision: str,
        outputs: str,
        chunks_per_batch: int,
        compile: bool,
    ) -> None:
        self.header, self._device = header, device
        self._from_logits = outputs == "logits"
        self._autocast_dtype = PRECISIONS[precision]
        self.capacity = chunks_per_batch
        self._noise = NoiseSource(header.seed, device)
        self._thresholds = torch.as_tensor(threshold_grid()[1:-1], dtype=torch.float32, device=device)
        # Two shapes occur, selection and estimation batches; each deserves code of its own.
        self._model = torch.compile(model, dynamic=False) if compile else model

    def open_window(self, items: Sequence[Item], selected: dict[int, int]) -> None:
        """Start on a window of inputs; classes not yet selected are selected now."""
        self._items = list(items)
        for item in items:
            if item.input.shape != items[0].input.shape:
                got = f"{tuple(item.input.shape)} at input {item.index}"
                raise InputError.expected("data", f"have inputs of one shape, {tuple(items[0].input.shape)}", got)
        self._inputs = torch.stack([item.input for item in items]).to(self._device)
        missing = [slot for slot, item in enumerate(items) if item.index not in selected]
        chosen = torch.tensor([selected.get(item.index, -1) for item in items])
        if missing:
            chosen[missing] = self._select(missing)
        self.selected: list[int] = chosen.tolist()
        self._selected = chosen.to(self._device)
        self._reset()

    def draw(self, work: Sequence[tuple[int, int]]) -> None:
        """Add the chunks (slot, chunk) to the statistics; at most `chunks_per_batch` of them."""
        size = self.header.chunk
        batch = self._noisy([slot for slot, _ in work], [chunk + 1 for _, chunk in work], size, self.capacity)
        probs, votes = (part[: len(work) * size] for part in self.predict(batch))
        slots = torch.tensor([slot for slot, _ in work]).to(self._device, non_blocking=True)
        per_draw = slots.repeat_interleave(size, output_size=len(votes))
        score = probs.gather(1, self._selected[per_draw][:, None]).squeeze(1)
        cell = torch.bucketize(score, self._thresholds, right=True)
        ones = torch.ones_like(votes)
        self._votes.view(-1).scatter_add_(0, per_draw * self.header.classes + votes, ones)
        self._histogram.view(-1).scatter_add_(0, per_draw * CELLS + cell, ones)
        exact = score.double().view(len(work), size)
        self._score_units.index_add_(0, slots, (exact.sum(dim=1) / SCORE_UNIT).round().long())
        self._square_units.index_add_(0, slots, (exact.square().sum(dim=1) / SCORE_UNIT).round().long())
        self._invalid.scatter_add_(0, per_draw, _is_no_distribution(probs).long())

    def collect(self) -> tuple[Counts, Counts, Counts, Counts]:
        """Votes, score units, square units and histogram of the window since the last call. Waits for the device."""
        invalid = self._invalid.cpu()
        if invalid.any():
            slot = int(invalid.argmax())
            raise CertcalError(
                f"The model gave {int(invalid[slot])} outputs that are no probabilities (such as NaN) for "
                f"noisy copies of input {self._items[slot].index}. Finished chunks are kept; these are not."
            )
        statistics = tuple(
            part.cpu().numpy() for part in (self._votes, self._score_units, self._square_units, self._histogram)
        )
        self._reset()
        return statistics  # type: ignore[return-value]

    def _reset(self) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(len(self._items), *shape, dtype=torch.int64, device=self._device)

        self._votes, self._histogram = zeros(self.header.classes), zeros(CELLS)
        self._score_units, self._square_units, self._invalid = zeros(), zeros(), zeros()

    def _select(self, slots: list[int]) -> Tensor:
        """The class most often predicted in the selection draws; the lowest number wins a tie."""
        n0 = self.header.n0
        together = 1 if self._device.type == "cpu" else max(1, self.capacity * self.header.chunk // n0)
        counts = []
        for start in range(0, len(slots), together):
            part = slots[start : start + together]
            probs, votes = self.predict(self._noisy(part, [SELECTION] * len(part), n0, together))
            rows = votes[: len(part) * n0].view(len(part), n0)
            one_hot = torch.zeros(len(part), self.header.classes, dtype=torch.int64, device=self._device)
            counts.append(one_hot.scatter_add_(1, rows, torch.ones_like(rows)))
            bad = _is_no_distribution(probs[: len(part) * n0]).view(len(part), n0).any(dim=1)
            if bad.any():
                index = self._items[part[int(bad.long().argmax())]].index
                raise CertcalError(f"The model gave outputs that are no probabilities (such as NaN) for input {index}.")
        return torch.cat(counts).argmax(dim=1).cpu()

    def _noisy(self, slots: list[int], streams: list[int], draws: int, capacity: int) -> Tensor:
        """Noisy copies of inputs, `draws` of each, in a batch of fixed size; what is left over at its end is zero."""
        shape = self._inputs.shape[1:]
        layout = torch.channels_last if self._device.type == "cuda" and len(shape) == 3 else torch.contiguous_format
        batch = torch.empty(capacity * draws, *shape, device=self._device, memory_format=layout)
        for place, (slot, stream) in enumerate(zip(slots, streams, strict=True)):
            own, index = batch[place * draws : (place + 1) * draws], self._items[slot].index
            self._noise.fill(own, sigma=self.header.sigma, index=index, stream=stream)
            own += self._inputs[slot]
        batch[len(slots) * draws :] = 0
        return batch

    def predict(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Class probabilities in float32, shape (rows, k), and predicted classes, shape (rows,)."""
        with self._autocast():
            out = self._model(batch)
        if not isinstance(out, Tensor) or out.shape != (len(batch), self.header.classes):
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError.expected("model", f"give outputs of shape ({len(batch)}, {self.header.classes})", shape)
        # Probabilities may come out a rounding above 1; what is certified is their clipped version.
        probs = torch.softmax(out.float(), dim=1) if self._from_logits else _clipped(out.float())
        return probs, probs.argmax(dim=1)

    def _autocast(self) -> AbstractContextManager[object]:
        if self._autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=self._autocast_dtype)


def _clipped(probs: Tensor) -> Tensor:
    """Probabilities at most 1, where they are probabilities at all; NaN and negative values stay to be found."""
    return torch.where(_is_no_distribution(probs)[:, None], probs, probs.clamp(max=1.0))


def _is_no_distribution(probs: Tensor) -> Tensor:
    """Which rows are no probability vectors. Written so that NaN counts as wrong."""
    total, least = probs.sum(dim=1), probs.amin(dim=1)
    return ~((least >= 0) & ((total - 1).abs() < 1e-3))
