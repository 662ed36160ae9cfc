"""A folder with data to sweep over."""

import numpy as np
import pytest


@pytest.fixture
def desk(tmp_path, monkeypatch):
    from training_samples import stripes

    inputs, labels = stripes().tensors()
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    monkeypatch.chdir(tmp_path)
    return tmp_path
