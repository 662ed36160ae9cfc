"""A reference pack refuses what would mislead its readers, and notices what was changed by hand."""

import json
import math
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from certcal.errors import InputError
from certcal.runs import digest_of
from certcal.settings import toml_list
from certcal.smoothing import inputs_of, save_evidence
from certcal.studies import (
    Pack,
    ReferenceRow,
    add_to_pack,
    boards_of,
    differences,
    entry_rows,
    reference_rows,
)
from command import certcal
from places import ROOT

FACTS = {"name": "mine", "data": "digits", "network": "net", "method": "own", "radii": [0.1]}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"freer": [0.5]}, r"`freer` to be among the radii \[0.1\], but got \[0.5\]"),
        ({"mapped": [9]}, "`mapped` to be among the radii"),
        ({"radii": [0.1, 0.1]}, "`radii` to hold different radii"),
        ({"brier_loss": 0.9}, "`brier_loss` to lie in"),
        ({"brier_loss": math.nan}, "`brier_loss` to lie in"),
    ],
)
def test_facts_that_would_mislead_are_refused(copy, changes, wrong):
    with pytest.raises(InputError, match=wrong):
        add_to_pack(copy.folder, copy.evidence(copy.entry[0]), FACTS | changes)


def test_a_row_that_hides_behind_another_is_refused(copy):
    rows = copy.rows()
    copy.write_rows([replace(rows[0], certified_ece=0.001), *rows])
    with pytest.raises(InputError, match=r"hold each row once, but got digits-noise-s0\.25, paper, R = 0\.1 twice"):
        copy.rows()


def test_accuracies_after_maps_are_compared_to_the_last_digit(copy):
    rows = copy.rows()
    mapped = next(row for row in rows if row.track == "recalibrated")
    for name in ("certified_accuracy", "brier_all_before"):
        wrong = replace(mapped, **{name: getattr(mapped, name) + 5e-4})
        assert len(differences([wrong if row is mapped else row for row in rows], rows)) == 1


def test_an_entry_that_is_named_twice_is_stored_once(copy):
    before = add_to_pack(copy.folder, copy.evidence(copy.entry[0]).select(np.arange(100)), FACTS).rows()
    told, _ = certcal("reference", "recompute", copy.folder, *["--only", "mine"] * 2, "--write", cwd=copy.folder)
    assert "1 entry, recomputed: every row is as stored. The paper's ACCE was not made again" in told
    assert Pack.read(copy.folder).rows() == before
    _, error = certcal("reference", "list", copy.folder, "--only", "digits-noise", cwd=copy.folder, code=2)
    assert "digits-noise-s0.25" in error


@pytest.mark.slow
def test_an_approximation_that_is_stored_is_made_again():
    pack = Pack.read(ROOT / "reference")
    rows = [row for row in pack.rows() if row.track == "paper" and row.acce == row.acce]
    for row in (rows[0], rows[-1]):
        (entry,) = [one for one in pack.entry if one.name == row.entry]
        made = entry_rows(entry.name, pack.evidence(entry), [row.radius], approximate=True)[0]
        assert made.acce == pytest.approx(row.acce, abs=reference_rows.LOOSE)


ROW = {"entry": "one", "track": "paper", "radius": 0.1, "certified_accuracy": 0.5, "certified_ece": 0.1,
       "certified_brier": 0.2, "ece": None, "brier": 0.3, "brier_all": 0.4, "auroc": 0.6}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{}", "with a list of its rows, but got a dict"),
        ("5", "with a list of its rows, but got an int"),
        ("[" * 100_000, "hold a rows.json of its rows"),
        ("[{]", "hold a rows.json of its rows"),
        ("\x00", "hold a rows.json of its rows"),
        ("[[1, 2]]", r"`row 1 in .*rows.json` to be a table of names and values, but got \[1, 2\]"),
        ("[null]", "to be a table of names and values"),
        ({"certified_ece": "0.1"}, r"`certified_ece of row 1 in .*` to lie in \[0, 1\], or be null, but got the text"),
        ({"certified_ece": 1.5}, r"`certified_ece of row 1 .*but got 1\.5"),
        ({"brier_all": -0.1}, "`brier_all of row 1"),
        ({"acce": math.inf}, "`acce of row 1 .*but got inf"),
        ({"auroc": True}, "`auroc of row 1 .*but got True"),
        ({"auroc": 10**400}, "`auroc of row 1 .*but got an integer of more than 30 digits"),
        ({"maps": [1]}, r"`maps of row 1 .*but got \[1\]"),
        ({"radius": "0.1"}, "`radius of row 1 in .*` to be a number ≥ 0, but got the text '0.1'"),
        ({"radius": None}, "`radius of row 1"),
        ({"radius": -1}, "`radius of row 1"),
        ({"track": "papr"}, r"`track of row 1 .*did you mean 'paper'"),
        ({"track": ["paper"]}, "`track of row 1"),
        ({"entry": ["one"]}, r"`entry of row 1 in .*` to be text, but got \['one'\]"),
        ({"certified_eec": 0.1}, "`row 1 in .*` to hold entry, .*but got 'certified_eec'"),
    ],
)
def test_rows_that_were_damaged_are_answered_in_one_line(made_up, text, wrong):
    pack = made_up({"name": "one"})
    path = pack.folder / "rows.json"
    path.write_text(text if isinstance(text, str) else json.dumps([ROW | text]))
    with pytest.raises(InputError, match=wrong) as raised:
        pack.rows()
    assert len(str(raised.value).splitlines()) == 1
    for words in (["verify"], ["list"], ["page"], ["recompute"]):
        certcal("reference", words[0], pack.folder, cwd=pack.folder, code=2)


