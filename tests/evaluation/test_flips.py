"""What is guaranteed of all inputs against a truth in which predictions flip: every way, and the Brier score."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from certcal import evaluate
from smoothing_oracles import evidence_from_scores

SPREAD, SIGMA = 0.6, 0.5
RADII = (0.1, 0.3)
BINS = 4


def attainable(mean, right, radius):
    """(confidence, correctness) of a two-class model with score Φ(z), z ~ N(mean, SPREAD²), at points within R.

    Moving the input by r moves the mean of z by r · SPREAD / SIGMA. Below 0 the other class is predicted, whose score
    is 1 − Φ(z): right where the first was wrong.
    """
    means = mean + np.linspace(-radius, radius, 61) * SPREAD / SIGMA
    first = stats.norm.cdf(means / np.sqrt(1 + SPREAD**2))
    flipped = means < 0
    return np.where(flipped, 1 - first, first), np.where(flipped, ~right, right)


def worst(means, right, radius, some):
    """The largest ECE and Brier score over all attainable points, by enumeration of sign vectors; how many can flip."""
    earned = np.full((some.sum(), BINS, 2), -np.inf)
    lost, flips = [], 0
    for place, (mean, own) in enumerate(zip(means[some], right[some], strict=True)):
        confidence, correct = attainable(mean, own, radius)
        gap, bins = correct - confidence, np.minimum((confidence * BINS).astype(int), BINS - 1)
        for at in range(BINS):
            for sign in (0, 1):
                earned[place, at, sign] = ((2 * sign - 1) * gap[bins == at]).max(initial=-np.inf)
        lost.append((gap**2).max())
        flips += len(set(correct.tolist())) == 2
    values = [
        earned[:, range(BINS), list(signs)].max(axis=1).mean() for signs in itertools.product((0, 1), repeat=BINS)
    ]
    return max(values), float(np.mean(lost)), flips


def coverage(rng, sets, *, inputs, draws, delta):
    """Of each way's bound and of the Brier score, how often it is below the truth at any radius; flips per set."""
    broken = dict.fromkeys(("failures", "alpha_for_set", "pooled", "brier"), 0)
    flips, slack = 0, []
    for _ in range(sets):
        means, right = rng.normal(0.6, 0.5, inputs), rng.random(inputs) < 0.8
        scores = stats.norm.cdf(rng.normal(means[:, None], SPREAD, (inputs, draws)))
        drawn = replace(evidence_from_scores(scores, sigma=SIGMA), label=np.where(right, 1, 0))
        asked = {"alpha": 0.02, "delta": delta, "claim": "best", "population": "all", "n_bins": BINS}
        below = set()
        for row in evaluate(drawn, radii=RADII, **asked):
            error, brier, some = worst(means, right, row.radius, np.ones(inputs, dtype=bool))
            stated = row.claims | {"brier": row.joint_brier}
            below |= {name for name, value in stated.items() if value < (brier if name == "brier" else error)}
            flips += some
            slack.append(row.joint_ece - error)
        for name in below:
            broken[name] += 1
    return {name: count / sets for name, count in broken.items()}, flips / sets, float(np.mean(slack))


def test_the_guarantee_holds_where_predictions_flip(rng):
    rates, flips, slack = coverage(rng, 4, inputs=60, draws=300, delta=0.3)
    assert rates == dict.fromkeys(rates, 0.0)
    assert flips > 20
    assert slack < 0.25


@pytest.mark.slow
def test_every_way_holds_at_its_level_where_predictions_flip(rng):
    """100 sets of 80 inputs; each of the three ways has a third of δ = 0.3."""
    rates, flips, _ = coverage(rng, 100, inputs=80, draws=600, delta=0.3)
    assert all(rate <= 0.1 for rate in rates.values()), rates
    assert flips > 20
