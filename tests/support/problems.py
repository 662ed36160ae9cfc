"""Problems by name, and strategies that draw them: what the solvers and metrics are run on."""

import numpy as np
from hypothesis import strategies as st

from certcal.recalibration import BetaMap, IdentityMap, IsotonicMap, StepsMap, TemperatureMap


def smoothed_like(inputs, seed=0):
    """Bounds, correctness and clean confidences as a smoothed classifier gives them."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(5, 1.5, inputs)
    lower = np.clip(confidence - 0.25 * rng.random(inputs), 0, 1)
    upper = np.clip(confidence + 0.15 * rng.random(inputs), 0, 1)
    return lower, upper, rng.random(inputs) < confidence, confidence


def mixed(inputs, seed=0):
    """Wide, narrow, point and edge-touching intervals, with gaps of both signs."""
    rng = np.random.default_rng(seed)
    lower, upper = np.sort(rng.random((2, inputs)), axis=0)
    lower[::5] = upper[::5]
    lower[1::7], upper[1::7] = np.floor(lower[1::7] * 15) / 15, np.ceil(upper[1::7] * 15) / 15
    upper[2::11] = 1.0
    return lower, upper, rng.random(inputs) < 0.5, lower + (upper - lower) * rng.random(inputs)


CATALOGUE = {
    "smoothed": smoothed_like(400),
    "mixed": mixed(300),
    "all correct": (np.full(50, 0.3), np.full(50, 0.9), np.ones(50, bool), np.full(50, 0.6)),
    "all wrong": (np.full(50, 0.3), np.full(50, 0.9), np.zeros(50, bool), np.full(50, 0.6)),
    "points": (*(2 * [np.linspace(0, 1, 61)]), np.arange(61) % 3 > 0, np.linspace(0, 1, 61)),
    "free": (np.zeros(40), np.ones(40), np.arange(40) % 4 > 0, np.full(40, 0.7)),
    "one input": (np.array([0.2]), np.array([0.7]), np.array([True]), np.array([0.5])),
}


@st.composite
def edge_lists(draw, most=8):
    """Equal-width or irregular edges, at most `most` bins."""
    if draw(st.booleans()):
        bins = draw(st.integers(1, most))
        return np.arange(bins + 1) / bins
    inner = draw(st.lists(st.floats(0.001, 0.999), max_size=most - 1, unique=True))
    return np.array([0.0, *sorted(inner), 1.0])


@st.composite
def bounded_sets(draw, most_inputs=12, most_bins=8):
    """(lower, upper, correct, edges): intervals that like to touch edges, to be points, and to reach 0 and 1."""
    edges = draw(edge_lists(most_bins))
    value = st.one_of(
        st.floats(0, 1),
        st.sampled_from(edges.tolist()),
        st.sampled_from(np.nextafter(edges, 0.0).tolist()),
    )
    pairs = draw(st.lists(st.tuples(value, value, st.booleans(), st.booleans()), min_size=1, max_size=most_inputs))
    lower = np.array([min(a, b) for a, b, _, _ in pairs])
    upper = np.array([min(a, b) if point else max(a, b) for a, b, point, _ in pairs])
    return lower, upper, np.array([right for *_, right in pairs]), edges


@st.composite
def maps(draw):
    """Recalibration maps of every kind, with knots and values that like to coincide and to reach 0 and 1."""
    kind = draw(st.sampled_from(["isotonic", "beta", "temperature", "steps", "identity"]))
    if kind == "isotonic":
        x = sorted(draw(st.lists(st.one_of(st.floats(0, 1), st.just(0.5)), min_size=1, max_size=8, unique=True)))
        y = sorted(
            draw(
                st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.8, 1.0])), min_size=len(x), max_size=len(x))
            )
        )
        return IsotonicMap(x, y)
    if kind == "steps":
        cuts = sorted(draw(st.lists(st.floats(0, 1, exclude_min=True), max_size=3, unique=True)))
        ends = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.8, 1.0])), min_size=8, max_size=8)
        low, high = np.sort(draw(ends))[: 2 * len(cuts) + 2].reshape(-1, 2).T
        return StepsMap(cuts, low, high)
    if kind == "beta":
        return BetaMap(draw(st.floats(0, 60)), draw(st.floats(0, 60)), draw(st.floats(-60, 60)))
    return TemperatureMap(draw(st.floats(0.02, 50))) if kind == "temperature" else IdentityMap()
