"""A folder to type commands in."""

import textwrap

import numpy as np
import pytest

from certcal import save_evidence
from certcal.runs import RunFolder
from run_settings import SETTINGS
from smoothing_oracles import random_evidence

FACTORY = """
    import torch

    def make(classes, channels, size):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * size * size, classes))

    def other(classes, channels, size):
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * size * size, classes))

    def raises(classes):
        return {}["depth"]

    def broken(classes):
        return torch.nn.Linear(5, classes)
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with a model's code, data, and a run that has evidence."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "nets.py").write_text(textwrap.dedent(FACTORY))
    rng = np.random.default_rng(0)
    np.savez(folder / "data.npz", inputs=rng.random((12, 1, 4, 4)), labels=rng.integers(0, 3, 12))
    run = RunFolder(folder / "runs" / "made")
    run.create()
    save_evidence(random_evidence(rng, inputs=60, draws=1000), run.evidence)
    run.save_settings(SETTINGS)
    return folder
