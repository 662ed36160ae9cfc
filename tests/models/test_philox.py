"""Noise by address: the same however it is cut, exact in float32, and normal."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from certcal import InputError
from certcal.models.grid import LARGEST_INPUT, LARGEST_NOISE, grid_step, to_grid
from certcal.models.normals import knots
from certcal.models.philox import Noise, Run, blocks_per_draw, device_words, philox_words
from low_bits import ReadsLowBits, two_inputs


def noisy(noise, inputs, runs, draws, *, runs_there=None, **options):
    out = torch.empty((runs_there or len(runs)) * draws, *inputs.shape[1:], **options).fill_(float("nan"))
    noise.add(inputs, out, runs)
    return out


def standard(draws, *, seed=1, stream=1, index=0, first=0, elements=3072):
    """Noise over its deviation, shape (draws, elements)."""
    zero = torch.zeros(1, elements)
    return noisy(Noise(seed, stream, 0.5), zero, [Run(0, index, first)], draws) / 0.5


# The generator


def test_words_are_those_of_philox_4x64_10():
    """The known answer of the authors' test vectors for an all-zero counter and key; ours count from one."""
    first = np.random.Philox(key=0, counter=2**256 - 1).random_raw(4)
    known = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert first.tolist() == known
    words = philox_words(7, 3, 5, 11, 1, 8).numpy().reshape(-1).view(np.uint64)
    counter = 5 * 2**64 + 3 * 2**128 + 11 * blocks_per_draw(8)
    assert words.tolist() == np.random.Philox(key=7, counter=counter).random_raw(8).tolist()


@given(
    st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**62), st.integers(0, 2**40),
    st.integers(1, 100),
)  # fmt: skip
def test_plain_torch_draws_the_same_words(seed, stream, index, first, elements):
    indices, draws = torch.full((3,), index), torch.arange(first, first + 3)
    ours = device_words(seed, stream, indices, draws, elements)
    assert torch.equal(ours, philox_words(seed, stream, index, first, 3, elements))


@given(st.integers(1, 200_000), st.integers(0, 10**9))
def test_draws_share_no_counter(elements, draw):
    """Draw j has the counters j·B + 1 … (j + 1)·B of its input: next to one another, never the same, below 2^64."""
    blocks = blocks_per_draw(elements)
    assert blocks * 4 >= elements
    assert (draw + 1) * blocks < 2**63
    here = philox_words(0, 0, 0, draw, 2, min(elements, 100))
    again = philox_words(0, 0, 0, draw + 1, 1, min(elements, 100))
    assert torch.equal(here[1], again[0])
    assert not torch.equal(here[0], here[1])


def test_no_word_block_occurs_twice():
    """Counters map to 256-bit blocks one to one; among these not even 64 bits agree."""
    words = [philox_words(s, t, i, 0, 2000, 8) for s in (0, 2**32, 2**63) for t in (0, 1) for i in (0, 1, 2**32)]
    blocks = torch.cat(words).numpy().reshape(-1).view(np.uint64)
    assert len(np.unique(blocks)) == blocks.size


def test_all_64_bits_of_the_seed_count():
    """Torch's CPU generator drops the upper half, which this replaces."""
    torch_draws = [torch.Generator().manual_seed(seed) for seed in (5, 5 + 2**32)]
    assert torch.equal(*(torch.rand(4, generator=generator) for generator in torch_draws))
    ours = [standard(1, seed=seed) for seed in (5, 5 + 2**32, 5 + 2**63)]
    assert not torch.equal(ours[0], ours[1])
    assert not torch.equal(ours[0], ours[2])


# The address


@given(st.data())
def test_noise_does_not_depend_on_how_it_is_cut(data):
    elements, draws = data.draw(st.integers(1, 70)), 12
    size = data.draw(st.sampled_from([1, 2, 3, 4, 6, 12]))
    noise, inputs = Noise(3, 1, 0.25), to_grid(torch.rand(2, elements), 2.0**-20)
    whole = noisy(noise, inputs, [Run(0, 8, 0), Run(1, 9, 0)], draws).view(2, draws, elements)
    runs = [Run(slot, 8 + slot, first) for slot in (0, 1) for first in range(0, draws, size)]
    runs = data.draw(st.permutations(runs))
    for run, part in zip(runs, noisy(noise, inputs, runs, size).split(size), strict=True):
        assert torch.equal(part, whole[run.slot, run.first : run.first + size])


