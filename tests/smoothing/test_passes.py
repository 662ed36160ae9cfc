"""How draws are cut into passes: each once, in rows that are theirs; and how large a pass on a GPU should be."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from certcal.smoothing.passes import MOST_ROWS, Work, aligned_passes, fastest_batch, packed_passes
from collecting import assert_same, collect

SPANS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=6).map(
    lambda pairs: [(slot, first, first + size) for slot, (first, size) in enumerate(pairs)]
)


def drawn(passes):
    """(slot, draw) of every row that counts, in order."""
    for own in passes:
        for slot, first in own.runs.T.tolist():
            yield from ((slot, draw) for draw in range(first, first + own.draws))


@given(SPANS, st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_passes_make_every_draw_once(spans, unit, rows, seed):
    work, rng = Work.of(spans, unit), np.random.default_rng(seed)
    wanted = [(slot, draw) for slot, first, stop in spans for draw in range(first * unit, stop * unit)]
    assert len(work) == len(wanted)
    passes = list(aligned_passes(work, rows, unit, lambda: rng.random() < 0.5))
    assert list(drawn(passes)) == wanted
    for own in passes:  # a draw is in its own row
        assert own.offset == int(own.runs[1, 0]) % rows
        assert own.rows.stop <= rows
    packed = list(packed_passes(work, max(rows, unit), unit, torch.device("cpu")))
    assert list(drawn(packed)) == wanted
    assert all(own.rows.stop <= max(rows, unit) for own in packed)


@given(SPANS, st.data())
def test_a_part_is_what_lies_between_two_positions(spans, data):
    work = Work.of(spans, 3)
    begin = data.draw(st.integers(0, len(work)))
    end = data.draw(st.integers(begin, len(work)))
    whole = [(slot, draw) for slot, first, stop in spans for draw in range(3 * first, 3 * stop)]
    part = work.part(begin, end)
    assert [
        (slot, draw)
        for slot, first, stop in zip(part.slot, part.first, part.stop, strict=True)
        for draw in range(first, stop)
    ] == whole[begin:end]


def test_a_pass_that_is_due_ends_with_a_whole_unit():
    """After 200 draws, not 250; the next then ends where its rows do, within a unit."""
    work = Work.of([(0, 0, 3)], 100)
    assert [own.draws for own in aligned_passes(work, 250, 100, lambda: True)] == [200, 50, 50]
    assert [own.draws for own in aligned_passes(work, 250, 100, lambda: False)] == [250, 50]


class Elementwise(nn.Module):
    """Rounds the same wherever a row is in its batch."""

    def forward(self, x):
        return torch.stack([x[:, 0, 0, 0], x[:, 0, 3, 4], x[:, 0, 7, 7], x[:, 0, 0, 0] - 3], dim=1)


@pytest.mark.parametrize("batch", [50, 200, 5000])
@pytest.mark.parametrize("chunk", [50, 100])
def test_packed_passes_give_the_same_evidence(batch, chunk, monkeypatch):
    """What a GPU does, on the CPU: any batch and chunk."""
    expected = collect(Elementwise(), chunk=chunk)

    def packed(work, rows, unit, due):
        return packed_passes(work, rows, unit, torch.device("cpu"))

    monkeypatch.setattr("certcal.smoothing.sampler.aligned_passes", packed)
    monkeypatch.setattr("certcal.smoothing.sampler.rows_on_cpu", lambda elements: max(batch, chunk))
    assert_same(collect(Elementwise(), chunk=chunk), expected)


class TestFastestBatch:
    @pytest.mark.parametrize("elements", [1, 784, 3 * 224 * 224])
    def test_grows_while_it_pays(self, elements):
        """Launching takes 1, and each row above 4000 as much as it should."""
        rows, rate = fastest_batch(seconds := lambda rows: 1.0 + max(0, rows - 4000) / 4000, 250, elements)
        assert rows % 250 == 0
        assert rate == rows / seconds(rows)
        assert rate > 0.8 * 4000

    def test_stays_within_memory_and_bounds(self):
        assert fastest_batch(lambda rows: None if rows > 3000 else 1.0, 250, 10**6) == (1000, 1000.0)
        assert fastest_batch(lambda rows: None if rows > 3000 else 1.0, 250, 1)[0] in (1000, 1250, 1500, 1750, 2000)
        assert fastest_batch(lambda rows: None, 250, 1) == (250, 0.0)
        assert fastest_batch(lambda rows: 1.0, 250, 784)[0] in range(MOST_ROWS // 4, MOST_ROWS + 1)

    def test_tries_little(self):
        """Each size makes the library choose its convolutions again."""
        tried = []
        fastest_batch(lambda rows: tried.append(rows) or 0.001 + rows / 10**6, 250, 784)
        assert len(tried) <= 4
