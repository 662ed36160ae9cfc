"""`--groups`, `--threshold` and `--any-binning` as people use them."""

import json

import numpy as np
import pytest

from command import certcal

NET = """
import torch
from torch import nn
def make(size, classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, classes))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("groups"), np.random.default_rng(0)
    inputs, sex = rng.random((20, 1, 4, 4), dtype=np.float32), np.array(["F", "M"] * 10)
    np.savez(place / "data.npz", inputs=inputs, labels=np.arange(20) % 3, sex=sex, short=np.arange(5))
    (place / "nets.py").write_text(NET)
    lines = [f"{19 - n},{'a' if n < 5 else 'b'}" for n in range(20)]
    (place / "sites.csv").write_text("\n".join(["index,site", *lines]) + "\n")
    words = [
        "--model",
        "nets:make",
        "--data",
        "data.npz",
        "--sigma",
        0.25,
        "--n",
        250,
        "--radii",
        "0,0.1",
        "--no-figures",
    ]
    certcal("certify", "one", *words, cwd=place)
    return place


def test_groups_from_the_data_a_table_and_the_certificates(place):
    words = ["--groups", "sex,label,sites.csv", "--threshold", 0.4, "--any-binning", "--no-figures"]
    certcal("evaluate", "one", *words, cwd=place)
    found = json.loads((place / "runs/one/metrics.json").read_text())
    tables = found["groups"][0]
    assert [table["column"] for table in tables] == ["sex", "label", "site"]
    assert [(group["name"], group["inputs"]) for group in tables[2]["groups"]] == [("a", 5), ("b", 15)]
    assert {table["threshold"] for table in tables} == {0.4}
    assert {own["metric"] for own in tables[0]["disparities"]} <= {"accuracy", "ece", "brier"}
    assert found["further"][0]["certified_any_binning"] >= found["rows"][0]["certified_ece"] - 1e-9
    assert len(found["operating"][0]["threshold"]) == 21
    assert "certified_auroc" not in found["rows"][0]
    page = (place / "runs/one/report.html").read_text()
    assert "If you accept from a threshold" in page
    assert "By site" in page


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("colour", "or a column of the .npz data file, which has inputs, labels, sex, short, but got 'colour'"),
        ("none.csv", "to name a table that exists, but got none.csv"),
        ("short", "to have a row for each input of the data, at least 20, but got 5 in 'short'"),
    ],
)
def test_groups_that_do_not_fit_are_refused(place, name, message):
    _, error = certcal("evaluate", "one", "--groups", name, "--no-figures", cwd=place, code=2)
    assert message in " ".join(error.split())
