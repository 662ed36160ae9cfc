"""What is guaranteed of all inputs against a truth in which predictions flip: every way, and the Brier score.

Of two leading classes the first has the score a + b Φ(z) in a draw, the other a + b (1 − Φ(z)), z ~ N(mean, SPREAD²);
the larger has the vote. Half of the inputs are of two classes (a = 0, b = 1). The others have scores below one half
(a = b = 0.2), so that a wrong prediction that flips is right with little confidence: far from its correctness.
"""

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
# Mean and deviation of the means of z, how many are right, how many have scores below one half.
MIXED, BORDER = (0.3, 0.4, 0.7, 0.5), (0.05, 0.15, 0.4, 0.95)


def attainable(mean, right, low, radius):
    """(confidence, correctness) at points within R: moving by r moves the mean of z by r · SPREAD / SIGMA."""
    means = mean + np.linspace(-radius, radius, 61) * SPREAD / SIGMA
    share = stats.norm.cdf(np.abs(means) / np.sqrt(1 + SPREAD**2))  # of the class that leads there
    return 0.2 + 0.2 * share if low else share, np.where(means < 0, ~right, right)


def worst(means, right, low, radius):
    """The largest ECE and Brier score over all attainable points, by enumeration of sign vectors; how many can flip."""
    earned = np.full((len(means), BINS, 2), -np.inf)
    lost, flips = [], 0
    for place, own in enumerate(zip(means, right, low, strict=True)):
        confidence, correct = attainable(*own, radius)
        gap, bins = correct - confidence, np.minimum((confidence * BINS).astype(int), BINS - 1)
        for at, sign in itertools.product(range(BINS), (0, 1)):
            earned[place, at, sign] = ((2 * sign - 1) * gap[bins == at]).max(initial=-np.inf)
        lost.append((gap**2).max())
        flips += len(set(correct.tolist())) == 2
    values = [earned[:, range(BINS), signs].max(axis=1).mean() for signs in itertools.product((0, 1), repeat=BINS)]
    return max(values), float(np.mean(lost)), flips


def draw(rng, kind, inputs, draws):
    """A set of inputs, and evidence of it."""
    means, right, low = rng.normal(*kind[:2], inputs), *(rng.random(inputs) < share for share in kind[2:])
    z = rng.normal(means[:, None], SPREAD, (inputs, draws))
    scores = np.where(low[:, None], 0.2, 0.0) + np.where(low[:, None], 0.2, 1.0) * stats.norm.cdf(z)
    won = (z > 0).sum(axis=1)
    drawn = evidence_from_scores(scores, sigma=SIGMA)
    return (means, right, low), replace(drawn, label=right.astype(int), votes=np.column_stack([draws - won, won]))


def coverage(rng, kind, sets, *, inputs, draws, delta):
    """Of each way's bound and of the Brier score, how often it is below the truth at any radius; flips; mean slack."""
    broken = dict.fromkeys(("failures", "alpha_for_set", "pooled", "brier"), 0)
    flips, slack = 0, []
    for _ in range(sets):
        truth, drawn = draw(rng, kind, inputs, draws)
        asked = {"alpha": 0.001, "delta": delta, "claim": "best", "population": "all", "n_bins": BINS}
        below = set()
        for row in evaluate(drawn, radii=RADII, **asked):
            error, brier, some = worst(*truth, row.radius)
            below |= {name for name, value in row.claims.items() if value < error}
            below |= {"brier"} if row.joint_brier < brier else set()
            flips += some / len(RADII)
            slack.append((row.joint_ece - error, row.joint_brier - brier))
        for name in below:
            broken[name] += 1
    return {name: count / sets for name, count in broken.items()}, flips / sets, np.mean(slack, axis=0)


@pytest.mark.parametrize("kind", [MIXED, BORDER])
def test_the_guarantee_holds_where_predictions_flip(rng, kind):
    rates, flips, slack = coverage(rng, kind, 3, inputs=60, draws=2000, delta=0.3)
    assert rates == dict.fromkeys(rates, 0.0)
    assert flips > 10
    assert (slack < 0.4).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MIXED, BORDER])
def test_every_way_holds_at_its_level_where_predictions_flip(rng, kind):
    """60 sets of 80 inputs; each of the three ways has a third of δ = 0.3."""
    rates, flips, _ = coverage(rng, kind, 60, inputs=80, draws=2000, delta=0.3)
    assert all(rate <= 0.1 for rate in rates.values()), rates
    assert flips > 20
