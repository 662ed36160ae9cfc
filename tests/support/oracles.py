"""Slow and obviously right answers that the fast code is compared with."""

from itertools import combinations, product

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp


def bin_of(z, edges):
    """The paper's rule, spelled out: [lo, hi), the last bin closed."""
    for m in range(len(edges) - 1):
        last = m == len(edges) - 2
        if edges[m] <= z < edges[m + 1] or (last and z == edges[m + 1]):
            return m
    raise AssertionError(f"{z} is in no bin of {edges}")


def plain_ece(confidence, correct, edges):
    """Eq. (1) read aloud."""
    total = 0.0
    members = [[n for n, z in enumerate(confidence) if bin_of(z, edges) == m] for m in range(len(edges) - 1)]
    for inputs in members:
        if inputs:
            accuracy = np.mean([float(correct[n]) for n in inputs])
            mean = np.mean([confidence[n] for n in inputs])
            total += len(inputs) * abs(accuracy - mean)
    return total / len(confidence)


def reachable(low, high, edges):
    """(bin, infimum, supremum) of the confidences that [low, high] has in common with each bin."""
    first, last = bin_of(low, edges), bin_of(high, edges)
    return [(m, max(low, edges[m]), min(high, edges[m + 1])) for m in range(first, last + 1)]


def worst_case_by_enumeration(lower, upper, correct, edges, uncertified=0):
    """The certified calibration error by trying all 2^M sign vectors; exact if given fractions."""
    bins = len(edges) - 1
    best = None
    for signs in product((-1, 1), repeat=bins):
        total = 0
        for low, high, right in zip(lower, upper, correct, strict=True):
            total += max(signs[m] * (right - z) for m, a, b in reachable(low, high, edges) for z in (a, b))
        free = max(signs[m] * (right - z) for right in (0, 1) for m in range(bins) for z in (edges[m], edges[m + 1]))
        value = total + uncertified * free
        best = value if best is None else max(best, value)
    return best / (len(lower) + uncertified)


def worst_case_with_failures(lower, upper, correct, edges, failures, uncertified=0):
    """The worst case over every choice of certificates that fail: those inputs become free like uncertified ones."""
    everyone = range(len(lower))
    return max(
        worst_case_by_enumeration(
            *([part[n] for n in everyone if n not in failed] for part in (lower, upper, correct)),
            edges,
            uncertified + failures,
        )
        for failed in combinations(everyone, failures)
    )


def worst_case_with_failures_by_signs(lower, upper, correct, edges, failures, uncertified=0):
    """The same by trying all sign vectors and letting those fail that gain most; for more inputs."""
    bins = len(edges) - 1
    best = 0.0
    for signs in product((-1, 1), repeat=bins):
        scores = [
            max(signs[m] * (right - z) for m, a, b in reachable(low, high, edges) for z in (a, b))
            for low, high, right in zip(lower, upper, correct, strict=True)
        ]
        free = max(signs[m] * (right - z) for right in (0, 1) for m in range(bins) for z in (edges[m], edges[m + 1]))
        gains = sorted((free - score for score in scores), reverse=True)[:failures]
        best = max(best, sum(scores) + sum(gains) + uncertified * free)
    return best / (len(lower) + uncertified)


def worst_case_by_milp(lower, upper, correct, edges, slack=1.0):
    """The paper's mixed-integer program, Eq. (6), linearised and solved by HiGHS.

    Per input and reachable bin: a binary a and the mass w = a (c − z), bounded by a times the interval of c − z.
    Per bin: |Σ w| = t with a binary sign, t ≤ Σ w + big (1 − s), t ≤ −Σ w + big s.
    """
    inputs, bins = len(lower), len(edges) - 1
    pairs = [
        (n, m, float(correct[n]) - b, float(correct[n]) - a)
        for n in range(inputs)
        for m, a, b in reachable(lower[n], upper[n], edges)
    ]
    count, big = len(pairs), 2.0 * inputs * slack
    a0, w0, s0, t0 = 0, count, 2 * count, 2 * count + bins
    size = 2 * count + 2 * bins
    rows, low_side, high_side = [], [], []

    def add(entries, low, high):
        row = np.zeros(size)
        for column, value in entries:
            row[column] += value
        rows.append(row), low_side.append(low), high_side.append(high)

    for n in range(inputs):  # unique assignment
        add([(a0 + p, 1.0) for p, pair in enumerate(pairs) if pair[0] == n], 1.0, 1.0)
    for p, (_, _, least, most) in enumerate(pairs):  # least · a ≤ w ≤ most · a
        add([(w0 + p, 1.0), (a0 + p, -least)], 0.0, np.inf)
        add([(w0 + p, 1.0), (a0 + p, -most)], -np.inf, 0.0)
    for m in range(bins):
        gap = [(w0 + p, 1.0) for p, pair in enumerate(pairs) if pair[1] == m]
        add([(t0 + m, 1.0), (s0 + m, big), *((k, -v) for k, v in gap)], -np.inf, big)
        add([(t0 + m, 1.0), (s0 + m, -big), *gap], -np.inf, 0.0)
    cost = np.zeros(size)
    cost[t0:] = -1.0
    integer = np.zeros(size)
    integer[:count] = integer[s0:t0] = 1
    floor, ceiling = np.zeros(size), np.ones(size)
    floor[w0:s0], floor[t0:], ceiling[t0:] = -1.0, -big, big
    constraints = LinearConstraint(sparse.csr_array(np.array(rows)), low_side, high_side)
    # On degenerate intervals HiGHS sometimes rejects its own optimum for missing a tolerance by 1e-6; it then succeeds
    # with or without presolve, or with another big-M.
    for presolve in (True, False):
        result = milp(
            cost,
            constraints=constraints,
            integrality=integer,
            bounds=Bounds(floor, ceiling),
            options={"mip_rel_gap": 0.0, "presolve": presolve},
        )
        if result.success:
            return -result.fun / inputs
    assert slack < 2, result.message
    return worst_case_by_milp(lower, upper, correct, edges, slack=slack + 0.17)
