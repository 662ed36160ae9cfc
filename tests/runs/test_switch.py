"""A run folder changes as a whole or not at all, and nothing in it that certcal did not write is touched."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from certcal import InputError
from certcal.errors import CertcalError
from certcal.evaluation import evaluate
from certcal.files import lock_folder, sealed, unsealed
from certcal.runs import RunFolder, switch, write_results
from command import certcal
from smoothing_oracles import random_evidence

WORDS = ["--model", "small-cnn", "--data", "digits", "--limit", 5, "--sigma", 0.25, "--n", 250, "--no-figures"]
TRAIN = ["--model", "small-cnn", "--data", "digits", "--objective", "noise", "--sigma", 0.25, "--device", "cpu"]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_a_switch_from_a_stranger_brings_no_links(tmp_path):
    (secret := tmp_path / "secret.txt").write_text("mine")
    run = RunFolder(tmp_path / "run")
    run.create()
    run.write("notes.txt", "ours")
    switched = tmp_path / "run" / switch.SWITCH
    switched.mkdir()
    for name in ("notes.txt", "more.txt"):
        (switched / name).symlink_to(secret)
    listed = {"files": dict.fromkeys(("notes.txt", "more.txt"), "0" * 64)}
    (switched / switch.MANIFEST).write_text(json.dumps(sealed(listed)))
    with run.steady():
        assert (run.path / "notes.txt").read_text() == "ours"
        assert not (run.path / "more.txt").is_symlink()
    assert secret.read_text() == "mine"


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


def test_a_change_happens_as_a_whole(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.create()
    with run.change() as change:
        change.write("a", "old")
        change.write("figures/b", "old")
    with pytest.raises(ZeroDivisionError), run.change() as change:  # noqa: PT012
        change.write("a", "new")
        1 / 0  # noqa: B018
    assert (run.path / "a").read_text() == "old"
    with run.change() as change:
        change.drop("figures/")
        change.write("a", "new")
    assert contents(run.path).keys() == {"a", "manifest.json", ".lock"}
    assert not run.changed()


@pytest.mark.parametrize("moment", [0, 1, 2, 3, 4, 6])
def test_whoever_comes_next_finishes_what_was_killed(tmp_path, monkeypatch, moment):
    """Killed at each step of a change: what is there afterwards is all old, or all new."""
    run = RunFolder(tmp_path / "run")
    run.create()
    with run.change() as change:
        for name in "abc":
            change.write(name, "old")
    steps, killed = iter(range(10)), OSError("killed")

    def may_die(call):
        def step(*words):
            if next(steps) == moment:
                raise killed
            return call(*words)

        return step

    monkeypatch.setattr(switch.os, "replace", may_die(os.replace))
    monkeypatch.setattr(Path, "rename", may_die(Path.rename))
    monkeypatch.setattr(switch.shutil, "rmtree", lambda *_, **__: None)  # a killed process does not tidy up
    with pytest.raises((OSError, ZeroDivisionError)), run.change() as change:  # noqa: PT012
        for name in "abd":
            change.write(name, "new")
        change.drop("c")
        1 / (6 - moment)
    monkeypatch.undo()
    RunFolder.named(run.path)
    found = {name: own.decode() for name, own in contents(run.path).items() if name in "abcd"}
    assert found in (dict.fromkeys("abc", "old"), dict.fromkeys("abd", "new"))
    with run.steady():
        assert {path.name for path in run.path.iterdir()} == {*found, "manifest.json", ".lock"}
    assert not run.changed()


def test_one_at_a_time(made, monkeypatch):
    held = lock_folder(made, "run", "is writing into")
    monkeypatch.setattr("certcal.files.time.monotonic", iter(range(0, 10**6, 50)).__next__)
    with pytest.raises(InputError, match="no other process is writing into"):
        RunFolder(made).write("a", "b")
    os.close(held)
    RunFolder(made).write("a", "b")


def test_what_a_user_changed_stays(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.create()
    with run.change() as change:
        change.write("figures/a.svg", "old")
    (run.path / "figures/mine.png").write_text("mine")
    (run.path / "figures/a.svg").write_text("edited")
    with run.change() as change:
        change.drop("figures/")
    with pytest.raises(InputError, match="hold no files of others where its own go"), run.change() as change:
        change.write("figures/a.svg", "new")
    found = contents(run.path / "figures")
    assert found == {"a.svg": b"edited", "mine.png": b"mine"}


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


@pytest.mark.parametrize("name", ["report.html", "metrics.json", "log.txt", "manifest.json", "provenance.json"])
def test_a_folder_of_somebody_elses_is_refused_before_anything_is_done(tmp_path, rng, name):
    (tmp_path / name).write_text("{}")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/precious.png").write_text("mine")
    before = contents(tmp_path)
    assert name in certcal("certify", ".", *WORDS, cwd=tmp_path, code=2)[1]
    report = evaluate(random_evidence(rng, inputs=5, draws=1000), radii=[0.1], alpha=0.01)
    with pytest.raises(InputError, match=name):
        write_results(report, tmp_path, figures=False)
    assert {key: own for key, own in contents(tmp_path).items() if key != ".lock"} == before


def test_a_run_beside_a_users_files_touches_none(tmp_path, rng):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/precious.png").write_text("mine")
    report = evaluate(random_evidence(rng, inputs=5, draws=1000), radii=[0.1], alpha=0.01)
    for _ in range(2):
        write_results(report, tmp_path, figures=False)
    assert (tmp_path / "figures/precious.png").read_text() == "mine"


def test_an_empty_name_is_none(tmp_path):
    assert "an empty name" in certcal("certify", "", *WORDS, cwd=tmp_path, code=2)[1]
    assert not list(tmp_path.iterdir())


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
        code, out, error = _typed(verb, "made", "--no-figures", "--json", cwd=desk)
        assert code in (0, 2) or (code == 1 and "to be certcal evidence" in error), (place, error)
        assert "This should not happen" not in error
        if code == 0 and "not as" not in error:
            assert {key: json.loads(out)[key] for key in facts} == want, place
        path.write_bytes(whole)
        certcal("evaluate", "made", "--no-figures", cwd=desk)


def _typed(*words, cwd):
    from command import PLAIN, in_this_process

    return in_this_process([str(word) for word in words], cwd, PLAIN)


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
def test_a_study_goes_on_with_another_setting_and_back(tmp_path):
    words = ["reproduce", "digits", "--only", "Noise", "--json", "--set", "train.epochs=1", "--set",
             "finetune.epochs=1", "--set", "test.limit=20", "--set", "validation.every=0",
             "--device", "cpu"]  # fmt: skip
    first = certcal(*words, "--set", "certify.n=250", cwd=tmp_path)[0]
    certcal(*words, "--set", "certify.n=500", cwd=tmp_path)
    certcal(*words, "--set", "certify.n=250", cwd=tmp_path)
    damaged = next((tmp_path / "runs").rglob("outcome.json"))
    damaged.write_text(damaged.read_text()[:-20])
    certcal(*words, "--set", "certify.n=500", cwd=tmp_path)
    assert unsealed(json.loads(damaged.read_text()))["outcomes"]
    assert first


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["certify", "train"])
def test_what_a_scheduler_sends_saves_what_was_done(tmp_path, verb):
    words = {"certify": [*WORDS, "--n", 8_000_000], "train": [*TRAIN, "--epochs", 500]}[verb]
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


def test_a_seal_is_of_contents():
    """Not of the order or the spaces in which they are written."""
    from certcal.files import sealed

    content = {"b": [1.5, None], "a": {"é": "x"}}
    again = json.loads(json.dumps(sealed(content), indent=3, sort_keys=True))
    assert unsealed(again) == content
    with pytest.raises(ValueError, match="damaged"):
        unsealed(again | {"b": [1.5, np.nextafter(1.5, 2)]})
