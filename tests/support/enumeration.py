"""Every attack on a few inputs, spelled out: the slowest and most obvious worst case of any metric."""

from itertools import combinations, permutations, product

import numpy as np
from hypothesis import strategies as st

GRID = np.arange(5) / 4


@st.composite
def grid_sets(draw, most=4, least=1, grid=GRID):
    """(lower, upper, correct) with ends on a coarse grid: ties, points, ends at 0, 1 and on edges are the rule."""
    value = st.sampled_from(grid.tolist())
    pairs = draw(st.lists(st.tuples(value, value, st.booleans()), min_size=least, max_size=most))
    lower, upper = np.array([(min(a, b), max(a, b)) for a, b, _ in pairs]).reshape(-1, 2).T
    return lower, upper, np.array([right for *_, right in pairs], dtype=bool)


def every_attack(lower, upper, correct, points, *, uncertified=0, failures=0):
    """All (confidences, correctness) with values among `points`, two arrays of shape (attacks, inputs).

    Uncertified inputs, and every choice of `failures` others, are free: right or wrong at any point.
    """
    free = [(z, right) for z in points for right in (False, True)]
    found = []
    for failed in combinations(range(len(lower)), min(failures, len(lower))):
        options = [
            free if n in failed else [(z, bool(correct[n])) for z in points if lower[n] <= z <= upper[n]]
            for n in range(len(lower))
        ] + uncertified * [free]
        # Free inputs are alike: the order among the uncertified ones does not matter.
        found += list(product(*options))
    table = np.array(found, dtype=float).reshape(len(found), -1, 2)
    return table[..., 0], table[..., 1] == 1.0


def accuracies(z, c, threshold):
    """Share of right ones among those accepted, of each attack; NaN where nobody is."""
    accepted = z >= threshold
    count = accepted.sum(axis=1)
    return np.where(count > 0, (accepted & c).sum(axis=1) / np.maximum(count, 1), np.nan)


def aurocs(z, c):
    """Pairs won, of each attack, counted one by one; NaN where all are right or all wrong."""
    pair = c[:, :, None] & ~c[:, None, :]
    won = (z[:, :, None] > z[:, None, :]) + 0.5 * (z[:, :, None] == z[:, None, :])
    count = pair.sum(axis=(1, 2))
    return np.where(count > 0, (won * pair).sum(axis=(1, 2)) / np.maximum(count, 1), np.nan)


def areas(z, c):
    """AURC of each attack: with random order of ties, an input is among the first k with a known probability."""
    above = (z[:, None, :] > z[:, :, None]).sum(axis=2)
    equal = (z[:, None, :] == z[:, :, None]).sum(axis=2)
    errors = [(~c * np.clip((k - above) / equal, 0, 1)).sum(axis=1) / k for k in range(1, z.shape[1] + 1)]
    return np.mean(errors, axis=0)


def any_binning_errors(z, c, bins):
    """The largest calibration error of each attack over all partitions of the line into at most `bins` intervals."""
    order = np.argsort(z, axis=1, kind="stable")
    z, gap = np.take_along_axis(z, order, 1), np.take_along_axis(c - z, order, 1)
    inputs, best = z.shape[1], np.zeros(len(z))
    for count in range(min(bins, inputs)):
        for cuts in combinations(range(1, inputs), count):
            parts = [abs(part.sum(axis=1)) for part in np.split(gap, cuts, axis=1)]
            apart = np.all([z[:, cut] > z[:, cut - 1] for cut in cuts], axis=0) if cuts else True
            best = np.maximum(best, np.where(apart, np.sum(parts, axis=0) / inputs, 0.0))
    return best


def equal_count_errors(z, c, counts):
    """The largest calibration error of each attack in bins with so many inputs each, ties shared as is worst.

    For given bins the error is convex in z, so its maximum is at a corner of {l ≤ z ≤ u, z in order}, where every z is
    an end of some interval: attacks on the ends are enough.
    """
    cuts, best = np.cumsum(counts)[:-1], np.zeros(len(z))
    for order in map(list, permutations(range(z.shape[1]))):
        gaps = np.split((c - z)[:, order], cuts, axis=1)
        value = sum(abs(part.sum(axis=1)) for part in gaps) / z.shape[1]
        best = np.maximum(best, np.where((np.diff(z[:, order], axis=1) >= 0).all(axis=1), value, 0.0))
    return best
