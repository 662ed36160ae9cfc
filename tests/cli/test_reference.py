"""`certcal reference`: options that would do nothing, facts as they are typed, lists and pages."""

import shutil
from pathlib import Path

import pytest

from certcal.cli.reference import TAKES, Action
from certcal.studies import Pack
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
        (["metod=a", "method=a"], "Unknown setting metod in entry (did you mean method?)."),
        (["method=a", "train_seed=x"], "Expected `train_seed` to be a whole number, but got 'x'"),
        (["method=a", f"radii={'[' * 5000}"], "Expected `radii` to be a list"),
        (["method=a", "radii=[0.1, 8]"], "Expected `radii` to lie below 4 σ"),
        (["method"], "Expected `fact` to be KEY=VALUE, but got 'method'."),
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


def test_a_page_that_cannot_be_written_is_told_by_its_own_name(home):
    add(home, "method=a")
    for out, why in ((home, f"{home}, a folder."), (home / "none" / "page.html", "page.html.")):
        _, error = certcal("reference", "page", "mine", "--out", out, cwd=home, code=2)
        assert "Expected `--out` to be a file in a folder that exists, but got" in error
        assert error.strip().endswith(why)
        assert ".part" not in error
    (home / "mine" / "leaderboard.html").mkdir()
    assert "leaderboard.html, a folder." in certcal("reference", "page", "mine", cwd=home, code=2)[1]


def test_entries_are_listed_in_a_line_each_and_their_rows_where_they_are_named(monkeypatch, home):
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = certcal("reference", "list", TREE, cwd=home)
    pack = Pack.read(TREE)
    assert [line.split("  ")[0] for line in out.splitlines()] == [one.name for one in pack.entry]
    assert out.splitlines()[0] == "digits-noise-s0.25  digits, Noise; R = 0.1, 0.25, 0.5; maps at 0.25"
    assert any("; freer maps at " in line for line in out.splitlines())
    name = "digits-noise-s0.25"
    out, _ = certcal("reference", "list", TREE, "--only", name, cwd=home)
    assert out.splitlines()[0] == f"{name}  digits, Noise"
    assert "…" not in out
    assert out.count("%") == 3 * sum(row.entry == name for row in pack.rows())
