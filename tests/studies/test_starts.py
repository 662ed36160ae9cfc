"""Models of a pack stand beside the baseline that they started from: of their session and seed, with as many draws."""

from dataclasses import replace

from certcal.studies import Pack
from certcal.studies.starts import paired_outcomes, start_of
from places import ROOT

BASE = {"method": "AT"}
TUNED = {"method": "ACT", "baseline": "Base"}


def test_a_model_started_from_the_training_of_its_own_session_and_seed(made_up):
    pack = made_up(
        BASE | {"name": "digits-base-seed0", "commit": "aaaaaaa"},
        BASE | {"name": "digits-base-seed0-again", "commit": "bbbbbbb"},
        BASE | {"name": "digits-base-seed1", "train_seed": 1, "commit": "ccccccc"},
        TUNED | {"name": "digits-tuned-seed0", "commit": "bbbbbbb"},
        TUNED | {"name": "digits-other-seed0", "commit": "ddddddd"},
        TUNED | {"name": "digits-tuned-seed1", "train_seed": 1, "commit": "ddddddd"},
        TUNED | {"name": "digits-lost-seed2", "train_seed": 2},
        TUNED | {"name": "digits-foreign-seed0", "network": "another"},
    )
    starts = {one.name: getattr(start_of(one, pack.entry), "name", None) for one in pack.entry if one.baseline}
    assert starts == {
        "digits-tuned-seed0": "digits-base-seed0-again",
        "digits-other-seed0": "digits-base-seed0",
        "digits-tuned-seed1": "digits-base-seed1",
        "digits-lost-seed2": None,
        "digits-foreign-seed0": None,
    }
    found = {one.model: one.baseline for one in paired_outcomes(pack, "digits", "paper")}
    assert found == {
        "Base": "Base",
        "Base, trained again": "Base, trained again",
        "digits-tuned-seed0": "Base, trained again",
        "digits-other-seed0": "Base",
    }
    rows = {row.entry: row for row in pack.rows() if row.track == "paper"}
    outcomes = {one.model: one for one in paired_outcomes(pack, "digits", "paper")}
    for model, entry in (("Base", "digits-base-seed0"), ("digits-tuned-seed0", "digits-tuned-seed0")):
        own, row = outcomes[model], rows[entry]
        assert (own.certified_accuracy, own.certified_ece, own.certified_brier) == (
            row.certified_accuracy, row.certified_ece, row.certified_brier,
        )  # fmt: skip


def test_a_baseline_of_other_inputs_or_draws_gives_way_to_another_seed(made_up, monkeypatch):
    pack = made_up(
        *(one | {"train_seed": seed, "name": f"digits-{kind}-seed{seed}"}
          for seed in (0, 1) for kind, one in (("base", BASE), ("tuned", TUNED), ("more", TUNED))),
    )  # fmt: skip
    assert {one.baseline for one in paired_outcomes(pack, "digits", "paper")} == {"Base"}
    read = Pack.evidence

    def fewer(pack, entry):
        own = read(pack, entry)
        return own if entry.name != "digits-base-seed0" else replace(own, draws=own.draws // 2)

    monkeypatch.setattr(Pack, "evidence", fewer)
    assert {one.model for one in paired_outcomes(pack, "digits", "paper")} == {
        "Base, seed 1", "digits-tuned-seed1", "digits-more-seed1",
    }  # fmt: skip


def test_at_one_the_tree_has_baselines_with_as_many_draws_as_what_was_tuned_from_them():
    """Of one, seed 0 has fewer for some inputs, by which the effect of fine-tuning once looked seven times as large."""
    found = [one for one in paired_outcomes(Pack.read(ROOT / "reference"), "fashion-mnist", "paper") if one.radius == 1]
    starts = {one.model: one.certified_ece for one in found if one.model == one.baseline}
    assert set(starts) == {"s0.50-e0.50-m2-T10", "s0.50-e1.00-m4-T10, seed 1"}
    changes = [one.certified_ece - starts[one.baseline] for one in found if one.method == "Brier-ACT"]
    assert all(abs(change) < 0.01 for change in changes)
    assert len(changes) >= len(starts)
