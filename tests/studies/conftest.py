"""A folder with data to sweep over, and a copy of the tree's reference pack."""

import shutil

import numpy as np
import pytest

from certcal.studies import Pack
from places import ROOT


@pytest.fixture
def desk(tmp_path, monkeypatch):
    from training_samples import stripes

    inputs, labels = stripes().tensors()
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def copy(tmp_path):
    """The reference pack of the tree, to be changed."""
    shutil.copytree(ROOT / "reference", tmp_path / "pack")
    return Pack.read(tmp_path / "pack")
