"""A temperature of the network's outputs, before smoothing."""

import torch
from torch import Tensor, nn

from certcal.models.outputs import as_outputs
from certcal.settings import checks


class Tempered(nn.Module):
    """A model with its logits divided by a temperature: no noisy copy's class changes, only how sure it is.

    Below 1 every copy is surer, so that smoothed confidences are closer to the share of votes and their certificates
    narrower; docs/training.md has what that does. It is another model than the one without: evidence has to be drawn
    anew. The temperature is a buffer, and counts in the model's fingerprint.

    >>> Tempered(nn.Identity(), 0.5)(torch.tensor([[1.0, 3.0]])).tolist()
    [[2.0, 6.0]]
    """

    temperature: Tensor

    def __init__(self, model: nn.Module, temperature: float) -> None:
        super().__init__()
        value = checks.positive("temperature", temperature)
        self.model = model
        self.register_buffer("temperature", torch.tensor(value))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, shape (n, k)."""
        return as_outputs(self.model(inputs), len(inputs)) / self.temperature
