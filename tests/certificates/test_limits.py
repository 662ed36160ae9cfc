"""Where inputs and thresholds find their limits: places instead of limits, as few and as small as they can be."""

import dataclasses

import numpy as np
import pytest

from certcal import confidence_bounds
from certcal.certificates import PLANNED_SHARE, checks, limits
from certcal.means import anytime_limits
from certcal.proportions import clopper_pearson
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


def dkw(counts, draws, level):
    half = np.sqrt(np.log(2 / level) / (2 * draws))
    return np.maximum(counts / draws - half, 0.0), np.minimum(counts / draws + half, 1.0)


@pytest.mark.parametrize(
    ("made", "at_once"),
    [
        (limits.clopper_pearson_limits, lambda counts, draws, level: clopper_pearson(counts, draws, alpha=level / 255)),
        (limits.dkw_limits, dkw),
    ],
    ids=["clopper-pearson", "dkw"],
)
def test_thresholds_share_alpha_at_planned_looks_and_at_others(rng, made, at_once):
    """Read aloud, input by input: nine tenths of alpha at the planned look, a tenth after any other number of draws."""
    own = random_evidence(rng, inputs=4, draws=500)
    for plan in (500, 400):
        cells = made(dataclasses.replace(own, header=dataclasses.replace(own.header, stages=(plan,))), 0.01)
        for row, histogram in enumerate(own.histogram):
            reached = np.array([histogram[j:].sum() for j in range(1, 256)])
            if plan == 500:
                lower, upper = at_once(reached, 500, PLANNED_SHARE * 0.01)
            else:
                lower, upper = anytime_limits(reached, 500, alpha=(1 - PLANNED_SHARE) * 0.01 / 255)
            np.testing.assert_allclose(cells.lower[cells.lower_at[row, :-1]], lower, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(cells.upper[cells.upper_at[row, 1:]], upper, rtol=1e-9, atol=1e-12)


def test_remembered_limits_are_those_of_these_counts_and_this_level(rng, monkeypatch):
    def found(part, alpha):
        return {name: value.tobytes() for name, value in vars(limits.clopper_pearson_limits(part, alpha)).items()}

    own = random_evidence(rng, inputs=20, draws=300)
    first = found(own, 0.01)
    own.histogram[:] = own.histogram[:, ::-1].copy()  # in place, as one should not
    cases = [(own, 0.01), (own, 0.02), (own.select(np.arange(10)), 0.01)]
    again = [found(*case) for case in cases]
    assert first != again[0] == found(own, 0.01) != again[1]
    monkeypatch.setattr(limits, "_REMEMBERED", 0)
    assert again == [found(*case) for case in cases]
