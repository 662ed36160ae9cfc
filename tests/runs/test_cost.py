"""The bench of the command line times what it says."""

import pytest
import torch
from torch import nn

from certcal.runs.cost import measure_cost


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_bench_times_forward_passes_in_the_precision_asked_for(monkeypatch, precision):
    """The bare forward passes beside which drawing is timed: 250 images of a batch, with or without autocast."""
    seen = set()

    class Recording(nn.Module):
        def forward(self, x):
            seen.add(torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"))
            return x.flatten(1)[:, :3]

    monkeypatch.setattr("certcal.runs.cost.build_model", lambda *_, **__: Recording())
    monkeypatch.setattr("certcal.runs.cost.collect_evidence", lambda *_, **__: None)
    monkeypatch.setattr("certcal.runs.cost._seconds", lambda call, **_: (call(), 1.0)[1])
    measure_cost("recording", channels=1, size=4, classes=3, device="cpu", precision=precision)
    assert seen == {False if precision == "float32" else torch.bfloat16}
