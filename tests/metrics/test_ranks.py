"""Ranks against counting pair by pair, prefix by prefix and threshold by threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal.metrics import Ranks, count_below

# Few values, so that ties of every kind occur.
predictions = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0]), st.booleans()), min_size=1, max_size=12)


@given(predictions)
def test_ranks_agree_with_counting(pairs):
    z, c = (np.array(column) for column in zip(*pairs, strict=True))
    ranks = Ranks.of(z, c)
    won = [(right > wrong) + (right == wrong) / 2 for right in z[c] for wrong in z[~c]]
    assert ranks.auroc == pytest.approx(np.mean(won), abs=1e-15) if won else np.isnan(ranks.auroc)
    assert ranks.ks == pytest.approx(max(abs((c - z)[z <= t].sum()) for t in z) / len(z), abs=1e-15)
    # The k most confident, where equals come in random order: those above for sure, and of the equals their share.
    rates = []
    for k, t in enumerate(sorted(z, reverse=True), start=1):
        above, equal = z > t, z == t
        rates.append(((~c)[above].sum() + (k - above.sum()) * (~c)[equal].mean()) / k)
    assert ranks.risk_coverage_area == pytest.approx(np.mean(rates), abs=1e-15)


@given(*(st.lists(st.integers(0, 9).map(float), max_size=12).map(sorted) for _ in range(2)))
def test_merging_counts_as_searching_does(ends, points):
    ends, points = np.array(ends, float), np.array(points, float)
    for equal, side in ((False, "left"), (True, "right")):
        np.testing.assert_array_equal(count_below(ends, points, equal=equal), np.searchsorted(ends, points, side))
