"""Other tasks than telling classes apart are refused on the command line, by their name."""

import numpy as np
import pytest
from PIL import Image

from command import certcal

NETS = """
from torch import nn
def make(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, classes))
def pixels(classes):
    return nn.Conv2d(1, classes, 1)
def one():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 1))
"""
LABELS = {
    "regression": np.linspace(0, 1, 6),
    "multi-label classification": np.array([[1, 1, 0], [0, 1, 0]] * 3),
    "segmentation": np.zeros((6, 4, 4), dtype=np.int64),
}


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path


def refused(desk, data, model="make"):
    words = ("--data", data, "--model", f"nets:{model}", "--sigma", 0.25, "--n", 250)
    _, error = certcal("certify", "no", *words, cwd=desk, code=2)
    assert not (desk / "runs").exists()
    return error


@pytest.mark.parametrize("task", LABELS)
def test_labels_of_other_tasks(desk, task):
    np.savez(desk / "data.npz", inputs=np.zeros((6, 1, 4, 4), dtype=np.uint8), labels=LABELS[task])
    assert f"one class per input: certcal certifies no {task}, but got" in refused(desk, "data.npz")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["0.5", "1.25", "3"], "certcal certifies no regression, but got 0.5"),
        (["cat", "dog", "cat|dog"], "certcal certifies no multi-label classification, but got 'cat|dog'"),
        (["cat", "", "dog"], "have a class for every input, but got an empty text"),
    ],
)
def test_a_table_of_labels_beside_images(desk, labels, said):
    (desk / "photos").mkdir()
    for n in range(3):
        Image.new("L", (4, 4), 40 * n).save(desk / f"photos/{n}.png")
    lines = [f"{n}.png,{label}" for n, label in enumerate(labels)]
    (desk / "photos/labels.csv").write_text("\n".join(["file,label", *lines]))
    error = refused(desk, "photos/")
    assert said in error
    assert "labels.csv" in error


def test_models_of_other_tasks(desk):
    np.savez(desk / "data.npz", inputs=np.zeros((6, 1, 4, 4), dtype=np.uint8), labels=np.arange(6) % 3)
    assert "one class per input: certcal certifies no segmentation or detection" in refused(desk, "data.npz", "pixels")
    assert "2 outputs: certcal certifies no regression" in refused(desk, "data.npz", "one")