def test_large_runs_are_drawn_in_groups():
    inputs = torch.zeros(1, 3072)
    together = noisy(Noise(0, 0, 1.0), inputs, [Run(0, 0, 0)], 100)
    alone = noisy(Noise(0, 0, 1.0), inputs, [Run(0, 0, 99)], 1)
    assert torch.equal(together[99:], alone)


def test_elements_are_numbered_in_the_order_of_memory():
    noise, inputs = Noise(0, 1, 0.5), to_grid(torch.rand(1, 3, 4, 4), 2.0**-20)
    plain = noisy(noise, inputs, [Run(0, 0, 0)], 2) - inputs
    last = noisy(noise, inputs, [Run(0, 0, 0)], 2, memory_format=torch.channels_last) - inputs
    assert torch.equal(last.permute(0, 2, 3, 1).reshape(2, -1), plain.reshape(2, -1))


def test_other_types_hold_the_rounded_sum():
    noise, inputs = Noise(0, 1, 0.5), to_grid(torch.rand(1, 20), 2.0**-20)
    exact = noisy(noise, inputs, [Run(0, 0, 0)], 3)
    assert torch.equal(noisy(noise, inputs, [Run(0, 0, 0)], 3, dtype=torch.bfloat16), exact.bfloat16())


# The grid


@pytest.mark.parametrize("sigma", [0.01, 0.12, 0.25, 0.5, 0.6, 0.61, 1.0, 3.0, 64.0])
def test_sums_are_exact_on_the_grid(sigma):
    """Noise moved by a grid vector is the same noise, bit for bit."""
    noise = Noise(1, 1, sigma)
    inputs = to_grid(torch.rand(2, 3072) * LARGEST_INPUT * noise.step, noise.step)
    inputs[0] = 0
    still, moved = noisy(noise, inputs, [Run(0, 4, 0), Run(1, 4, 0)], 20).double().view(2, 20, 3072)
    assert torch.equal(moved - inputs[1].double(), still)
    assert torch.equal((still / noise.step).round() * noise.step, still)


def test_largest_noise_and_input_fill_float32():
    """The outermost knot and the widest spread about it, 8 deviations away."""
    for sigma in (0.01, 0.12, 0.25, 0.5, 0.51, 1.0, 77.0):
        step = grid_step(sigma)
        table = knots(sigma / step)
        words = torch.full((1, 2, 2), -1, dtype=torch.int32)  # the outermost knot, the largest of everything
        words[0, 0, 1] = 0  # a choice that stays, if any does
        out = torch.empty(1, 2)
        table.draw(words, out, torch.empty(2, 1, 2, dtype=torch.int32))
        largest = (2**15 - 1) * 2**table.bits + 2**table.bits - 1
        assert out.abs().max() <= largest < LARGEST_NOISE
        assert largest >= 8 * sigma / step - 2
        assert float(np.float32(LARGEST_INPUT + LARGEST_NOISE)) == LARGEST_INPUT + LARGEST_NOISE == 2**24
        assert step == 2.0**-20 or 8 * sigma / (step / 2) > LARGEST_NOISE  # no finer grid would do


def test_low_bits_do_not_tell_the_input():
    """The same noise at two inputs 0.433 apart, σ = 0.5; tests/smoothing/test_rounding.py certifies them."""
    inputs = two_inputs()
    ours = Noise(0, 1, 0.5).copies(inputs, [0, 0], draws=500)
    assert ReadsLowBits()(ours).argmax(dim=1).tolist() == [1] * 1000


