"""Whole normals: the table meets its weights, words are read as documented, the law is as near as it is said to be."""

import hashlib
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from certcal.models.grid import LARGEST_NOISE
from certcal.models.normals import KNOTS, WEIGHT, alias_table, knot_weights, knots, spacing_bits
from certcal.settings import MIN_SIGMA
from certcal.smoothing.evidence import noise_slip

LEAST_DEVIATION = MIN_SIGMA * 2**20
DEVIATIONS = [
    2.0**19,
    2.0**18 * 1.001,
    370_000.0,
    0.12 * 2**20,
    0.1 * 2**20,
    4100.0,
    2.0**12,
    2100.0,
    300.0,
    LEAST_DEVIATION,
]


def drawn(deviation, choice, place):
    """Whole normals of 32-bit words, one element each."""
    words = [torch.tensor(part, dtype=torch.int64).to(torch.int32)[:, None] for part in (choice, place)]
    out = torch.empty(len(choice), 1)
    knots(deviation).draw(torch.stack(words, dim=1), out, torch.empty(2, len(choice), 1, dtype=torch.int32))
    return out[:, 0].long().tolist()


def half_law(deviation):
    """The law of ±(w·J + T) on 0, 1, …, as the table has it: lines between the weights of knots, shape (2^15, w)."""
    bits = spacing_bits(deviation)
    width = 2**bits
    weights = np.array([*knot_weights(deviation, bits), 0], dtype=np.float64) / WEIGHT / 2
    weights[0] *= 2
    along = np.arange(width) / width
    return (weights[:-1, None] * (1 - along) + weights[1:, None] * along) / width


def half_normal(deviation):
    """The law of a rounded normal on the same numbers: its density integrated over each unit, by Taylor's formula."""
    r = np.arange(KNOTS * 2 ** spacing_bits(deviation)) / deviation
    terms = 1 + (r**2 - 1) / (24 * deviation**2) + (r**4 - 6 * r**2 + 3) / (1920 * deviation**4)
    return np.exp(-(r**2) / 2) / math.sqrt(2 * math.pi) / deviation * terms


# The law


@pytest.mark.parametrize(
    "deviation",
    [
        *DEVIATIONS[::3],
        *(pytest.param(s, marks=pytest.mark.slow) for s in (*DEVIATIONS, *np.geomspace(33, 2.0**19, 150))),
    ],
)
def test_the_law_is_as_near_to_a_rounded_normal_as_noise_slip_says(deviation):
    """docs/noise.md, Why the law may be taken for normal: χ² within 5 deviations, total variation beyond."""
    ours, normal = half_law(deviation).ravel(), half_normal(deviation)
    assert 2 * normal.sum() - normal[0] == pytest.approx(1, abs=1e-12)
    both = np.where(np.arange(len(ours)) == 0, 1.0, 2.0)
    near = np.arange(len(ours)) <= 5 * deviation
    chi = np.sum((both * (ours - normal) ** 2)[near] / normal[near])
    tail = 2 * (ours - normal)[~near]
    beyond = (np.sum(np.abs(tail)) + abs(np.sum(tail))) / 2 + 2 * special.ndtr(-8.0)
    assert math.sqrt(chi) / 2 < 1.1e-8
    assert beyond < 1.95e-11
    for elements in (1, 784, 3072, 150_528):
        assert math.sqrt(math.expm1(elements * math.log1p(chi))) / 2 + elements * beyond < noise_slip(elements)


@pytest.mark.parametrize("deviation", [40.0, 1000.0])
def test_the_law_of_a_rounded_normal_is_that_of_its_distribution_function(deviation):
    """The oracle above against another, where differences of Φ keep enough digits."""
    x = np.arange(KNOTS)
    exact = special.ndtr(-(x - 0.5) / deviation) - special.ndtr(-(x + 0.5) / deviation)
    near = x < 7 * deviation
    np.testing.assert_allclose(half_normal(deviation)[near], exact[near], rtol=1e-9)


@given(st.floats(LEAST_DEVIATION, 2.0**19))
def test_knots_reach_eight_deviations_and_no_further_than_the_grid_allows(deviation):
    width = 2 ** spacing_bits(deviation)
    assert KNOTS * width >= 8 * deviation - 1
    assert KNOTS * width - 1 < LARGEST_NOISE
    assert width == 1 or KNOTS * width / 2 < 8 * deviation


# The table


@pytest.mark.parametrize("deviation", [2.0**19, 123_456.7, 50.0])
def test_weights_are_whole_and_add_up(deviation):
    weights = knot_weights(deviation, spacing_bits(deviation))
    assert sum(weights) == WEIGHT
    assert 2 * weights[0] == pytest.approx(weights[1], rel=0.001)  # both signs of 0 are one
    assert weights[1:] == sorted(weights[1:], reverse=True)


@pytest.mark.parametrize("deviation", [2.0**19, 123_456.7, 50.0])
def test_the_table_gives_every_knot_its_weight(deviation):
    """Choices that stay, and those that come from elsewhere, counted in whole numbers."""
    weights = knot_weights(deviation, spacing_bits(deviation))
    stays, alias = alias_table(weights)
    got = list(stays)
    for knot, target in enumerate(alias):
        if target != knot:
            got[target] += 2**31 - stays[knot]
    assert got == weights
    assert all(0 <= own <= 2**31 for own in stays)
    assert all(own == 2**31 for knot, own in enumerate(stays) if alias[knot] == knot)


# Words


@pytest.mark.parametrize("deviation", [2.0**19, 123_456.7, 50.0])
def test_words_are_read_as_documented(deviation, rng):
    """The last choice that stays does, the next one moves; the upper bit of a choice means nothing."""
    bits = spacing_bits(deviation)
    stays, alias = alias_table(knot_weights(deviation, bits))
    choices, places, wanted = [], [], []
    for place in [0, 2**32 - 1, 2**31, *rng.integers(0, 2**32, 500).tolist()]:
        knot = place % KNOTS
        spread = (place >> 15) % 2**bits + (place >> (15 + bits)) % 2**bits - (2**bits - 1)
        sign = -1 if place >> 31 else 1
        for choice in (c for c in (0, stays[knot] - 1, stays[knot], 2**31 - 1) if 0 <= c < 2**31):
            chosen = knot if choice < stays[knot] else alias[knot]
            wanted += [sign * (chosen * 2**bits + spread)] * 2
            choices += [choice, choice + 2**31]
            places += [place] * 2
    assert drawn(deviation, choices, places) == wanted


def test_both_parts_of_an_entry_come_in_one_word():
    table = knots(2.0**19)
    assert torch.equal(table.packed >> 32, table.last.long())
    assert torch.equal(table.packed.to(torch.int32), table.place[KNOTS:] - table.place[:KNOTS])


def test_the_table_is_the_same_everywhere():
    """It is made of integers alone; a digest of that of σ = 0.5."""
    kept = hashlib.sha256(knots(2.0**19).packed.numpy().astype("<i8").tobytes()).hexdigest()
    assert kept[:16] == "f61e2b45aadaaebb"
