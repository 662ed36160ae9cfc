"""A folder with data to sweep over, a copy of the tree's reference pack, and packs that are made up."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from certcal.studies import Pack, ReferenceRow, add_to_pack
from certcal.studies.pack_checks import row_keys
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


@pytest.fixture(scope="session")
def drawn():
    """Evidence of 359 inputs."""
    pack = Pack.read(ROOT / "reference")
    return pack.evidence(pack.entry[0])


@pytest.fixture
def made_up(tmp_path, drawn, monkeypatch):
    """Makes a pack of the entries given, each of its first so many inputs; every number of every row is another one."""

    def make(*entries):
        folder = tmp_path / "made-up"
        monkeypatch.setattr("certcal.studies.pack.entry_rows", lambda *_, **__: [])
        for seed, facts in enumerate(entries):
            own = {"data": "digits", "network": "net", "method": "own", "radii": [0.1], "train_seed": 0} | facts
            part = drawn.select(np.arange(own.pop("inputs", 30)))
            add_to_pack(folder, replace(part, header=replace(part.header, seed=seed)), own)
        monkeypatch.undo()
        pack = Pack.read(folder)
        keys = list(row_keys(pack.entry))
        rows = [ReferenceRow(*key, *own) for key, own in zip(keys, distinct(len(keys)), strict=True)]
        accuracy = {(row.entry, row.radius): row.certified_accuracy for row in rows if row.track == "plain"}
        pack.write_rows([
            row if row.track == "paper" else
            replace(row, acce=math.nan, certified_accuracy=accuracy[row.entry, row.radius]) for row in rows
        ])  # fmt: skip
        return pack

    return make


def distinct(rows):
    """Shares of which no two are the same, eleven for each row; the eighth, the ACCE, is below every exact error."""
    made = np.random.default_rng(0).permutation(np.linspace(0.01, 0.99, 11 * rows)).reshape(rows, 11)
    return (made * np.where(np.arange(11) == 7, 0.01, 1)).tolist()
