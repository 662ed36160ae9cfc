"""`certcal reference`: options that would do nothing, facts as they are typed, lists and pages."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from certcal.cli.reference import TAKES, Action
from certcal.recalibration import IdentityMap
from certcal.studies import Pack, reference_rows
from command import certcal

TREE = Path(__file__).parents[2] / "reference"
VALUES = {"--run": ["x"], "--name": ["x"], "--fact": ["a=b"], "--only": ["x"], "--out": ["x"]}
FLAGS = ("--approximate", "--write", "--json")


@pytest.fixture
def home(desk, tmp_path):
    """A desk of its own, with a run that may be added."""
    shutil.copytree(desk, tmp_path / "desk")
    return tmp_path / "desk"


def add(home, *facts, code=0, pack="mine", name="own", run="made"):
    words = [word for fact in facts for word in ("--fact", fact)]
    return certcal("reference", "add", pack, "--run", run, "--name", name, *words, cwd=home, code=code)[1]


@pytest.mark.parametrize("action", list(Action))
def test_options_that_would_do_nothing_are_refused(action, home):
    assert set().union(*TAKES.values()) == {*VALUES, *FLAGS}
    for option in {*VALUES, *FLAGS} - {*TAKES[action]}:
        _, error = certcal("reference", action, TREE, option, *VALUES.get(option, ()), cwd=home, code=2)
        assert f"{option} does nothing for `{action}`: it is an option of `" in error
        assert len(error.splitlines()) == 1


def test_refusals_say_what_takes_the_option(home):
    _, error = certcal("reference", "verify", TREE, "--only", "x", cwd=home, code=2)
    assert error.strip().endswith("--only does nothing for `verify`: it is an option of `list` and `recompute`.")


def test_what_is_text_stays_text(home):
    add(home, "method=1", "commit=801e174", 'chosen="the only one"', "train_seed=3", "radii=[0.1, 0.25]", "source=[x]")
    (entry,) = Pack.read(home / "mine").entry
    assert (entry.method, entry.commit, entry.chosen, entry.source) == ("1", "801e174", "the only one", "[x]")
    assert (entry.train_seed, entry.radii) == (3, (0.1, 0.25))
    add(home, "method=a", "commit=1234567", name="next", pack="other")
    assert Pack.read(home / "other").entry[0].commit == "1234567"


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        (["method=a", "name=x"], "Expected `fact` to leave out name, which --name says, but got 'name=x'."),
        (["method=a", "run=x"], "Expected `fact` to leave out run, which --run says, but got 'run=x'."),
        (["method=a", "sha256=x"], "to leave out sha256, which the evidence itself says"),
        ([], 'Missing method: the run does not know it. Give --fact method="…".'),
        (["metod=a"], "certify_seconds, but got 'metod' (did you mean 'method'?)."),
        (["x=a", "method=a"], "Expected `fact` to be of data, network, method, radii, mapped, fitted_on, splits"),
        (["method=a", "train_seed=x"], "Expected `train_seed` to be a whole number, but got 'x'"),
        (["method=a", f"radii={'[' * 5000}"], "Expected `radii` to be a list"),
        (["method=a", "radii=[0.1, 8]"], "Expected `radii` to lie below 4 σ"),
        (["method"], "Expected `fact` to be KEY=VALUE, but got 'method'."),
        (["method=a", "radii=[0.1]", "radii=[0.2]"], "Expected `fact` to say radii once, but got [0.1] and [0.2]."),
    ],
)
def test_facts_that_cannot_be_are_refused(home, facts, wrong):
    assert wrong in add(home, *facts, code=2)
    assert not (home / "mine" / "manifest.toml").exists()


def test_a_run_does_not_become_a_pack(home):
    before = sorted((home / "runs" / "made").rglob("*"))
    error = add(home, "method=a", pack="runs/made", code=2)
    assert (
        "Expected `pack` to be a pack, an empty folder, or a folder that is yet to be made, but got runs/made" in error
    )
    assert sorted((home / "runs" / "made").rglob("*")) == before


def test_a_run_named_for_a_pack_and_what_is_not_there_are_told(home):
    run = "Expected `pack` to be a folder with a manifest.toml, but got runs/made, which is a run folder. "
    for name in ("runs/made", "made"):
        _, error = certcal("reference", "list", name, cwd=home, code=2)
        assert error.strip() == f"{run}Add it with: certcal reference add PACK --run runs/made --name NAME"
    for name, why in (("referenc", "which does not exist"), ("runs", "which has none"), ("nets.py", "a file")):
        _, error = certcal("reference", "verify", name, cwd=home, code=2)
        assert f"but got {name}, {why}." in error


@pytest.mark.parametrize(
    "words", [["report"], ["evaluate"], ["attack"], ["compare", "made"], ["check", "--require", "certified_ece<1"]]
)
def test_a_pack_named_for_a_run_is_told(home, words):
    add(home, "method=a")
    verb, *others = words
    _, error = certcal(verb, "mine", *others, cwd=home, code=2)
    assert (
        "but got mine, which is a reference pack. Copy mine/evidence/NAME.parquet to FOLDER/evidence.parquet and "
        "mine/evidence/inputs-*.parquet to FOLDER, and name FOLDER." in error
    )
    assert error.strip().endswith("`certcal reference list mine` has its names.")


def test_add_says_the_limit_it_took_and_where_no_map_was_learned(home, monkeypatch):
    monkeypatch.setattr(reference_rows, "choose_map", lambda *_, **__: SimpleNamespace(map=IdentityMap()))
    facts = ["method=a", "radii=[0.1]", "mapped=[0.1]", "splits=1"]
    none = "R = 0.1: no half learned a map, so the recalibrated row is of plain confidences"
    assert [line for line in add(home, *facts, "brier_loss=0.004").splitlines() if "=" in line] == [none]
    monkeypatch.setattr("certcal.studies.adding._check_new", lambda *_: None)  # the same evidence once more
    told = add(home, *facts, name="next")
    assert "brier_loss = 0.004, as most entries of" in told
    assert [one.brier_loss for one in Pack.read(home / "mine").entry] == [0.004, 0.004]
    assert "brier_loss = 0.01; --fact brier_loss=… sets another" in add(home, *facts, pack="other")
    assert "brier_loss" not in add(home, "method=a", pack="third")


def test_a_page_that_cannot_be_written_is_told_by_its_own_name(home):
    add(home, "method=a")
    for out, why in ((home, f"{home}, a folder."), (home / "none" / "page.html", "page.html.")):
        _, error = certcal("reference", "page", "mine", "--out", out, cwd=home, code=2)
        assert "Expected `--out` to be a file in a folder that exists, but got" in error
        assert error.strip().endswith(why)
        assert ".part" not in error
    (home / "mine" / "leaderboard.html").mkdir()
    assert "leaderboard.html, a folder." in certcal("reference", "page", "mine", cwd=home, code=2)[1]


def test_a_list_is_whole_at_80_columns_and_says_how_often_a_map_was_learned(monkeypatch, home):
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = certcal("reference", "list", TREE, cwd=home)
    pack, lines = Pack.read(TREE), out.splitlines()
    assert {one.name for one in pack.entry} <= {*lines}
    assert max(map(len, lines)) <= 80
    assert lines[0] == "digits, 3 entries"
    assert lines[1].split("  ")[1] == "method"
    assert lines[2:4] == [
        "digits-noise-s0.25",
        "  Noise            0.1 0.25 0.5        0.25                     0 %         0.8",
    ]
    assert lines[lines.index("cifar10-s0.25-m2-seed0") + 1].split()[-3:] == ["92–100", "%", "6.4"]
    name = "cifar10-s0.25-m2-seed0"
    out, _ = certcal("reference", "list", TREE, "--only", name, cwd=home)
    lines, rows = out.splitlines(), [row for row in pack.rows() if row.entry == name]
    assert lines[0] == f"{name}  cifar10, Consistency"
    assert max(map(len, lines)) <= 80
    assert "…" not in out
    assert out.count("%") == 3 * len(rows) + sum(row.maps == row.maps for row in rows)
    own = next(row for row in rows if row.maps == 0.925)
    line = next(line for line in lines if line.endswith("92 %"))
    assert f" {100 * own.deviation:.1f} " in line
    told = json.loads(certcal("reference", "list", TREE, "--json", cwd=home)[0])
    assert len(told["rows"]) == len(pack.rows())
    assert {"maps", "deviation"} <= told["rows"][0].keys()
