"""Smoothed models whose truth is known in closed form, and slow arithmetic to compare certificates with."""

import math
from dataclasses import dataclass
from functools import lru_cache

import mpmath as mp
import numpy as np
from scipy import special, stats

from certcal.smoothing.evidence import Evidence, EvidenceHeader, threshold_grid

DIGITS = 50


@dataclass(frozen=True)
class ProbitModel:
    """Two classes, P(A | x) = Φ(a·x + b): under noise the argument is N(margin, (σ‖a‖)²) and everything is known."""

    margin: float  # a·x + b
    slope: float  # ‖a‖
    sigma: float

    def confidence(self, move=0.0):
        """The smoothed confidence of A after moving by `move` along a."""
        return stats.norm.cdf((self.margin + move * self.slope) / math.hypot(1.0, self.sigma * self.slope))

    def vote(self):
        """The probability that A gets the vote: its score exceeds 1/2."""
        return stats.norm.cdf(self.margin / (self.sigma * self.slope))

    def radius(self):
        """The distance to the decision boundary, where the smoothed prediction changes."""
        return self.margin / self.slope

    def evidence(self, rng, *, inputs, draws, looks=1):
        """That many independent repetitions of the evidence for this one input."""
        scores = special.ndtr(rng.normal(self.margin, self.sigma * self.slope, size=(inputs, draws)))
        return evidence_from_scores(scores, sigma=self.sigma, looks=looks)


def evidence_from_scores(scores, *, sigma=1.0, looks=1):
    """Evidence of a two-class model whose class A (1, also the label) got these scores, shape (inputs, draws)."""
    scores = np.asarray(scores, dtype=np.float64)
    inputs, draws = scores.shape
    cell = np.minimum(np.searchsorted(threshold_grid(), scores, side="right") - 1, 255)
    flat = cell + 256 * np.arange(inputs)[:, None]
    won = (scores > 0.5).sum(axis=1)
    return evidence(
        np.bincount(flat.ravel(), minlength=256 * inputs).reshape(inputs, 256),
        score_sum=scores.sum(axis=1),
        score_square_sum=np.square(scores).sum(axis=1),
        votes=np.column_stack([draws - won, won]),
        selected=np.ones(inputs, dtype=np.int64),
        sigma=sigma,
        looks=looks,
    )


def evidence(histogram, *, score_sum=None, score_square_sum=None, votes=None, selected=None, sigma=1.0, looks=1):
    """Evidence with these counts; where sums or votes are not given, scores in mid-cell and all votes for class 1."""
    histogram = np.asarray(histogram, dtype=np.int64)
    grid = threshold_grid()
    middle = (grid[1:] + grid[:-1]) / 2
    inputs, draws = len(histogram), histogram.sum(axis=1)
    chosen = np.ones(inputs, dtype=np.int64) if selected is None else np.asarray(selected)
    counts = np.column_stack([0 * draws, draws]) if votes is None else np.asarray(votes)
    planned = tuple(sorted({*draws.tolist()}))
    return Evidence(
        header=EvidenceHeader("test", sigma, 0, counts.shape[1], 10, 100, "float64", looks, planned),
        index=np.arange(inputs),
        content=np.arange(inputs),
        label=np.ones(inputs, dtype=np.int64),
        selected=chosen,
        draws=draws,
        votes=counts.astype(np.int64),
        score_sum=histogram @ middle if score_sum is None else score_sum,
        score_square_sum=histogram @ middle**2 if score_square_sum is None else score_square_sum,
        histogram=histogram,
    )


def random_evidence(rng, *, inputs, draws, sigma=0.25):
    """Evidence of varied inputs: score distributions from flat to very confident."""
    mean, weight = rng.beta(3, 1, inputs) * 0.96 + 0.02, 10 ** rng.uniform(0, 2, inputs)
    histogram = rng.multinomial(draws, _shares(mean.tobytes(), weight.tobytes()))
    won = rng.binomial(draws, np.clip(mean + 0.1, 0.0, 1.0))
    return evidence(histogram, votes=np.column_stack([draws - won, won]), sigma=sigma)


@lru_cache(maxsize=16)
def _shares(mean, weight):
    """The probability of each cell for each input, kept: most tests begin with the same few seeds."""
    mean, weight = np.frombuffer(mean), np.frombuffer(weight)
    cdf = special.betainc((mean * weight)[:, None], ((1 - mean) * weight)[:, None], threshold_grid())
    share = np.clip(np.diff(cdf, axis=1), 0.0, 1.0)
    return share / share.sum(axis=1, keepdims=True)


def cdf_bounds(histogram, limits, shift):
    """The CDF certificate of one input, read aloud: `limits(count, draws)` gives those of each P(score ≥ s_j)."""
    grid, draws = threshold_grid(), int(sum(histogram))
    lower = upper = 0.0
    for j in range(256):  # the interval [s_j, s_{j+1})
        width = grid[j + 1] - grid[j]
        at_left = 1.0 if j == 0 else limits(int(sum(histogram[j:])), draws)[1]
        at_right = 0.0 if j == 255 else limits(int(sum(histogram[j + 1 :])), draws)[0]
        lower += width * stats.norm.cdf(stats.norm.ppf(at_right) - shift)
        upper += width * stats.norm.cdf(stats.norm.ppf(at_left) + shift)
    return lower, upper


def beta_limits(count, draws, alpha):
    """Two-sided Clopper–Pearson limits from the quantiles of scipy.stats."""
    lower = 0.0 if count == 0 else stats.beta.ppf(alpha / 2, count, draws - count + 1)
    upper = 1.0 if count == draws else stats.beta.isf(alpha / 2, count + 1, draws - count)
    return lower, upper


def at_least(count, draws, p):
    """P(X ≥ count) for X ~ Binomial(draws, p), to many digits, by a continued fraction."""
    return _beta_integral(mp.mpf(count), mp.mpf(draws - count + 1), mp.mpf(p))


def at_most(count, draws, p):
    """P(X ≤ count) for X ~ Binomial(draws, p), to many digits."""
    return _beta_integral(mp.mpf(draws - count), mp.mpf(count + 1), 1 - mp.mpf(p))


def normal_cdf(z):
    """Φ(z) to many digits."""
    return mp.erfc(-mp.mpf(z) / mp.sqrt(2)) / 2


def normal_quantile(p):
    """Φ⁻¹(p) to many digits, by Newton's method."""
    p = mp.mpf(p)
    z = mp.mpf(float(special.ndtri(float(p))))
    for _ in range(4):
        z -= (normal_cdf(z) - p) * mp.sqrt(2 * mp.pi) * mp.exp(z * z / 2)
    return z


def _beta_integral(a, b, x):
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_integral(b, a, 1 - x)
    front = mp.exp(a * mp.log(x) + b * mp.log1p(-x) - mp.log(a) - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(a + b))
    c, d = mp.mpf(1), 1 / (1 - (a + b) * x / (a + 1))
    value, m, change = d, 0, mp.mpf(2)
    while abs(change - 1) > mp.mpf(10) ** (5 - DIGITS):
        m += 1
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / (1 + term * d), 1 + term / c
            change = c * d
            value *= change
    return front * value
