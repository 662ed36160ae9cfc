"""Noise: the same numbers for the same address, however they are asked for, and new ones for every other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError
from certcal.models import GaussianNoise, Purpose
from certcal.models.seeds import noise_seed
from laws import examples


def drawn(noise, draws, **address):
    out = torch.empty(draws, 3, 4)
    noise.fill(out, **({"index": 0, "purpose": Purpose.ESTIMATION} | address))
    return out


@examples(30)
@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**20), st.sampled_from(Purpose))
def test_draws_are_reproducible_and_different(seed, index, chunk, purpose):
    noise, address = GaussianNoise(1.0, seed, chunk=8), {"index": index, "first_draw": 8 * chunk, "purpose": purpose}
    first = drawn(noise, 8, **address)
    assert torch.equal(first, drawn(noise, 8, **address))
    for other in (
        {"index": index + 1},
        {"first_draw": 8 * chunk + 8},
        {"purpose": Purpose.JUDGING if purpose != Purpose.JUDGING else Purpose.CHOICE},
    ):
        assert not torch.equal(first, drawn(noise, 8, **(address | other)))
    assert not torch.equal(first, drawn(GaussianNoise(1.0, seed + 1, chunk=8), 8, **address))


@given(st.integers(0, 5), st.integers(1, 5))
def test_chunks_do_not_depend_on_how_many_are_asked_for(first, chunks):
    noise = GaussianNoise(0.5, 3, chunk=4)
    together = drawn(noise, 4 * chunks, first_draw=4 * first)
    apart = [drawn(noise, 4, first_draw=4 * chunk) for chunk in range(first, first + chunks)]
    assert torch.equal(together, torch.cat(apart))


def test_the_numbers_are_those_that_evidence_was_drawn_with():
    """A seed per input and stream: 0 for the selection draws, k + 1 for chunk k."""
    assert noise_seed(7, 3, 0) == 3560687080995518252
    for purpose, chunk, stream in ((Purpose.SELECTION, 0, 0), (Purpose.ESTIMATION, 0, 1), (Purpose.ESTIMATION, 5, 6)):
        generator = torch.Generator().manual_seed(noise_seed(7, 3, stream))
        expected = torch.empty(8, 3, 4).normal_(0.0, 0.25, generator=generator)
        got = drawn(GaussianNoise(0.25, 7, chunk=8), 8, index=3, purpose=purpose, first_draw=8 * chunk)
        assert torch.equal(got, expected)


def test_selection_draws_never_reach_into_those_of_evidence():
    """Though there be more of them than a chunk holds."""
    noise = GaussianNoise(1.0, 0, chunk=4)
    selection, estimation = drawn(noise, 12, purpose=Purpose.SELECTION), drawn(noise, 12)
    assert not any(torch.equal(one, other) for one in selection for other in estimation)


def test_a_draw_within_a_chunk_is_no_beginning():
    with pytest.raises(InputError, match="Expected `first_draw` to begin a chunk of 4, but got 2"):
        drawn(GaussianNoise(1.0, chunk=4), 4, first_draw=2)


def test_noise_is_normal_and_unrelated_across_inputs_and_chunks():
    """Mean, variance and correlation between neighbouring chunks of neighbouring inputs."""
    noise = torch.empty(40, 50, 100)
    for index, out in enumerate(noise):
        GaussianNoise(2.0, 0, chunk=1).fill(out, index=index, purpose=Purpose.ESTIMATION)
    assert noise.mean().item() == pytest.approx(0, abs=5 * 2 / 200_000**0.5)
    assert noise.var().item() == pytest.approx(4, abs=5 * 4 * (2 / 200_000) ** 0.5)
    for left, right in ((noise[1:], noise[:-1]), (noise[:, 1:], noise[:, :-1])):
        correlation = (left * right).mean().item() / 4
        assert correlation == pytest.approx(0, abs=5 / left.numel() ** 0.5)
