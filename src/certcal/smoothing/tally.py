"""Statistics of a window of inputs under noise: whole numbers, so that no order or cut of the draws shows in them."""

import torch
from torch import Tensor

from certcal.models import as_probabilities, kernels_for, no_distribution
from certcal.smoothing.evidence import CELLS, SCORE_UNIT, threshold_grid


class Tally:
    """Votes, histogram and sums of each input, int64, on the device of the draws. Nothing here waits for the device."""

    def __init__(
        self, inputs: int, classes: int, device: torch.device, *, temperatures: tuple[float, ...] = ()
    ) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.int64, device=device)

        self.temperatures, kinds = temperatures, max(1, len(temperatures))
        self.votes, self.histogram = zeros(inputs, classes), zeros(kinds, inputs, CELLS)
        # Each draw is rounded to whole units by itself.
        self.score_units, self.square_units = zeros(kinds, inputs), zeros(kinds, inputs)
        self.invalid = zeros(inputs)  # outputs that are no probabilities
        self._counts = (self.votes, self.histogram, self.score_units, self.square_units, self.invalid)
        self._thresholds = torch.as_tensor(threshold_grid()[1:-1], dtype=torch.float32, device=device)

    def add(self, outputs: Tensor, slots: Tensor, selected: Tensor, kind: str) -> None:
        """Count outputs (rows, k) of a kind, as many rows for each of the slots; `selected` has one class per input."""
        if (kernels := kernels_for(outputs.device)) is None:
            self._add(outputs.float(), slots, selected, kind)
            return
        logits, own = kind == "logits", self.temperatures
        temperatures = torch.tensor(own, device=outputs.device) if own else None
        counts, edges = self._counts, self._thresholds
        kernels.launch_tally_rows(counts, outputs, slots, selected, edges, logits=logits, temperatures=temperatures)

    def reset(self) -> None:
        """Count from zero again."""
        for counts in self._counts:
            counts.zero_()

    def _add(self, outputs: Tensor, slots: Tensor, selected: Tensor, kind: str) -> None:
        rows, classes = outputs.shape
        owner = slots.repeat_interleave(rows // len(slots), output_size=rows)
        ones, mine = torch.ones_like(owner), selected[owner][:, None]
        self.votes.view(-1).scatter_add_(0, owner * classes + outputs.argmax(dim=1), ones)
        bad = torch.zeros_like(owner, dtype=torch.bool)
        for t, temperature in enumerate(self.temperatures or (1.0,)):
            probs = as_probabilities(outputs if temperature == 1 else outputs / temperature, kind)
            score = probs.gather(1, mine).squeeze(1)
            cell = torch.bucketize(score, self._thresholds, right=True)
            self.histogram[t].view(-1).scatter_add_(0, owner * CELLS + cell, ones)
            exact = score.double()
            self.score_units[t].scatter_add_(0, owner, (exact / SCORE_UNIT).round().long())
            self.square_units[t].scatter_add_(0, owner, (exact.square() / SCORE_UNIT).round().long())
            bad |= no_distribution(probs)
        self.invalid.scatter_add_(0, owner, bad.long())
