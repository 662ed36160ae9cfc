"""Where inputs and thresholds find their limits: places instead of limits, as few and as small as they can be."""

import numpy as np
import pytest

from certcal import confidence_bounds
from certcal.certificates import checks, limits
from smoothing_oracles import evidence, random_evidence


@pytest.mark.parametrize("draws", [[5, 5, 5], [7, 5, 7, 6], [2**33, 40], []], ids=str)
def test_every_threshold_finds_the_draws_that_reached_it(rng, draws, monkeypatch):
    monkeypatch.setattr(limits, "_ROWS", 2)
    counts = np.array([rng.multinomial(own, rng.dirichlet(np.full(256, 0.05))) for own in draws], dtype=np.int64)
    own = evidence(counts.reshape(-1, 256))
    place, reached, trials = limits._distinct_pairs(own)
    suffix = own.histogram[:, ::-1].cumsum(axis=1)[:, ::-1]
    assert not place[:, [0, -1]].any()
    np.testing.assert_array_equal(reached[place[:, 1:-1] - 1], suffix[:, 1:])
    np.testing.assert_array_equal(trials[place[:, 1:-1] - 1], np.broadcast_to(own.draws[:, None], (len(draws), 255)))
    pairs = list(zip(reached.tolist(), trials.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)


def test_inputs_are_certified_alike_in_parts(rng, monkeypatch):
    own = random_evidence(rng, inputs=30, draws=1000)
    whole = confidence_bounds(own, radius=0.1, alpha=0.01)
    for place in (limits, checks):
        monkeypatch.setattr(place, "_ROWS", 7)
    parts = confidence_bounds(own, radius=0.1, alpha=0.01)
    assert parts.lower.tobytes() == whole.lower.tobytes()
    assert parts.upper.tobytes() == whole.upper.tobytes()
