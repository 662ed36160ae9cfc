"""What a run was made from stays what it was: weights, draws and attacks, down to a single bit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from certcal import InputError
from certcal.errors import CertcalError
from certcal.files import lock_folder
from certcal.runs import RunFolder
from command import PLAIN, certcal, in_this_process
from run_settings import WORDS

TRAIN = ["--model", "small-cnn", "--data", "digits", "--objective", "noise", "--sigma", 0.25, "--device", "cpu"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    desk = tmp_path_factory.mktemp("weights")
    certcal("train", "net", *TRAIN, "--epochs", 1, cwd=desk)
    return desk / "runs/net"


@pytest.fixture(scope="module")
def certified(tmp_path_factory, weights):
    desk = tmp_path_factory.mktemp("certified")
    certcal("certify", "made", *WORDS, "--weights", weights / "model.pt", cwd=desk)
    return desk / "runs/made"


@pytest.fixture(scope="module")
def attacked_once(tmp_path_factory, certified):
    desk = tmp_path_factory.mktemp("attacked")
    shutil.copytree(certified, desk / "runs/made")
    certcal("attack", "made", "--family", "ace", "--ace-steps", 1, "--no-figures", cwd=desk)
    return desk / "runs/made"


@pytest.fixture
def attacked(attacked_once, tmp_path):
    shutil.copytree(attacked_once, tmp_path / "runs/made")
    return tmp_path / "runs/made"


@pytest.fixture
def made(certified, tmp_path):
    shutil.copytree(certified, tmp_path / "runs/made")
    return tmp_path / "runs/made"


def test_one_at_a_time(made, monkeypatch):
    held = lock_folder(made, "run", "is writing into")
    monkeypatch.setattr("certcal.files.time.monotonic", iter(range(0, 10**6, 50)).__next__)
    with pytest.raises(InputError, match="no other process is writing into"):
        RunFolder(made).write("a", "b")
    os.close(held)
    RunFolder(made).write("a", "b")


@pytest.mark.slow
def test_a_users_files_stay(made):
    desk, own = made.parents[1], made / "figures/my_plot.png"
    own.parent.mkdir(exist_ok=True)
    own.write_text("mine")
    certcal("evaluate", "made", cwd=desk)
    (made / "figures/moves.svg").write_text("edited")
    certcal("evaluate", "made", "--no-figures", cwd=desk)
    assert {path.name for path in own.parent.iterdir()} == {"my_plot.png", "moves.svg"}
    error = certcal("evaluate", "made", cwd=desk, code=2)[1]
    assert "hold no files of others where its own go" in error
    assert (made / "figures/moves.svg").read_text() == "edited"


@pytest.mark.slow
def test_weights_that_evidence_was_drawn_from_stay(weights, tmp_path):
    shutil.copytree(weights, tmp_path / "runs/net")
    net = tmp_path / "runs/net"
    certcal("certify", "net", *WORDS, "--weights", net / "model.pt", cwd=tmp_path)
    before = {
        name: (net / name).read_bytes() for name in ("model.pt", "checkpoint.pt", "provenance.json", "train.toml")
    }
    certcal("train", "net", cwd=tmp_path)  # nothing is left to do
    assert "evidence was drawn from its weights" in certcal("train", "net", "--epochs", 2, cwd=tmp_path, code=2)[1]
    assert before == {name: (net / name).read_bytes() for name in before}
    (net / "train.toml").unlink()
    assert "from elsewhere" in certcal("train", "net", *TRAIN, "--epochs", 1, cwd=tmp_path, code=2)[1]


def test_weights_other_than_training_left_are_refused(weights, tmp_path):
    from certcal.models import build_model, save_checkpoint

    shutil.copytree(weights, tmp_path / "runs/net")
    save_checkpoint(build_model("small-cnn", classes=10, channels=1, size=8), tmp_path / "runs/net/model.pt")
    error = certcal("certify", "net", *WORDS, "--weights", "runs/net/model.pt", cwd=tmp_path, code=2)[1]
    assert "be those that training left" in error


@pytest.mark.slow
def test_attacks_stay_where_no_draw_was_added(attacked):
    desk = attacked.parents[1]
    certcal("certify", "made", "--no-figures", cwd=desk)
    assert json.loads((attacked / "metrics.json").read_text())["attack"]["ace"]["rows"]
    certcal("certify", "made", "--n", 500, "--no-figures", cwd=desk)
    assert json.loads((attacked / "metrics.json").read_text())["attack"] is None


FILES = ("evidence.parquet", "provenance.json", "manifest.json", "attack/ace.json", "config.toml", "shards")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_no_flipped_bit_goes_unnoticed(attacked, rng, name):
    """Refused in a line, left out with a line, told, or without any effect."""
    _flip_bits(attacked, rng, name, times=3)


def test_a_flipped_bit_is_noticed(attacked, rng):
    _flip_bits(attacked, rng, "attack/ace.json", times=1)


def _flip_bits(made, rng, name, *, times):
    desk = made.parents[1]
    path = next((made / name).glob("shard-*")) if name == "shards" else made / name
    whole, facts = path.read_bytes(), ("rows", "guarantees", "attack", "sampling")
    want = {key: json.loads((made / "metrics.json").read_text())[key] for key in facts}
    for place in rng.integers(len(whole), size=times).tolist():
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << int(rng.integers(8)))]) + whole[place + 1 :])
        verb = "certify" if name == "shards" else "evaluate"
        code, out, error = in_this_process([verb, "made", "--no-figures", "--json"], desk, PLAIN)
        assert code in (0, 2) or (code == 1 and "to be certcal evidence" in error), (place, error)
        assert "This should not happen" not in error
        if code == 0 and "not as" not in error:
            assert {key: json.loads(out)[key] for key in facts} == want, place
        path.write_bytes(whole)
        certcal("evaluate", "made", "--no-figures", cwd=desk)


def test_flipped_bits_in_weights_are_noticed(weights, tmp_path, rng):
    from certcal.models import build_model, load_checkpoint, save_checkpoint, state_digest

    model = build_model("small-cnn", classes=10, channels=1, size=8)
    want = state_digest(load_checkpoint(model, weights / "model.pt"))
    for name in ("model.pt", "model.safetensors"):
        path = tmp_path / name
        save_checkpoint(model, path)
        whole = path.read_bytes()
        for place in rng.integers(len(whole), size=20).tolist():
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << int(rng.integers(8)))]) + whole[place + 1 :])
            other = build_model("small-cnn", classes=10, channels=1, size=8)
            try:
                load_checkpoint(other, path)
            except CertcalError:
                continue
            assert state_digest(other) == want, (name, place)


def test_the_same_weights_give_the_same_file(weights, tmp_path):
    from certcal.models import build_model, load_checkpoint, save_checkpoint

    model = load_checkpoint(build_model("small-cnn", classes=10, channels=1, size=8), weights / "model.pt")
    save_checkpoint(model, tmp_path / "other.pt")
    assert (tmp_path / "other.pt").read_bytes() == (weights / "model.pt").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["certify", "train"])
def test_what_a_scheduler_sends_saves_what_was_done(tmp_path, verb):
    words = {"certify": [*WORDS, "--no-checks", "--n", 8_000_000], "train": [*TRAIN, "--epochs", 500]}[verb]
    words = ["-m", "certcal", verb, "mine", *map(str, words)]
    process = subprocess.Popen([sys.executable, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wanted = tmp_path / "runs/mine" / {"certify": "shards", "train": "checkpoint.pt"}[verb]
    deadline = time.monotonic() + 90
    while not wanted.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    error = process.communicate(timeout=30)[1]
    assert process.returncode == 143, error
    assert "Stopped. What was" in error
    assert list(wanted.glob("shard-*")) if verb == "certify" else wanted.is_file()
