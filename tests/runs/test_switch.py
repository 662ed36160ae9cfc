"""A run folder changes as a whole or not at all, and nothing in it that certcal did not write is touched."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from certcal import InputError
from certcal.evaluation import evaluate
from certcal.files import sealed, unsealed
from certcal.runs import RunFolder, switch, write_results
from command import certcal
from run_settings import WORDS
from smoothing_oracles import random_evidence


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
    steps, killed = iter(range(10)), KeyboardInterrupt("killed")

    def may_die(call):
        def step(*words):
            if next(steps) == moment:
                raise killed
            return call(*words)

        return step

    monkeypatch.setattr(switch.os, "replace", may_die(os.replace))
    monkeypatch.setattr(Path, "rename", may_die(Path.rename))
    monkeypatch.setattr(switch.shutil, "rmtree", lambda *_, **__: None)  # a killed process does not tidy up
    with pytest.raises((KeyboardInterrupt, ZeroDivisionError)), run.change() as change:  # noqa: PT012
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


def test_a_seal_is_of_contents():
    """Not of the order or the spaces in which they are written."""
    from certcal.files import sealed

    content = {"b": [1.5, None], "a": {"é": "x"}}
    again = json.loads(json.dumps(sealed(content), indent=3, sort_keys=True))
    assert unsealed(again) == content
    with pytest.raises(ValueError, match="damaged"):
        unsealed(again | {"b": [1.5, np.nextafter(1.5, 2)]})
