"""The schedule of shards, without any cluster: in whatever order results come, the evidence is the local one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certcal.certificates import StopWhenDecided
from certcal.models import Conditions, made_up_inputs
from certcal.progress import Progress
from certcal.smoothing.job import Job
from certcal.smoothing.keeper import Keeper
from certcal.smoothing.remote import draw_chunks, select_classes
from certcal.smoothing.sampler import Sampler
from certcal.smoothing.schedule import Schedule
from certcal.smoothing.sources import Source
from collecting import assert_same, collect
from laws import examples
from smoothing_models import small_data, small_model

pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")
RULE = StopWhenDecided(radii=0.1, alpha=0.01)
STAGED = {"stages": [100, 300, 500], "stop": RULE}


@pytest.fixture(scope="module")
def local():
    return {False: collect(), True: collect(**STAGED)}


def sampler_of(header):
    conditions = Conditions("cpu")
    return Sampler(small_model(), header, conditions, made_up_inputs(4, (1, 8, 8)))


def silent(source):
    return Progress(len(source), 500, show=False)


@examples(15)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 6), st.integers(1, 3))
def test_any_order_of_results_gives_the_same_evidence(local, seed, staged, slots, batch):
    """Shards finish in any order and any time; some are lost and drawn again."""
    rng = np.random.default_rng(seed)
    header = local[staged].header
    source, keeper = Source(small_data()), Keeper(header, None)
    targets, rule = ([2, 6, 10], RULE) if staged else ([10], None)
    schedule = Schedule(Job(source, keeper, targets, rule, silent(source)), batch=batch)
    worker, under_way = sampler_of(header), []
    while under_way or not schedule.over:
        while len(under_way) < slots and (shard := schedule.next(slots)) is not None:
            under_way.append(shard)
        assert under_way, "nothing under way and nothing to do, but not over"
        shard = under_way.pop(rng.integers(len(under_way)))
        if rng.random() < 0.1:  # its worker died
            under_way.append(shard)
        elif shard.chunks:
            rows, _ = draw_chunks(worker, shard.selected, shard.chunks, *shard.items)
            schedule.drawn(shard, rows, 10 ** rng.uniform(-3, 1))
        else:
            schedule.selected(shard, select_classes(worker, *shard.items))
    assert schedule.next(slots) is None
    assert_same(keeper.evidence(source.indices), local[staged])


@pytest.mark.slow
def test_shards_grow_until_they_take_their_time(local):
    """From one batch to what two seconds hold, in whole batches."""
    header = local[False].header
    source, keeper = Source(small_data(40)), Keeper(header, None)
    schedule = Schedule(Job(source, keeper, [10], None, silent(source)), batch=4)
    sizes, worker = [], sampler_of(header)
    while not schedule.over:
        shard = schedule.next(2)
        if shard.chunks:
            sizes.append(shard.size)
            rows, _ = draw_chunks(worker, shard.selected, shard.chunks, *shard.items)
            schedule.drawn(shard, rows, 0.1 * shard.size)
        else:
            schedule.selected(shard, [0] * len(shard.items))
    assert sizes[0] == 4
    assert set(sizes[1:-1]) == {20}
    assert sum(sizes) == 400


def test_inputs_are_read_as_they_are_needed(local):
    """Of ten thousand inputs, no more than a window beyond what the slots hold."""
    header = local[False].header
    read = []

    class Watched(torch.utils.data.Dataset):
        def __len__(self):
            return 10_000

        def __getitem__(self, position):
            read.append(position)
            return torch.zeros(1, 8, 8), 0

    source, keeper = Source(Watched()), Keeper(header, None)
    schedule = Schedule(Job(source, keeper, [10], None, silent(source)), batch=1)
    shards = [schedule.next(8) for _ in range(8)]
    assert all(shards[:1])
    assert len(read) <= 64
