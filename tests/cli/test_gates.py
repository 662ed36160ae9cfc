"""`certcal check` and `certcal compare` as people and CI run them."""

import json
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest

from certcal.files import sealed, unsealed
from command import certcal

NETS = """
import torch
from torch import nn
def make(size, classes, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, classes))
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("desk"), np.random.default_rng(0)
    np.savez(place / "data.npz", inputs=rng.random((20, 1, 4, 4), dtype=np.float32), labels=np.arange(20) % 3)
    (place / "nets.py").write_text(NETS)
    words = ["--data", "data.npz", "--sigma", 0.25, "--n", 250, "--radii", "0,0.1", "--no-figures"]
    for name, seed in (("one", 0), ("two", 1)):
        (place / f"{name}.toml").write_text(f'[model]\nname = "nets:make"\noptions = {{ seed = {seed} }}\n')
        certcal("certify", name, "--config", f"{name}.toml", "--model", "nets:make", *words, cwd=place)
    return place


def test_a_gate_passes_and_fails(desk):
    good, bad = "guaranteed_ece@0.05 <= 1", "certified_accuracy@0.1 >= 101 %"
    out, _ = certcal("check", "one", "--require", good, cwd=desk)
    assert out.startswith("guaranteed_ece@0.05 <= 1: met, it is ")
    words = ["check", "one", "--require", good, "--require", bad]
    out, error = certcal(*words, "--junit", "gate.xml", "--markdown", "sum.md", cwd=desk, code=1)
    assert out == ""
    doubt, line = error.splitlines()
    assert doubt.startswith("warning: The model says '1' of all 20 inputs, which are of several classes")
    assert line.startswith("certified_accuracy@0.1 >= 101 %: NOT met, it is ")
    assert "<system-err>warning: The model says" in (desk / "gate.xml").read_text()
    assert 'failures="1"' in (desk / "gate.xml").read_text()
    assert "✅" in (desk / "sum.md").read_text()
    out, _ = certcal(*words, "--json", cwd=desk, code=1)
    assert [one["passed"] for one in json.loads(out)] == [True, False]
    _, error = certcal("check", "one", "--require", "ece < 1", cwd=desk, code=2)
    assert "Expected `--require` to have the form guaranteed_ece@0.25 <= 0.30, but got 'ece < 1'." in error
    _, error = certcal("check", "one", "--require", "guaranteed_ece@0.05 >= 0.01", cwd=desk, code=2)
    assert "Expected `--require` to ask for <= of guaranteed_ece, an upper bound" in " ".join(error.split())
    _, error = certcal("check", "one", "--require", "guarnteed_ece@0.05 < 1", cwd=desk, code=2)
    assert "but got 'guarnteed_ece' (did you mean 'guaranteed_ece'" in error
    out, _ = certcal("check", "one", "--require", "ece@0.05 <= 1", cwd=desk)
    assert "without an attack, as estimated (guaranteed_ece is the one under attack) (population certified," in out


@pytest.mark.parametrize("checks", [{"warnings": [5, "a\x1b[31mb"]}, {"warnings": 7}, {}])
def test_a_gate_reads_a_received_folder_with_care(desk, tmp_path, checks):
    run = tmp_path / "runs" / "given"
    shutil.copytree(desk / "runs" / "one", run)
    sources = unsealed(json.loads((run / "provenance.json").read_text()))
    (run / "provenance.json").write_text(json.dumps(sealed(sources | {"checks": checks})))
    certcal("check", "given", "--require", "guaranteed_ece@0.05 <= 1", "--junit", "gate.xml", cwd=tmp_path)
    text = (tmp_path / "gate.xml").read_text()
    assert (r"warning: a\x1b[31mb" in text) == (checks == {"warnings": [5, "a\x1b[31mb"]})
    assert ElementTree.fromstring(text).attrib["failures"] == "0"
    certcal("report", "given", "--card", "--no-figures", cwd=tmp_path)
    assert (r"a\x1b[31mb" in (run / "card.md").read_text()) == (r"a\x1b[31mb" in text)


def test_runs_side_by_side(desk):
    before = {path: path.stat().st_mtime_ns for path in (desk / "runs").rglob("*")}
    out, told = certcal("compare", "one", "two", "--resamples", 100, cwd=desk)
    assert "two − one" in out
    assert out.startswith("Certified calibration error at R = ")
    assert out.count("inputs compared") == 1  # of the radius that the verdict is about; the page has all
    assert "evaluating one at 2 radii\nevaluating two at 2 radii\ndrawing the inputs again, 100 times" in told
    page = (desk / "runs/compare/compare.html").read_text()
    assert page.count("<td>certified share</td>") == 2
    made = {path.name for path in (desk / "runs/compare").iterdir()}
    assert made >= {"compare.html", "compare.md", "differences.csv", "changed.csv"}
    assert all(path.stat().st_mtime_ns == then for path, then in before.items() if path.is_file())
    words = ["compare", "one", "two", "--radii", "0.05", "--resamples", 0, "--out", "there", "--json"]
    found = json.loads(certcal(*words, cwd=desk)[0])
    assert {one["radius"] for one in found} == {0.05}
    for wrong, told in ((-1, "an integer ≥ 0"), (99, "0 or at least 100")):
        _, error = certcal("compare", "one", "two", "--resamples", wrong, cwd=desk, code=2)
        assert error == f"Expected `resamples` to be {told}, but got {wrong}.\n"  # before any work
    _, error = certcal("compare", "one", "one", cwd=desk, code=2)
    assert "Expected `RUN RUN …` to be different from each other" in error


@pytest.mark.slow
def test_runs_that_were_evaluated_otherwise_are_compared_like_the_first(desk):
    certcal("evaluate", "two", "--alpha", "0.01", "--delta", "0.05", "--out", "runs/other", "--no-figures", cwd=desk)
    out, _ = certcal("compare", "one", "other", "--resamples", 0, "--out", "those", cwd=desk)
    told = (
        "other was last evaluated with alpha = 0.01, delta = 0.05; here, like the first run, with alpha = 0.001, delta"
    )
    assert told in " ".join(out.split())
    assert "remembered from" in (line := certcal("evaluate", "other", "--no-figures", cwd=desk)[1])
    assert "--delta 0.05" in line
