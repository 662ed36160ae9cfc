"""Vectors in blocks: every number once and in order, and the same bits on any number of cores."""

import threading
import time

import numpy as np
import pytest

from certcal import blocks
from certcal.blocks import BLOCK, over_blocks, shared_blocks
from certcal.proportions import clopper_pearson


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 20 * BLOCK + 7])
@pytest.mark.parametrize("cores", [1, 2, 3, 16])
def test_blocks_come_once_and_in_order(monkeypatch, length, cores):
    monkeypatch.setattr(blocks, "_cores", lambda: cores)
    numbers = np.arange(length)
    for blocks_of in (over_blocks, shared_blocks):
        parts = list(blocks_of(length, lambda block: numbers[block], step=BLOCK))
        assert np.array_equal(np.concatenate([*parts, numbers[:0]]), numbers)


def test_long_vectors_are_shared_and_short_ones_are_not(monkeypatch):
    monkeypatch.setattr(blocks, "_cores", lambda: 2)
    for length, alone in ((7 * BLOCK, True), (8 * BLOCK, False)):
        seen = set(shared_blocks(length, lambda block: (time.sleep(0.01), threading.get_ident())[1], step=BLOCK))
        assert (seen == {threading.get_ident()}) == alone


@pytest.mark.parametrize(("running", "cores"), [(1, 4), (3, 2), (4, 1), (90, 1)])
def test_cores_that_others_use_are_left_alone(monkeypatch, tmp_path, running, cores):
    (tmp_path / "loadavg").write_text(f"0.20 0.18 0.12 {running}/80 11206\n")
    monkeypatch.setattr(blocks, "_LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(blocks.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(blocks.os, "sched_getaffinity", lambda process: range(4), raising=False)
    assert blocks._cores() == cores
    (tmp_path / "loadavg").unlink()
    assert blocks._cores() == 4


def test_what_fails_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(blocks, "_cores", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        list(shared_blocks(100 * BLOCK, lambda block: 1 // (block.start - 99 * BLOCK), step=BLOCK))


def test_no_bit_depends_on_the_cores(monkeypatch):
    counts = np.arange(30_000)
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(blocks, "_cores", lambda cores=cores: cores)
        found.append(clopper_pearson(counts, 50_000, alpha=0.001)[0].tobytes())
    assert found[0] == found[1] == found[2]
