"""Every size has a limit that is checked before work begins, and odd names and types get one line."""

import json
import os
import shutil
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from certcal import CertcalError, evaluate, load_evidence
from certcal.files import sealed, unsealed
from certcal.smoothing.store import EvidenceStore
from command import PLAIN, SCRIPT, certcal
from smoothing_oracles import random_evidence

NETS = """
import torch
from torch import nn
def make(size, classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, classes))
"""
MODEL = ["--model", "nets:make"]
CERTIFY = ["certify", "made", *MODEL, "--data", "data.npz", "--sigma", 0.25, "--n", 250, "--radii", "0,0.1"]


def lay_out(place):
    rng = np.random.default_rng(0)
    np.savez(place / "data.npz", inputs=rng.random((6, 1, 4, 4), dtype=np.float32), labels=np.arange(6) % 3)
    (place / "nets.py").write_text(NETS)
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A desk with a finished run, which tests only read or copy."""
    place = lay_out(tmp_path_factory.mktemp("desk"))
    certcal(*CERTIFY, "--no-figures", cwd=place)
    return place


@pytest.fixture
def desk(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("label", [10**12, 2**63, 2**64 - 1])
def test_a_huge_label_is_refused(desk, label):
    np.savez(desk / "huge.npz", inputs=np.zeros((2, 1, 4, 4), np.float32), labels=np.array([0, label], dtype=np.uint64))
    _, error = certcal("data", "huge.npz", cwd=desk, code=2)
    assert "Expected `labels` to be whole numbers from 0 to 99,999, but got" in error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["attack", "made", "--draws", 2**63], "`--draws` to be an integer ≤ "),
        (["recalibrate", "made", "--repeats", 2**31], "`--repeats` to be an integer ≤ "),
        (
            ["train", "net", *MODEL, "--data", "data.npz", "--objective", "noise", "--sigma", 1, "--devices", 100],
            "`--devices` to be at most the number of cores here",
        ),
        (
            ["evaluate", "made", "--radii", ",".join(map(str, range(10_000)))],
            "to hold at most 1000 values, but got 10000",
        ),
        (["certify", "new", *CERTIFY[2:], "--n", 2**63], "`--n` to be an integer ≤ 8000000"),
        ([*CERTIFY, "--n0", 10**9], "`--n0` to be an integer ≤ 8000"),
        (["evaluate", "made", "--n-bins", 10**9], "`--n-bins` to be an integer ≤ 1024"),
    ],
)
def test_a_huge_number_is_refused(desk, words, told):
    before = (desk / "runs/made/config.toml").read_text()
    _, error = certcal(*words, cwd=desk, code=2)
    assert told in " ".join(error.split())
    assert (desk / "runs/made/config.toml").read_text() == before  # what was refused does not stay there


@pytest.mark.parametrize("text", ["x = " + "[" * 50_000, "x = " + "{a = " * 5_000, "#" * 2**22 + "\n#"])
def test_deep_and_huge_settings_are_refused(desk, text):
    (desk / "odd.toml").write_text(text)
    _, error = certcal("evaluate", "made", "--config", "odd.toml", cwd=desk, code=2)
    assert "Expected `config` to be" in error


def test_a_file_without_an_end_is_refused(desk):
    _, error = certcal("evaluate", "made", "--config", "/dev/zero", cwd=desk, code=2)
    assert "Expected `config` to be a file of at most 4,194,304 bytes" in error


def test_a_long_image_is_refused_before_it_is_made_longer(desk):
    for name in ("a", "b"):
        (desk / "images" / name).mkdir(parents=True)
        Image.new("RGB", (60_000, 1)).save(desk / "images" / name / "0.png")
    _, error = certcal("data", "images", "--resize", 32, cwd=desk, code=2)
    assert "leave images of at most 16,384 pixels a side" in " ".join(error.split())


def test_whether_a_folder_can_be_written_is_known_before_attacks_begin(desk):
    (desk / "runs/made/attack").write_text("not a folder")
    _, error = certcal("attack", "made", "--trust", "--ace-steps", 10**6, "--no-figures", cwd=desk, code=2)
    assert "attack" in error


def test_a_class_whose_name_is_not_utf_8_is_shown_by_its_bytes(desk):
    for name in (b"a", b"caf\xe9"):
        place = os.path.join(os.fsencode(desk / "images"), name)
        os.makedirs(place)
        Image.new("L", (4, 4)).save(os.path.join(os.fsdecode(place), "0.png"))
    words = ["named", *MODEL, "--data", "images", "--channels", 1, "--sigma", 1, "--n", 250, "--radii", "0,0.1"]
    certcal("certify", *words, "--no-figures", cwd=desk)
    shown = r"caf\udce9"
    assert json.loads((desk / "runs/named/metrics.json").read_text("utf-8"))["sampling"]["data"]["classes"] == [
        "a",
        shown,
    ]
    assert json.dumps(shown) in (desk / "runs/named/report.html").read_text("utf-8")
    assert f"a 1, {shown} 1" in certcal("data", "images", "--channels", 1, cwd=desk)[0]


def test_settings_of_a_refused_run_are_never_in_its_folder(desk, monkeypatch):
    """Not even at the moment in which it is refused, when it may be killed."""
    config, opened = desk / "runs/made/config.toml", EvidenceStore.__init__
    before, seen = config.read_text(), []

    def watched(*words, **options):
        seen.append(config.read_text())
        opened(*words, **options)

    monkeypatch.setattr(EvidenceStore, "__init__", watched)
    _, error = certcal(*CERTIFY, "--sigma", 0.5, cwd=desk, code=2)
    assert "to have sigma = 0.5" in " ".join(error.split())
    assert seen == [before]
    assert config.read_text() == before


@pytest.mark.parametrize(
    "change",
    [{"sigma": "x"}, {"sigma": -1}, {"sigma": None}, {"classes": 10**9}, {"chunk": 0}, {"stages": 3}, {"stages": ["a"]},
     {"seed": 2**70}, {"grid": 7}, {"looks": True}, {"schema": None}, {"extra": 1}, {"noise": 3}, {"elements": -1}],
)  # fmt: skip
def test_an_odd_header_of_evidence_is_refused_in_one_line(desk, change):
    path = desk / "runs/made/evidence.parquet"
    table = pq.ParquetFile(path).read()
    held = json.loads(table.schema.metadata[b"certcal.evidence"]) | change
    pq.write_table(
        table.replace_schema_metadata({**table.schema.metadata, b"certcal.evidence": json.dumps(held)}), path
    )
    with pytest.raises(CertcalError) as caught:
        load_evidence(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, 7, {}, *(pytest.param(one, marks=pytest.mark.slow) for one in (True, "text", []))]
)
@pytest.mark.parametrize("name", ["data", "model", "evidence", "certify"])
def test_json_of_other_types_is_read_or_refused_in_one_line(desk, name, value):
    path = desk / "runs/made/provenance.json"
    path.write_text(json.dumps(sealed(unsealed(json.loads(path.read_text())) | {name: value})))
    for code in (0, 2):
        try:
            _, error = certcal("evaluate", "made", "--no-figures", cwd=desk, code=code)
        except AssertionError:
            continue
        assert "should not happen" not in error
        return
    raise AssertionError("neither done nor refused")


@pytest.mark.parametrize(
    "line", ["alpha = true", "alpha = []", "radii = {}", "radii = 'a'", "n_bins = 1.5", "delta = ''"]
)
def test_toml_of_other_types_is_refused_in_one_line(desk, line):
    (desk / "odd.toml").write_text(f"[evaluate]\n{line}\n")
    _, error = certcal("evaluate", "made", "--config", "odd.toml", cwd=desk, code=2)
    assert "Expected `" in error


@pytest.mark.slow
def test_a_working_folder_that_is_gone_is_told(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    words = f"cd {gone} && rmdir {gone} && {SCRIPT} evaluate made"
    done = subprocess.run(["sh", "-c", words], env=os.environ | PLAIN, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "should not happen" not in done.stderr


def test_a_radius_in_an_array_of_its_own_is_one_radius(rng):
    evidence = random_evidence(rng, inputs=5, draws=1000)
    assert evaluate(evidence, radii=np.array(0.5), alpha=0.01)[0].radius == 0.5
