"""The table of all settings that were tried of one baseline."""

import json
from types import SimpleNamespace

import pytest
from experiments import every_setting as own
from experiments import tuned
from experiments.pack_table import METHODS, Table

from certcal.studies import Pack
from places import ROOT


@pytest.fixture(scope="module")
def table():
    return Table(Pack.read(ROOT / "reference"), "fashion-mnist")


def test_at_least_four_settings_of_each_method_are_there_with_all_draws_where_they_were_chosen():
    rows = own.every_row("fashion-mnist")
    first = [row for row in rows if row["seed"] == 0 and row["settings"]]
    methods = {row["method"] for row in first}
    assert len(methods) == 6
    for method in methods:
        assert len({row["setting"] for row in first if row["method"] == method}) == 4
    assert {row["draws"] for row in rows if row["chosen"] or row["seed"]} == {100_000}
    assert {row["draws"] for row in first if not row["chosen"]} == {10_000}
    chosen = {row["setting"] for row in first if "at 0.5" in row["chosen"] and "test inputs" in row["chosen"]}
    assert chosen <= {row["setting"] for row in rows if row["seed"] == 1}


def test_the_study_and_the_pack_agree(table):
    """Of other seeds to the digit; of seed 0 the study counts two looks at the draws, so its errors are larger."""
    names = {model: name for name, model in table.model.items()}
    same = [row for row in own.every_row("fashion-mnist") if row["model"] in names]
    assert len({row["model"] for row in same}) > 20
    for row in same:
        stored = table.at("paper", row["radius"])[names[row["model"]]]
        assert row["certified_accuracy"] == pytest.approx(stored.certified_accuracy, abs=1e-12)
        more = row["certified_ece"] - stored.certified_ece
        assert -1e-8 <= more <= (0.01 if row["seed"] == 0 else 1e-8)


def test_directions_take_no_setting_in_place_of_one_that_the_pack_has_not(table):
    """At R = 0.5 the study takes others of four methods, which the pack has no room for."""
    baseline = "s0.50-e0.50-m2-T10"
    for radius, there in ((0.5, {"Finetuned AT", "Certified Brier"}), (1.0, {*METHODS} - {"Certified Brier"})):
        taken = own.models_taken("fashion-mnist", baseline, radius)
        assert set(taken) == {*METHODS}
        found = tuned.selected_from(table, tuned.by_settings(table, radius), baseline, radius)
        assert set(found) == there
        assert {method: table.model[f"{stem}-seed0"] for method, stem in found.items()} == {
            method: taken[method] for method in there
        }
    assert own.models_taken("fashion-mnist", "another", 0.5) == {}


def test_the_table_says_who_chose_what_and_where_its_evidence_is(table, monkeypatch, tmp_path):
    row = {"commit": "abc", "setting": "B", "baseline": "B", "method": "AT", "settings": "", "seed": 0, "model": "x",
           "draws": 100_000, "chosen": "", "radius": 0.5, "certified_accuracy": 0.7766, "certified_ece": 0.19995,
           "certified_brier": 0.09995}  # fmt: skip
    tuned = row | {
        "setting": "B AT 12",
        "settings": "steps 4",
        "model": "y",
        "certified_ece": 0.10001,
        "chosen": "on the test inputs: ece at 1, brier at 0.5; on held-out training images: ece at 0.05",
    }
    rows = [row, tuned, tuned | {"seed": 1, "model": "z", "certified_ece": 0.11995}]
    rows += [row | {"radius": 1.0}, tuned | {"radius": 1.0}]
    (tmp_path / "every_setting-made-up.json").write_text(json.dumps(rows))
    monkeypatch.setattr(own, "RESULTS", tmp_path)
    made = SimpleNamespace(
        data="made-up", model={"one": "x", "two": "z"}, models={"one": SimpleNamespace(baseline="B")}
    )
    text = own.every_setting(made)
    assert text.startswith("All 1 settings fine-tuned from b (trained and certified at commit abc)")
    assert "| 0.5 | AT | the baseline | — | 77.66 | 20.00 | 10.00 | 100,000 | — | 0 |" in text
    assert "| 0.5 | AT | 12 | steps 4 | 77.66 / 77.66 | 10.01 / 12.00 | 10.00 | 100,000 | test | 1 |" in text
    assert "| 1 | AT | 12 | steps 4 | 77.66 | 10.01 | 10.00 | 100,000 | test | — |" in text
    assert "Of b the pack has room for some settings" in own.room(made)
    made.models = {}
    assert own.room(made) == ""
    made.data = "nothing"
    assert own.every_setting(made) == ""
