"""Evidence on disk keeps the plan of its draws, and refuses draws that leave a gap in it."""

import contextlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from certcal import CertcalError, InputError
from certcal.smoothing import load_evidence, merge_shards, save_evidence
from certcal.smoothing.shards import read_shard, write_shard
from collecting import assert_same, collect
from smoothing_models import halves, small_data


def test_what_is_added_after_the_plan_is_known_to_be(tmp_path):
    """However it is loaded: certificates of it must hold at any number of draws."""
    first, more = collect(n=100, store=tmp_path), collect(n=300, store=tmp_path)
    assert first.header.planned(first.draws).all()
    for found in (more, load_evidence(tmp_path), merge_shards(tmp_path.glob("shard-*"))):
        assert (found.header.looks, found.header.stages) == (1, (100,))
        assert not found.header.planned(found.draws).any()
    save_evidence(more, tmp_path / "evidence.parquet")
    assert_same(load_evidence(tmp_path / "evidence.parquet"), more)


@pytest.mark.parametrize("plans", [[(), ()], [(100,), (100, 200)]])
def test_evidence_of_earlier_versions_has_no_plan_to_trust(tmp_path, plans):
    """Draws were added without a trace, and stages to a plan that had been looked at: all looks are at any time."""
    for n in (100, 200):
        collect(n=n, store=tmp_path)
    shards = sorted(tmp_path.glob("shard-*"), key=lambda shard: read_shard(shard)[1].first[0])
    for place, stages in enumerate(plans):
        header, rows = read_shard(shards[place])
        shards[place].unlink()
        shards[place] = tmp_path / f"shard-{place}.parquet"  # they were not called by their digest either
        write_shard(shards[place], replace(header, stages=stages, looks=max(1, len(stages)), schema=1), rows)
    for old in (load_evidence(tmp_path), merge_shards(shards[::-1])):
        assert (old.header.looks, old.header.stages, old.draws.tolist()) == (1, (), [200] * 10)
        assert not old.header.planned(old.draws).any()
    shards[0].unlink()
    with pytest.raises(InputError, match="chunks 0 to 1 of input 0 are missing"):
        load_evidence(tmp_path)


def test_evidence_without_a_plan_counts_no_number_of_draws_as_planned(tmp_path):
    made = collect(n=100)
    for stages, told in (((), None), ((50, 100), "1 looks are not 2")):
        save_evidence(replace(made, header=replace(made.header, stages=stages)), tmp_path / "made.parquet")
        if told is None:
            assert not load_evidence(tmp_path / "made.parquet").header.planned(made.draws).any()
        else:
            with pytest.raises(CertcalError, match=told):
                load_evidence(tmp_path / "made.parquet")


def test_the_plan_is_kept_before_a_rule_sees_a_draw(tmp_path):
    """A run that is killed at its first look leaves no shard, and must not plan anew."""
    killed, running = tmp_path / "killed", tmp_path / "running"

    def look(evidence):
        if not killed.exists():
            shutil.copytree(running, killed)
        return evidence.draws > 0

    collect(n=200, stages=[50, 200], stop=look, store=running)
    assert not list(killed.glob("shard-*"))
    again = collect(n=100, store=killed)
    assert (again.header.looks, again.header.stages) == (2, (50, 200))
    assert not again.header.planned(again.draws).any()
    other = collect(n=100, seed=5, store=running.parent / "other")
    shutil.copy(killed / "plan.json", tmp_path / "other")
    assert collect(n=100, seed=5, store=tmp_path / "other").header == other.header  # a plan for other draws


def test_a_refused_run_leaves_no_plan(tmp_path):
    inputs, labels = small_data()
    with pytest.raises(InputError, match="have labels from 0 to"):
        collect(data=(inputs, labels + 100), store=tmp_path)
    assert not list(tmp_path.glob("*.json"))
    assert collect(n=100, store=tmp_path).header.stages == (100,)


def test_a_plan_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(InputError, match=r"hold a plan\.json that can be read"):
        collect(store=tmp_path)


def test_stores_with_other_plans_never_merge(tmp_path):
    for name, n, data in zip("ab", (100, 200), halves(), strict=True):
        collect(data=data, n=n, store=tmp_path / name)
    message = "to be planned for looks after 100 draws like the rest, but its plan is 200. Certify it by itself"
    with pytest.raises(InputError, match=message):
        merge_shards([tmp_path / "a", tmp_path / "b"])
    collect(data=halves()[1], n=100, store=tmp_path / "d")
    collect(data=halves()[1], n=200, store=tmp_path / "d")
    merged = merge_shards([tmp_path / "a", tmp_path / "d"])
    assert merged.header.planned(merged.draws).tolist() == [True, False] * 5


def test_draws_with_a_gap_before_them_are_refused(tmp_path):
    """Limits are for the first n draws. One shard of later draws looked like a planned number of them."""
    for n in (250, 500):
        collect(n=n, chunk=250, store=tmp_path)
    shards = sorted(tmp_path.glob("shard-*.parquet"))
    loaded = []
    for shard in shards:
        with contextlib.suppress(InputError):
            loaded.append(load_evidence(shard))
    assert [set(found.draws.tolist()) for found in loaded] == [{250}]  # the first alone
    assert set(load_evidence(tmp_path).draws.tolist()) == {500}


def test_a_rule_does_not_look_at_draws_with_a_gap_before_them(tmp_path):
    """Draws 50 to 99 alone are as many as the first stage has, and are not it."""
    first = collect(n=50, plan=[50, 100], store=tmp_path)
    collect(n=100, plan=[50, 100], store=tmp_path)
    for shard in tmp_path.glob("shard-*"):
        if (read_shard(shard)[1].first == 0).all():
            shard.unlink()
    looked = []

    def stop(evidence):
        looked.append(evidence.draws.tolist())
        return np.ones(len(evidence), dtype=bool)

    found = collect(n=100, stages=[50, 100], stop=stop, store=tmp_path)
    assert set(found.draws.tolist()) == {100}
    assert not looked
    assert (found.histogram >= first.histogram).all()


def test_a_plan_does_not_grow_by_shards_from_elsewhere(tmp_path):
    """Looks at 250, then a plan of 250 and 500 from another folder: each plan would spend all of alpha."""
    inputs, labels = small_data()
    mine, other = tmp_path / "mine", tmp_path / "other"
    collect(data=(inputs, labels), n=250, chunk=250, store=mine)
    one = inputs[:1], labels[:1], np.array([1000])
    collect(data=one, n=500, chunk=250, stages=[250, 500], stop=lambda evidence: evidence.draws < 0, store=other)
    for shard in other.glob("shard-*"):
        shutil.copy(shard, mine)
    with pytest.raises(InputError, match="planned for looks"):
        collect(data=(inputs, labels), n=500, chunk=250, store=mine)
    with pytest.raises(InputError, match="planned for looks"):
        load_evidence(mine)
