"""Which bin a confidence falls into, in each of the ways the code finds out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError
from certcal.metrics import Bins
from oracles import bin_of
from problems import edge_lists


# Values where rules differ: every edge, one float to each side of it, and the ends.
def around(edges):
    return np.unique(np.clip([edges, np.nextafter(edges, -1), np.nextafter(edges, 2)], 0, 1))


@pytest.mark.parametrize("n_bins", [*range(1, 60), 100, 127, 1000])
def test_equal_width_agrees_with_the_rule_at_every_edge(n_bins):
    bins = Bins.equal_width(n_bins)
    values = around(bins.edges)
    expected = np.minimum(np.searchsorted(bins.edges, values, side="right") - 1, n_bins - 1)
    np.testing.assert_array_equal(bins.assign(values), expected)


def test_the_three_ways_are_all_taken():
    assert Bins.equal_width(15)._width_is_exact
    assert not Bins.equal_width(10)._width_is_exact
    assert Bins.equal_width(10)._lookup is not None
    assert Bins.from_edges([0, 0.5, np.nextafter(0.5, 1), 1])._lookup is None


@given(edge_lists(), st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_any_edges_agree_with_the_rule_read_aloud(edges, values):
    values = np.concatenate([values, around(edges)])
    np.testing.assert_array_equal(Bins.from_edges(edges).assign(values), [bin_of(z, edges) for z in values])


def test_blocks_do_not_show(rng):
    values = rng.random(100_001)
    np.testing.assert_array_equal(Bins.equal_width(15).assign(values), np.floor(values * 15))


def test_edges_are_correctly_rounded_fractions():
    assert Bins.equal_width(3).edges.tolist() == [0.0, 1 / 3, 2 / 3, 1.0]


def test_tops_are_the_last_floats_inside():
    bins = Bins.equal_width(10)
    np.testing.assert_array_equal(bins.assign(bins.tops), np.arange(10))
    np.testing.assert_array_equal(bins.assign(np.nextafter(bins.tops[:-1], 1)), np.arange(1, 10))


@pytest.mark.parametrize("n_bins", [1, 2, 5, 10, 15, 20, 33, 100])
def test_compatibility_edges_are_those_of_torch(n_bins):
    edges = Bins.equal_width(n_bins, rule="guo").edges
    np.testing.assert_array_equal(edges, torch.linspace(0, 1, n_bins + 1).double().numpy())


def test_bins_cannot_be_made_wrong():
    for edges in ([0, 1, 0.5], [0.1, 1], [0, np.nan, 1]):
        with pytest.raises(InputError):
            Bins(np.array(edges, dtype=float))
    with pytest.raises(InputError):
        Bins.equal_count([0.2, np.nan], 3)


class TestEqualCount:
    def test_distinct_values_are_split_evenly(self, rng):
        values = rng.permutation(np.linspace(0.01, 0.99, 60))
        counts = np.bincount(Bins.equal_count(values, 15).assign(values))
        assert counts.tolist() == [4] * 15

    def test_cuts_go_to_the_nearest_rank(self):
        """Seven values in three bins: targets 7/3 and 14/3 are nearest to ranks 2 and 5."""
        values = np.linspace(0.1, 0.7, 7)
        assert np.bincount(Bins.equal_count(values, 3).assign(values)).tolist() == [2, 3, 2]

    def test_ties_share_a_bin(self, rng):
        values = rng.choice([0.2, 0.5, 0.5000001, 1.0], 200)
        bins = Bins.equal_count(values, 10)
        assert len(bins) == 4
        assert len({(z, b) for z, b in zip(values, bins.assign(values), strict=True)}) == 4

    def test_saturated_confidences_give_one_bin(self):
        assert Bins.equal_count(np.ones(50), 15).edges.tolist() == [0.0, 1.0]

    def test_fewer_inputs_than_bins_gives_each_its_own(self):
        values = np.array([0.1, 0.4, 0.8])
        assert Bins.equal_count(values, 15).assign(values).tolist() == [0, 1, 2]

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 20))
    def test_edges_are_valid_and_not_too_many(self, values, n_bins):
        bins = Bins.equal_count(np.array(values), n_bins)
        assert len(Bins.from_edges(bins.edges)) <= n_bins
        assert np.bincount(bins.assign(np.array(values))).min() > 0

    def test_neighbouring_floats_are_separated(self):
        values = np.array([0.5, np.nextafter(0.5, 1)])
        assert Bins.equal_count(values, 2).assign(values).tolist() == [0, 1]
