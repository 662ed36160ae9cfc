"""Folders from strangers: nothing in them runs, nothing outside them is written, nothing steers the terminal."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from certcal.files import sealed, unsealed
from certcal.runs import RunFolder, check_factories
from certcal.settings import ModelSettings
from command import certcal
from places import ROOT

EVIL = "import pathlib\npathlib.Path({!r}).touch()\ndef make(**options): raise SystemExit\n"
WORDS = ["--data", "data.npz", "--sigma", 0.25, "--n", 250, "--radii", "0,0.1", "--no-figures"]
NETS = """
import torch
from torch import nn
def make(size, classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, classes))
"""
SLOW = [pytest.param(words, marks=pytest.mark.slow) for words in ("evaluate made --no-figures", "data data.npz")]
STEERING = "\x1b]0;owned\x07\x9b31m\u202e"


def fill(desk, rng):
    np.savez(desk / "data.npz", inputs=rng.random((6, 1, 4, 4), dtype=np.float32), labels=np.arange(6) % 3)
    (desk / "nets.py").write_text(NETS)


@pytest.fixture
def desk(tmp_path):
    fill(tmp_path, np.random.default_rng(0))
    return tmp_path


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    desk = tmp_path_factory.mktemp("certified")
    fill(desk, np.random.default_rng(0))
    certcal("certify", "made", "--model", "small-cnn", *WORDS, cwd=desk)
    return desk / "runs/made"


@pytest.fixture
def made(desk, certified):
    """A run in a working folder, which is `desk`."""
    return Path(shutil.copytree(certified, desk / "runs/made"))


@pytest.fixture
def received(desk, made):
    """A folder that names code, beside a working folder that nobody vouches for."""
    config = desk / "runs/made/config.toml"
    config.write_text(config.read_text().replace('"small-cnn"', '"evil:make"'))
    (desk / "evil.py").write_text(EVIL.format(str(desk / "ran")))
    return desk


RECIPE = """
[model]\nname = "evil:make"\n[data]\nname = "data.npz"\n[objective]\nname = "noise"
[train]\nsigma = 0.25\nepochs = 1
"""
SWEEP = RECIPE + '[test]\nname = "data.npz"\n[certify]\nn = 250\n'
OVER = SWEEP.replace("evil:make", "small-cnn") + '[sweep]\nover = { "model.name" = ["small-cnn", "evil:make"] }\n'
STUDY = SWEEP.replace('[objective]\nname = "noise"', "") + (
    '[about]\ntitle = "t"\nradii = [0.1]\n[[baseline]]\nname = "a"\nobjective = { name = "noise" }\ntrain = {}\n'
)


VERBS = (
    "attack made",
    "certify made",
    "certify new --config runs/made/config.toml",
    "train new --recipe recipe.toml",
    "train new --recipe recipe.toml --dry-run",
    "sweep new --recipe sweep.toml",
    "sweep new --recipe over.toml",
    "reproduce study.toml --into new",
    "reproduce study.toml --dry-run",
)


def test_code_that_only_a_file_names_does_not_run(received):
    for name, text in (("recipe", RECIPE), ("sweep", SWEEP), ("over", OVER), ("study", STUDY)):
        (received / f"{name}.toml").write_text(text)
    for words in VERBS:
        error = certcal(*words.split(), cwd=received, code=2)[1]
        assert "evil:make" in error, words
        assert "--trust" in error
    assert not (received / "ran").exists()
    assert not (received / "runs/new").exists()


@pytest.mark.slow
def test_what_one_named_oneself_is_remembered_for_that_run_alone(desk):
    certcal("certify", "mine", "--model", "nets:make", *WORDS, cwd=desk)
    certcal("certify", "mine", "--no-figures", cwd=desk)  # with what the folder remembers
    os.rename(desk / "runs/mine", desk / "runs/elsewhere")
    assert "--trust" in certcal("attack", "elsewhere", cwd=desk, code=2)[1]
    certcal("certify", "elsewhere", "--trust", "--no-figures", cwd=desk)
    certcal("attack", "elsewhere", "--family", "ace", "--ace-steps", 1, "--no-figures", cwd=desk)


def test_other_options_and_another_working_folder_are_other_code(tmp_path, monkeypatch):
    own = ModelSettings(name="nets:make", options={"depth": 3})
    check_factories([own], tmp_path, named="nets:make", trust=False)
    check_factories([own, ModelSettings(name="lenet")], tmp_path, trust=False)
    with pytest.raises(ValueError, match="--trust"):
        check_factories([ModelSettings(name="nets:make", options={"depth": 4})], tmp_path, trust=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="--trust"):
        check_factories([own], tmp_path, trust=False)


def test_without_a_place_to_remember_it_is_asked_again(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    own = [ModelSettings(name="nets:make")]
    check_factories(own, tmp_path, trust=True)
    with pytest.raises(ValueError, match="--trust"):
        check_factories(own, tmp_path, trust=False)


@pytest.mark.parametrize("verb", ["evaluate made --no-figures --no-images", *SLOW])  # pictures would load torch
@pytest.mark.parametrize("start", [["certcal"], pytest.param(["-m", "certcal"], marks=pytest.mark.slow)], ids=" ".join)
def test_files_in_the_working_folder_do_not_stand_in_for_others(desk, made, start, verb):
    for name in ("tomllib", "queue", "json", "torch", "typer", "rich", "numpy", "secrets"):
        (desk / f"{name}.py").write_text(EVIL.format(str(desk / "ran")))
    command = [sys.executable, *start] if start[0] == "-m" else [os.path.join(sys.prefix, "bin", *start)]
    done = subprocess.run([*command, *verb.split()], cwd=desk, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (desk / "ran").exists()


def test_git_runs_nothing_that_a_repository_names(tmp_path, monkeypatch):
    from certcal.runs.facts import git_commit, provenance

    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True,
                       capture_output=True)  # fmt: skip

    git("init", "-q")
    (tmp_path / "file").write_text("one")
    (tmp_path / ".gitattributes").write_text("* filter=evil\n")
    git("add", "file")
    git("commit", "-q", "-m", "one")
    git("config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    git("config", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    (tmp_path / "file").write_text("another")
    monkeypatch.chdir(tmp_path)
    assert len(provenance(seconds=1)["commit"]) == 12
    assert not (tmp_path / "ran").exists()
    assert git_commit(ROOT / "src/certcal", ours=True).removesuffix("-dirty") == git_commit(ROOT)


@pytest.mark.parametrize(
    "name", ["../../escaped", "/tmp/escaped", "..", ".hidden", "a/b", "=cmd|' /C calc'!A0", "a\nb", ""]
)
def test_names_in_a_study_are_no_paths_and_no_formulas(desk, name):
    for text in (
        STUDY.replace('"a"', json.dumps(name)),
        STUDY + f"[[method]]\nname = {json.dumps(name)}\nobjective = {{}}\n",
    ):
        (desk / "study.toml").write_text(text.replace("evil:make", "small-cnn"))
        error = certcal("reproduce", "study.toml", "--into", "new", cwd=desk, code=2)[1]
        assert "name of a baseline or method" in error
    assert sorted(path.name for path in desk.iterdir()) == ["data.npz", "nets.py", "study.toml"]


def test_names_do_not_steer_the_terminal(desk, made, rng):
    classes = np.array([STEERING + name for name in "abc"])
    np.savez(
        desk / "odd.npz", inputs=rng.random((6, 1, 4, 4), dtype=np.float32), labels=np.arange(6) % 3, classes=classes
    )
    out = certcal("data", "odd.npz", cwd=desk)[0]
    record = made / "provenance.json"
    content = unsealed(json.loads(record.read_text()))
    content["model"]["name"] = STEERING
    record.write_text(json.dumps(sealed(content)))
    config = made / "config.toml"
    config.write_text(config.read_text().replace("small-cnn", json.dumps(STEERING)[1:-1]))
    out += certcal("evaluate", "made", "--no-figures", cwd=desk)[0]
    out += certcal("attack", "made", cwd=desk, code=2)[1]
    (desk / "study.toml").write_text(f"# {STEERING}")
    out += certcal("reproduce", "study.toml", "--show", cwd=desk)[0]
    assert not {char for char in out if not char.isprintable()} - {"\n", "\xa0"}
    assert out.count(r"\x1b") > 3


def test_links_in_a_folder_are_not_followed(desk, made):
    victim = desk / "victim"
    for name in ("log.txt", ".lock"):
        place = made / name
        place.unlink(missing_ok=True)
        place.symlink_to(victim)
        error = certcal("evaluate", "made", "--no-figures", cwd=desk, code=2)[1]
        assert "a link to another place" in error
        place.unlink()
        assert not victim.exists()
    certcal("evaluate", "made", "--no-figures", cwd=desk)
    assert RunFolder(made).evidence.is_file()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_program_in_a_file_runs_only_when_trusted(desk):
    import torch

    torch.manual_seed(0)  # others may be right on shifted labels by chance, which is stopped
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    torch.jit.trace(network, torch.rand(2, 1, 4, 4)).save(str(desk / "net.ts"))
    words = ["certify", "program", "--model", "net.ts", *WORDS]
    _, error = certcal(*words, cwd=desk, code=2)
    assert "The model net.ts is a program in a file, which would run here. If you trust it, add --trust" in error
    certcal(*words, "--trust", cwd=desk)
    certcal(*words, cwd=desk)  # remembered
    torch.jit.trace(network, torch.rand(3, 1, 4, 4)).save(str(desk / "net.ts"))
    (desk / "net.ts").write_bytes((desk / "net.ts").read_bytes() + b" ")
    certcal(*words, cwd=desk, code=2)  # another program under the same name


def test_folders_that_are_links_are_refused(desk, made):
    for name in ("shards", "figures", "tensorboard", "attack"):
        place, victim = made / name, desk / f"victim-{name}"
        victim.mkdir()
        kept = place.rename(desk / "kept") if place.exists() else None
        place.symlink_to(victim)
        for words in (["certify", "made", "--n", 500], ["evaluate", "made", "--log", "tensorboard"]):
            error = certcal(*words, "--no-figures", cwd=desk, code=2)[1]
            assert "a link to another place" in " ".join(error.split())
        assert not list(victim.iterdir())
        place.unlink()
        if kept:
            kept.rename(place)


def test_a_list_of_files_removes_nothing_behind_a_link(desk, made):
    """Also two folders down, where the first look at a run does not go."""
    run, outside = made, desk / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("mine")
    (run / "figures").mkdir(exist_ok=True)
    (run / "figures" / "deep").symlink_to(outside)
    listed = unsealed(json.loads((run / "manifest.json").read_text()))
    listed["files"]["figures/deep/a.txt"] = hashlib.sha256(b"mine").hexdigest()
    (run / "manifest.json").write_text(json.dumps(sealed(listed)))
    certcal("evaluate", "made", "--no-figures", "--radii", "0.1", cwd=desk)
    assert (outside / "a.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["manifest.json", "log.txt", "config.toml", "evidence.parquet", "provenance.json"])
def test_pipes_and_devices_in_a_folder_are_refused(desk, made, name):
    place = made / name
    place.unlink()
    os.mkfifo(place)
    assert "a pipe or a device" in certcal("evaluate", "made", cwd=desk, code=2)[1]
    place.unlink()
    place.symlink_to("/dev/zero")
    assert "a pipe or a device" in certcal("evaluate", "made", cwd=desk, code=2)[1]


def test_options_of_a_library_s_model_are_code(desk, made):
    """`weights_only = false` would run the pickle of a Hugging Face folder."""
    config = made / "config.toml"
    asked = '"hf:net"\noptions = { weights_only = false, use_safetensors = false }'
    config.write_text(config.read_text().replace('"small-cnn"', asked, 1))
    for verb in ("attack", "certify"):
        error = " ".join(certcal(verb, "made", cwd=desk, code=2)[1].split())
        assert "which would run here" in error
        assert "weights_only" in error


@pytest.mark.slow
def test_odd_names_of_runs(desk, made):
    """What steers a terminal or breaks XML is shown as escapes; what is no Unicode is refused."""
    name = "runs/a\x01\x1bb"
    (made).rename(desk / name)
    certcal("evaluate", name, "--no-figures", cwd=desk)
    out = ["--junit", "j.xml", "--markdown", "m.md"]
    certcal("check", name, "--require", "guaranteed_ece@0.1 <= 1", *out, cwd=desk)
    ElementTree.parse(desk / "j.xml")
    assert "\x1b" not in (desk / "m.md").read_text()
    shutil.copytree(desk / name, desk / "runs/other")
    certcal("compare", name, "other", "--resamples", 100, cwd=desk)
    error = certcal("compare", name, "other", "--resamples", 10**9, cwd=desk, code=2)[1]
    assert "resamples" in error
    bytes_name = os.fsdecode(b"runs/a\xe9")
    os.rename(desk / name, desk / bytes_name)
    for verb in ("evaluate", "report"):
        assert "to have a path of Unicode characters" in certcal(verb, bytes_name, cwd=desk, code=2)[1]
