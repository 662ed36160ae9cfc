"""Trials side by side: the same table as one after the other, and what happens when memory is short."""

from dataclasses import replace

import pytest

from certcal.errors import InputError
from certcal.studies import beside as room
from certcal.studies import build_sweep, run_sweep, sweep_trials
from certcal.studies.trials import Failure
from sweeping import RECIPE, crowded, killed


@pytest.mark.slow
def test_the_table_is_that_of_one_after_the_other(desk):
    recipe = build_sweep(RECIPE, "test")
    said = []
    together = run_sweep(recipe, desk / "together", per_device=2, progress=False, tell=said.append)
    alone = run_sweep(recipe, desk / "alone", progress=False, tell=said.append)
    assert together.rows == alone.rows
    assert (desk / "together" / "results.csv").read_text() == (desk / "alone" / "results.csv").read_text()
    assert "2 trials, 2 at once" in said


def test_a_cluster_shares_its_gpus_in_its_own_way(desk):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=r"`per_device` to be 1 on a cluster, .* got 2"):
        run_sweep(build_sweep(RECIPE, "test"), desk / "sweep", engine="ray", per_device=2)
    with pytest.raises(InputError, match=r"`per_device`"):
        run_sweep(build_sweep(RECIPE, "test"), desk / "sweep", per_device=0)


@pytest.mark.slow
@pytest.mark.parametrize("meanwhile", [crowded, killed])
def test_what_finds_no_room_runs_again_with_fewer_beside_it(tmp_path, monkeypatch, meanwhile):
    first = sweep_trials(build_sweep(RECIPE, "test"), tmp_path)[0]
    named = {name: replace(first, name=name, folder=tmp_path / name) for name in ("small", "large", "after")}
    monkeypatch.setattr(room, "attempt", meanwhile)
    stages = [(named["small"], ()), (named["large"], [named["after"]])]
    came = [(trial.name, result) for trial, result in room.beside(stages, 2)]
    assert sorted(came) == [("after", ["after"]), ("large", ["large"]), ("small", ["small"])]
    assert came.index(("large", ["large"])) < came.index(("after", ["after"]))


def test_what_fails_alone_has_failed(tmp_path, monkeypatch):
    trial = sweep_trials(build_sweep(RECIPE, "test"), tmp_path)[0]
    failure = Failure.of(trial, MemoryError("no room"))
    monkeypatch.setattr(room, "_round", lambda waiting, after, at_once, until: ((one, failure) for one in waiting))
    assert list(room.beside([(trial, [trial])], 4)) == [(trial, failure)]