def test_copies_are_of_the_rounded_inputs():
    noise, inputs = Noise(3, 1, 0.5), torch.rand(2, 5, dtype=torch.float64)
    ours = noise.copies(inputs, [7, 8], first=4, draws=3)
    assert ours.dtype == torch.float64
    on_grid = to_grid(inputs, noise.step)
    assert torch.equal(ours.float(), noisy(noise, on_grid, [Run(0, 7, 4), Run(1, 8, 4)], 3))
    table = torch.tensor([[0, 1], [7, 8], [4, 4]])
    assert torch.equal(ours.float(), noisy(noise, on_grid, table, 3, runs_there=2))


# The law


def test_rounded_normals_have_the_law_of_a_rounded_gaussian():
    deviation, n = 32.0, 400_000
    words, out = philox_words(0, 0, 0, 0, n // 16, 16), torch.empty(n // 16, 16)
    knots(deviation).draw(words, out, torch.empty(2, n // 16, 16, dtype=torch.int32))
    values = np.arange(-100, 101)
    edges = np.concatenate(([-np.inf], values[:-1] + 0.5, [np.inf]))
    expected = n * np.diff(stats.norm.cdf(edges / deviation))
    seen = [np.sum(np.clip(out.numpy(), -100, 100) == value) for value in values]
    assert stats.chisquare(seen, expected).pvalue > 0.001


def test_noise_is_normal():
    sample = standard(300).double().numpy().ravel()
    n = sample.size
    for moment, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(sample**moment) - expected) < 4 * math.sqrt(variance / n)
    assert stats.kstest(sample, "norm").pvalue > 0.001
    halves = standard(2000, elements=32).numpy()
    for column in (halves[:, 0], halves[:, 15], halves[:, 16], halves[:, 31]):
        assert stats.kstest(column, "norm").pvalue > 0.001


@pytest.mark.parametrize("other", [{"seed": 2}, {"stream": 2}, {"index": 1}, {"first": 1}, {"first": 2**32}])
def test_neighbouring_addresses_are_uncorrelated(other):
    """Of values, squares and signs; 614 400 pairs."""
    a, b = standard(200).double(), standard(200, **other).double()
    for of in (lambda z: z, lambda z: z.square() - 1, lambda z: z.sign()):
        pairs = (of(a) * of(b)).flatten()
        assert abs(pairs.mean()) < 4 * pairs.std() / math.sqrt(len(pairs))


@pytest.mark.parametrize("shift", [1, 2, 8, 768, 1536])
def test_elements_of_a_draw_are_uncorrelated(shift):
    sample = standard(200).double()
    for of in (lambda z: z, lambda z: z.square() - 1):
        pairs = (of(sample)[:, shift:] * of(sample)[:, :-shift]).flatten()
        assert abs(pairs.mean()) < 4 * pairs.std() / math.sqrt(len(pairs))


@pytest.mark.slow
def test_tails_are_as_heavy_as_they_should_be():
    """2 · 10^8 normals: beyond 5 deviations 115 are expected, beyond 4.5 there are 1 359."""
    beyond, limits, total = np.zeros(5), np.array([3, 4, 4.5, 5, 5.5]), 0
    for index in range(130):
        sample = standard(500, index=index).abs_()
        beyond += [int((sample > limit).sum()) for limit in limits]
        total += sample.numel()
    expected = total * 2 * stats.norm.sf(limits)
    assert np.all(np.abs(beyond - expected) < 4 * np.sqrt(expected) + 1)
    assert beyond[3] > 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_inputs_that_cannot_hold_noise_are_refused(dtype):
    with pytest.raises(InputError, match="be floats"):
        Noise(0, 1, 0.25).copies(torch.zeros(1, 4, dtype=dtype), [0], draws=2)


def test_threads_draw_the_same():
    noise, inputs = Noise(3, 1, 0.25), torch.zeros(1, 100)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: noise.copies(inputs, [5], draws=300), range(40)))
    assert all(torch.equal(one, found[0]) for one in found)


def test_a_zero_is_positive():
    inputs = torch.tensor([[-0.0, -1e-9]])
    assert not torch.signbit(to_grid(inputs, 2.0**-20)).any()
