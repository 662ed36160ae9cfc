"""Small decisions behind tables, figures and packs that once could be turned round without a test failing."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from certcal.evaluation import Outcome
from certcal.recalibration import IdentityMap, IsotonicMap
from certcal.studies import EXHIBITS, Pack, reference_rows
from certcal.studies.pack_checks import differences, row_problems
from certcal.studies.ranked import each_once
from certcal.studies.reproduce import _chosen
from certcal.studies.stored import Model, Source
from places import ROOT
from sweeping import small

BASE = {"method": "AT", "name": "digits-base-seed0"}


def drawn_panels(name, made):
    """What each panel of an exhibit shows: the baseline, and the methods of its points."""
    return [(own.args[1].baseline.model, set(own.args[1].method)) for own in EXHIBITS[name].draw({"digits": made})]


def test_figures_of_fine_tuning_take_the_most_accurate_baseline_and_methods_of_the_paper():
    made = [
        Outcome(method, f"{base} {method}", 0.1, accuracy, 0.3, 0.2, baseline=f"{base} AT")
        for base, accuracy in (("weak", 0.5), ("strong", 0.7), ("middle", 0.6))
        for method in ("AT", "Finetuned AT", "Brier-ACT")
    ]
    assert drawn_panels("figure-training-effect", made) == [("strong AT", {"Brier-ACT"})]
    assert [base for base, _ in drawn_panels("figure-fine-tuning", made)] == ["weak AT", "strong AT", "middle AT"]
    assert drawn_panels("figure-fine-tuning-with-at", made)[0] == ("weak AT", {"Finetuned AT", "Brier-ACT"})


def test_models_that_certify_nothing_take_no_part(made_up):
    pack = made_up(BASE, {"name": "digits-other-seed0"})
    rows = pack.rows()
    pack.write_rows([replace(row, certified_accuracy=0.0) if row.entry == BASE["name"] else row for row in rows])
    assert {one.model for one in Source.found(pack.folder).outcomes("digits")["digits"]} == {"other"}


def test_models_are_quoted_from_the_largest_radius_on():
    made = [Outcome("AT", model, radius, 0.5, ece, ece) for model, radius, ece in
            (("near", 0.05, 0.1), ("far", 0.05, 0.2), ("near", 0.1, 0.2), ("far", 0.1, 0.1))]  # fmt: skip
    assert _chosen(small(), made) == ["far", "near"]


def test_the_same_weights_on_other_inputs_are_ranked_once():
    models = [
        Model(name, data, lambda weights=weights: SimpleNamespace(header=SimpleNamespace(model=weights)))
        for name, data, weights in (("a", "x", "1"), ("b", "x", "1"), ("c", "x", "2"), ("d", "y", "1"))
    ]
    assert [one.name for one in each_once(models)] == ["a", "c", "d"]


def test_a_row_says_in_which_share_of_halves_a_map_was_learned(drawn, monkeypatch):
    rng = np.random.default_rng(0)
    part = replace(drawn, label=np.where(rng.random(len(drawn)) < 0.3, drawn.label, drawn.selected))
    found = []

    def choose(part, **terms):
        found.append(len(found))
        return SimpleNamespace(map=IdentityMap(about={"reason": "none"} if len(found) == 1 else {}))

    monkeypatch.setattr(reference_rows, "choose_map", choose)
    rows = reference_rows.entry_rows("own", part, [0.1], mapped=[0.1], splits=2)
    learned = rows[-1].maps
    assert (len(found), learned) == (4, 0.0)  # the identity is no map, whatever it says


@pytest.mark.parametrize(("wrong", "learned"), [(1, 0.0), (2, 1.0)])
def test_a_row_has_no_map_that_a_single_prediction_decides_about(drawn, monkeypatch, wrong, learned):
    """As `certcal recalibrate` keeps none."""
    own = IsotonicMap([0.0, 1.0], [0.1, 0.9], about={"certified": [25], "wrong": [wrong]})
    monkeypatch.setattr(reference_rows, "choose_map", lambda *_, **__: SimpleNamespace(map=own))
    assert reference_rows.entry_rows("own", drawn, [0.1], mapped=[0.1], splits=2)[-1].maps == learned


def test_numbers_without_a_fit_are_compared_to_the_last_digit(made_up):
    pack = made_up(BASE)
    rows = pack.rows()
    for name in ("auroc", "ece", "certified_ece", "brier"):
        changed = [replace(rows[0], **{name: getattr(rows[0], name) + 1e-6}), *rows[1:]]
        assert [name in told for told in differences(changed, rows)] == [True]
    assert differences([replace(rows[0], acce=0.5), *rows[1:]], [replace(rows[0], acce=0.5 + 1e-6), *rows[1:]]) == []


def test_an_approximation_from_below_is_not_above():
    pack = Pack.read(ROOT / "reference")
    rows = pack.rows()
    place = next(place for place, row in enumerate(rows) if row.track == "paper" and row.acce == row.acce)
    assert not row_problems(pack.folder, pack.entry, rows)
    rows[place] = replace(rows[place], acce=rows[place].certified_ece + 0.01)
    (told,) = row_problems(pack.folder, pack.entry, rows)
    assert "but approximates" in told


@pytest.mark.parametrize(
    ("track", "changed", "wrong"),
    [
        ("plain", {"acce": 0.0}, "acce is there, which only"),
        ("recalibrated", {"acce": 0.0}, "acce is there, which only"),
        ("paper", {"acce": 0.0, "certified_ece": math.nan}, "acce is there, which only"),
        ("recalibrated", {"maps": math.nan}, "after a map there are maps"),
        ("recalibrated", {"brier_all_before": math.nan}, "after a map there are maps"),
        ("recalibrated", {"certified_accuracy": 1.0}, "a map changed certified_accuracy"),
    ],
)
def test_a_row_has_what_its_track_has(made_up, track, changed, wrong):
    pack = made_up(BASE | {"mapped": [0.1]})
    rows = [replace(row, **changed) if row.track == track else row for row in pack.rows()]
    (told,) = row_problems(pack.folder, pack.entry, rows)
    assert told.startswith(f"{BASE['name']}, {track}, R = 0.1: {wrong}")


@pytest.mark.parametrize("name", ["figure-training-effect", "figure-fine-tuning", "figure-fine-tuning-with-at"])
def test_figures_of_fine_tuning_pair_models_with_their_own_start(name):
    assert EXHIBITS[name].paired