def test_a_row_without_a_number_it_needs_is_refused_and_what_is_not_known_may_be_null():
    for name in ROW:
        with pytest.raises(InputError, match=f"`row` to hold .*but got no '{name}'"):
            ReferenceRow.of({key: value for key, value in ROW.items() if key != name})
    row = ReferenceRow.of(ROW | {"acce": math.nan})
    assert math.isnan(row.ece + row.acce + row.maps)
    assert (row.key, row.auroc) == (("one", "paper", 0.1), 0.6)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ('radii = ["0.1"]', "radii"),
        (f"radii = [1{'0' * 400}]", "hold a manifest.toml of its entries"),
        ("train_seconds = inf", "train_seconds"),
        ("versions = { torch = inf }", "versions"),
        ("method = " + "[" * 5000, "be a TOML file"),
    ],
)
def test_a_manifest_that_was_damaged_is_answered_in_one_line(made_up, changed, wrong):
    pack = made_up({"name": "one", "train_seconds": 1.0, "versions": {"torch": "2"}})
    path, name = pack.folder / "manifest.toml", changed.split(" ")[0]
    path.write_text(re.sub(rf"(?m)^{name} = .*$", changed, path.read_text()))
    _, error = certcal("reference", "list", pack.folder, "--json", cwd=pack.folder, code=2)
    assert wrong in error


def test_rows_of_no_entry_are_left_out_and_named(made_up):
    """As after a kill between rows and manifest, which the same `add` mends; or as a stranger wrote them."""
    pack = made_up({"name": "one"}, {"name": "two"})
    rows = pack.rows()
    pack.write_rows([*rows, replace(rows[0], entry="far"), replace(rows[0], entry="far", radius=0.2)])
    assert pack.rows() == rows
    assert pack.problems() == [f"{pack.folder / 'rows.json'} has rows of 'far', which is not in the manifest"]
    assert len(boards_of(pack)) == 1
    for action in ("verify", "recompute"):
        assert "has rows of 'far'" in certcal("reference", action, pack.folder, cwd=pack.folder, code=1)[1]
    words = ["reference", "recompute", pack.folder, "--write"]
    certcal(*words, "--only", "one", cwd=pack.folder)  # another command may be adding what it does not know
    assert len(pack.problems()) == 1
    _, changed = certcal(*words, cwd=pack.folder)
    assert "far, paper, R = 0.2: stored, but no evidence gives it" in changed
    assert pack.problems() == []


def test_rows_are_those_that_the_manifest_says(made_up):
    pack = made_up({"name": "one", "radii": [0.1, 0.25], "mapped": [0.25]})
    assert pack.problems() == []
    *rows, mapped = pack.rows()
    pack.write_rows([*rows[1:], replace(rows[0], radius=0.2), replace(mapped, track="freer")])
    assert pack.problems() == [
        "one, freer, R = 0.25: stored, but no evidence gives it",
        "one, paper, R = 0.1: not stored",
        "one, paper, R = 0.2: stored, but no evidence gives it",
        "one, recalibrated, R = 0.25: not stored",
    ]
    certcal("reference", "verify", pack.folder, cwd=pack.folder, code=1)


def restated(pack, *evidence):
    """The pack with other evidence in its files, whose digests the manifest has: what a stranger can make."""
    entries = []
    for inputs in pack.evidence_folder.glob("inputs-*"):
        inputs.unlink()
    for one, own in zip(pack.entry, evidence, strict=True):
        if isinstance(own, bytes):
            pack.file(one).write_bytes(own)
        else:
            save_evidence(own, pack.file(one), compact=True)
        entries.append(replace(one, sha256=digest_of(pack.file(one))))
    (pack.folder / "manifest.toml").write_text(toml_list("entry", entries, head="Restated."))
    return Pack.read(pack.folder)


def relabelled(evidence, *places):
    label = evidence.label.copy()
    label[list(places)] = (label[list(places)] + 1) % 10
    return replace(evidence, label=label)


