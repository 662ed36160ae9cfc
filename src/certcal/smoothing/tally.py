"""Statistics of a window of inputs under noise: whole numbers, so that no order or cut of the draws shows in them."""

import torch
from torch import Tensor

from certcal.models import as_probabilities, has_kernels, no_distribution
from certcal.smoothing.evidence import CELLS, SCORE_UNIT, threshold_grid


class Tally:
    """Votes, histogram and sums of each input, int64, on the device of the draws. Nothing here waits for the device."""

    def __init__(self, inputs: int, classes: int, device: torch.device) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(inputs, *shape, dtype=torch.int64, device=device)

        self.votes, self.histogram = zeros(classes), zeros(CELLS)
        self.score_units, self.square_units = zeros(), zeros()  # each draw rounded to whole units by itself
        self.invalid = zeros()  # outputs that are no probabilities
        self._thresholds = torch.as_tensor(threshold_grid()[1:-1], dtype=torch.float32, device=device)

    def add(self, outputs: Tensor, slots: Tensor, selected: Tensor, kind: str) -> None:
        """Count outputs (rows, k) of a kind, as many rows for each of the slots; `selected` has one class per input."""
        if has_kernels(outputs.device):
            self._add_in_one_kernel(outputs, slots, selected, kind)
        else:
            self._add(outputs.float(), slots, selected, kind)

    def reset(self) -> None:
        """Count from zero again."""
        for counts in (self.votes, self.histogram, self.score_units, self.square_units, self.invalid):
            counts.zero_()

    def _add(self, outputs: Tensor, slots: Tensor, selected: Tensor, kind: str) -> None:
        rows, classes = outputs.shape
        probs = as_probabilities(outputs, kind)
        owner = slots.repeat_interleave(rows // len(slots), output_size=rows)
        score = probs.gather(1, selected[owner][:, None]).squeeze(1)
        cell = torch.bucketize(score, self._thresholds, right=True)
        ones = torch.ones_like(owner)
        self.votes.view(-1).scatter_add_(0, owner * classes + outputs.argmax(dim=1), ones)
        self.histogram.view(-1).scatter_add_(0, owner * CELLS + cell, ones)
        exact = score.double()
        self.score_units.scatter_add_(0, owner, (exact / SCORE_UNIT).round().long())
        self.square_units.scatter_add_(0, owner, (exact.square() / SCORE_UNIT).round().long())
        self.invalid.scatter_add_(0, owner, no_distribution(probs).long())

    def _add_in_one_kernel(self, outputs: Tensor, slots: Tensor, selected: Tensor, kind: str) -> None:
        from certcal.models.kernels import launch_tally_rows

        counts = (self.votes, self.histogram, self.score_units, self.square_units, self.invalid)
        launch_tally_rows(counts, outputs, slots, selected, self._thresholds, logits=kind == "logits")