def test_evidence_that_is_none_or_twice_or_of_other_labels_is_noticed(made_up, drawn):
    pack = made_up({"name": "one"}, {"name": "two"}, {"name": "elsewhere", "data": "other"})
    first, other = drawn.select(np.arange(30)), drawn.select(np.arange(20, 50))
    strange = relabelled(other, 0, 1, 15)  # two of these inputs are the first's as well
    assert restated(pack, first, other, relabelled(first, *range(30))).problems() == []
    assert restated(pack, first, strange, first.select(np.arange(9))).problems() == [
        "two: 2 inputs with other labels than in one"
    ]
    (problem,) = restated(pack, first, b"no parquet", other).problems()
    assert problem.startswith(f"two: {pack.file(pack.entry[1])} is no evidence (")
    assert len(problem.splitlines()) == 1
    assert "is no evidence" in certcal("reference", "verify", pack.folder, cwd=pack.folder, code=1)[1]
    assert restated(pack, first, other, first).problems() == ["elsewhere: its evidence is that of one"]


def test_evidence_behind_a_link_is_noticed(made_up, tmp_path):
    pack = made_up({"name": "one"})
    file = pack.file(pack.entry[0])
    shutil.move(file, tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    assert pack.problems() == [f"one: {file} is a link to another place"]
    file.unlink()
    shutil.move(tmp_path / "moved", file)
    assert pack.problems() == []
    shutil.move(pack.folder / "evidence", tmp_path / "moved")
    (pack.folder / "evidence").symlink_to(tmp_path / "moved")
    assert pack.problems() == [f"{pack.folder / 'evidence'} is a link to another place"]


def test_inputs_are_kept_once_for_all_entries_that_have_them(made_up, tmp_path):
    pack = made_up({"name": "one"}, {"name": "two"}, {"name": "three", "inputs": 20})
    names = [inputs_of(pack.file(one)) for one in pack.entry]
    assert names[0] == names[1] != names[2]
    assert sorted(path.name for path in pack.evidence_folder.glob("inputs-*")) == sorted({*names})
    assert pack.problems() == []
    shared = pack.evidence_folder / names[0]
    shutil.move(shared, tmp_path / "moved")
    (problem,) = pack.problems()
    assert problem.startswith(f"Expected {shared} to hold the inputs of evidence beside it, but it is missing.")
    assert problem.endswith("(2 entries)")
    shared.symlink_to(tmp_path / "moved")
    assert pack.problems() == [f"{name}: {shared} is a link to another place" for name in ("one", "two")]
    shared.unlink()
    shutil.move(tmp_path / "moved", shared)
    (other := pack.evidence_folder / f"inputs-{'0' * 40}.parquet").touch()
    assert pack.problems() == [f"{other} is not in the manifest"]


def test_what_contradicts_the_pack_is_not_added(made_up, drawn):
    pack, own = made_up({"name": "one"}), drawn.select(np.arange(20, 50))
    before = sorted(pack.folder.rglob("*"))
    twice = drawn.select(np.arange(30))
    for evidence, facts, wrong in (
        (twice, {}, "mine: its evidence is that of one"),
        (twice, {"data": "other"}, "mine: its evidence is that of one"),
        (relabelled(own, 0), {}, "mine: 1 input with other labels than in one"),
        (own, {"radii": [0.1, 1.0, 3.0]}, r"`radii` to lie below 4 σ = 1, .*but got \[1.0, 3.0\]"),
        (own, {"name": f"inputs-{'0' * 40}"}, "`name` to not begin with inputs-"),
        (own, {"fitted_on": "nobody"}, "`fitted_on` to name an entry of the pack"),  # after its files were written
    ):
        with pytest.raises(InputError, match=wrong):
            add_to_pack(pack.folder, evidence, FACTS | facts)
    assert sorted(pack.folder.rglob("*")) == before
    add_to_pack(pack.folder, relabelled(own, 0), FACTS | {"data": "other", "radii": [0.99]})


@pytest.mark.parametrize("held", ["config.toml", "evidence.parquet", "notes.txt", "shards/shard-0.parquet"])
def test_a_folder_that_is_something_else_does_not_become_a_pack(tmp_path, drawn, held):
    folder, own = tmp_path / "held", drawn.select(np.arange(30))
    (folder / held).parent.mkdir(parents=True)
    (folder / held).touch()
    with pytest.raises(InputError, match=f"`pack` to be a pack, an empty folder, .*, which holds {held.split('/')[0]}"):
        add_to_pack(folder, own, FACTS)
    assert [path.name for path in folder.iterdir()] == [held.split("/")[0]]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"but got .*file, a file"):
        add_to_pack(tmp_path / "file", own, FACTS)
    (tmp_path / "empty").mkdir()
    assert len(add_to_pack(tmp_path / "empty", own, FACTS).entry) == 1


def test_a_first_entry_that_was_cut_off_is_added_again(tmp_path, drawn, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("certcal.studies.adding.toml_list", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            add_to_pack(tmp_path / "new", drawn, FACTS)
    assert (tmp_path / "new" / "rows.json").is_file()
    assert add_to_pack(tmp_path / "new", drawn, FACTS).problems() == []
