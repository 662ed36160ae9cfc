"""Certificates of softmax networks against exact arithmetic, closed forms and search inside the ball."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certcal import InputError, certified_calibration_error
from certcal.certificates import intervals_from_lipschitz, intervals_from_logits, intervals_from_margins
from certcal.certificates.margins import _softmax

MARGINS = st.floats(-900, 900) | st.floats(-1e-3, 1e-3) | st.sampled_from([-np.inf, np.inf, 0.0, 745.2, -745.2])


def exact_share(margins):
    """1 / (1 + Σ e^(−m)) with 400 digits and no limit of size."""
    with mpmath.workdps(400):
        return 1 / (1 + mpmath.fsum(mpmath.exp(-mpmath.mpf(float(m))) for m in margins))


def ball(rng, center, radius, norm, tries):
    """Points of a ball, many of them on its border."""
    moved = rng.standard_normal((tries, len(center)))
    if norm == "linf":
        moved = np.where(rng.random((tries, 1)) < 0.5, np.sign(moved), rng.uniform(-1, 1, moved.shape))
    else:
        moved *= rng.choice([1.0, 0.7], (tries, 1)) / np.linalg.norm(moved, axis=1, keepdims=True)
    return center + radius * (1 - 1e-12) * moved


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


@settings(max_examples=60)
@given(st.lists(st.tuples(MARGINS, MARGINS), min_size=1, max_size=5), st.integers(0, 5))
def test_bounds_contain_the_exact_softmax_and_are_close_to_it(pairs, place):
    low, high = [min(pair) for pair in pairs], [max(*pair, 0.0) for pair in pairs]  # A leads at the input itself
    own = min(place, len(pairs))
    table = [np.insert(np.array(side), own, 0.0) for side in (low, high)]
    made = intervals_from_margins([table[0]], [table[1]], labels=[0], predicted=[own])
    for found, side, below in ((made.lower[0], low, True), (made.upper[0], high, False)):
        exact = exact_share(side)
        assert (mpmath.mpf(float(found)) <= exact) if below else (mpmath.mpf(float(found)) >= exact)
        assert abs(mpmath.mpf(float(found)) - exact) <= 1e-14 * exact + 1e-307
    assert made.certified[0] == (min(low) > 0)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_point_of_the_ball_leaves_the_interval_of_a_linear_network(rng, norm):
    """Margins of a linear network have a closed form: m ± R ‖w_A − w_j‖ in the dual norm."""
    weight, bias, radius = rng.standard_normal((4, 6)), rng.standard_normal(4), 0.3
    x = rng.standard_normal((20, 6))
    logits = x @ weight.T + bias
    own = logits.argmax(axis=1)
    reach = radius * np.linalg.norm(weight[own][:, None] - weight[None], ord=1 if norm == "linf" else 2, axis=2)
    margins = logits[np.arange(20), own][:, None] - logits
    made = intervals_from_margins(margins - reach, margins + reach, labels=own, predicted=own, radius=radius, norm=norm)
    assert made.certified.any()
    assert not made.certified.all()
    for n in range(20):
        seen = softmax(ball(rng, x[n], radius, norm, 2000) @ weight.T + bias)
        assert made.lower[n] <= seen[:, own[n]].min()
        assert seen[:, own[n]].max() <= made.upper[n]
        if made.certified[n]:
            assert (seen.argmax(axis=1) == own[n]).all()


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_margins_are_never_wider_than_the_box_of_logits(seed):
    """Any margins inside what the box of logits allows, as a verifier gives them for z_A − z_j itself."""
    rng = np.random.default_rng(seed)
    middle, half = rng.standard_normal((30, 4)) * 3, rng.random((30, 4)) * 2
    low, high, own, labels = middle - half, middle + half, middle.argmax(axis=1), rng.integers(0, 4, 30)
    rows = np.arange(30)[:, None]
    least, most = low[rows, own[:, None]] - high, high[rows, own[:, None]] - low
    cut = rng.random((30, 4)) * 0.5
    width = most - least
    inner = intervals_from_margins(least + cut * width, most - cut * width, labels=labels, predicted=own)
    outer = intervals_from_logits(low, high, labels=labels, predicted=own)
    assert (inner.lower >= outer.lower).all()
    assert (inner.upper <= outer.upper).all()
    assert (inner.certified | ~outer.certified).all()
    together = {name: getattr(inner, name)[outer.certified] for name in ("lower", "upper", "correct")}
    if outer.certified.any():
        assert certified_calibration_error(**together).value <= certified_calibration_error(outer).value + 1e-12


def test_an_unbounded_logit_says_nothing():
    made = intervals_from_logits([[0.0, -np.inf]], [[np.inf, np.inf]], labels=[0], predicted=[0])
    assert (made.lower[0], made.upper[0], made.certified[0]) == (0.0, 1.0, False)


@pytest.mark.parametrize(("last_layer", "factor"), [("global", np.sqrt(2)), ("classwise", 2.0)])
def test_lipschitz_bounds_are_attained_and_never_left(rng, last_layer, factor):
    """Two classes: an orthogonal map moves the margin by √2 L R, and opposite rows of length L by 2 L R."""
    constant, radius, temperature = 1.7, 0.4, 0.8
    rows = np.array([[1.0, 0.0], [0.0, 1.0]]) if last_layer == "global" else np.array([[1.0, 0.0], [-1.0, 0.0]])
    weight = constant * rows
    x = rng.standard_normal((40, 2)) * 2
    logits = x @ weight.T
    made = intervals_from_lipschitz(
        logits, np.zeros(40, int), constant=constant, radius=radius, last_layer=last_layer, temperature=temperature
    )
    away = weight[made.predicted] - weight[1 - made.predicted]
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    for sign, side in ((-1, made.lower), (1, made.upper)):
        seen = softmax((x + sign * radius * away) @ weight.T / temperature)[np.arange(40), made.predicted]
        np.testing.assert_allclose(seen, side, rtol=1e-12)
    for n in range(40):
        moved = ball(rng, x[n], radius, "l2", 1000)
        seen = softmax(moved @ weight.T / temperature)[:, made.predicted[n]]
        assert made.lower[n] <= seen.min()
        assert seen.max() <= made.upper[n]
    margin = np.abs(logits[:, 0] - logits[:, 1])
    np.testing.assert_allclose(made.certified_radius, margin / (factor * constant), rtol=1e-12)
    assert (made.certified_radius < margin / (factor * constant)).all()
    assert (made.certified == (made.certified_radius >= radius)).all()


def test_what_the_network_rounds_is_taken_off_every_margin(rng):
    """A margin that is off by ρ lies in the bounds of the exact one, widened by ρ, and reaches ρ / (√2 L) less far."""
    logits, off = rng.standard_normal((30, 3)), rng.random(30) * 0.1
    options = {"labels": np.zeros(30, int), "constant": 2.0, "radius": 0.1, "temperature": 0.7}
    exact, widened = (intervals_from_lipschitz(logits, rounding=own, **options) for own in (0.0, off))
    np.testing.assert_allclose(
        np.nan_to_num(widened.certified_radius),
        np.maximum(exact.certified_radius - off / (np.sqrt(2) * 2.0), 0),
        atol=1e-12,
    )
    own = exact.predicted
    margins = logits[np.arange(30), own][:, None] - logits
    for sign, side in ((-1, widened.lower), (1, widened.upper)):
        moved = margins + sign * (np.sqrt(2) * 2.0 * 0.1 + off[:, None])
        moved[np.arange(30), own] = np.inf
        np.testing.assert_allclose(side, 1 / (1 + np.exp(-moved / 0.7).sum(axis=1)), rtol=1e-12)
    with pytest.raises(InputError, match="Expected `rounding` to be a finite number ≥ 0, or one for each of 30 inputs"):
        intervals_from_lipschitz(logits, rounding=-1.0, **options)


def test_lipschitz_reads_the_temperature_but_radii_do_not_depend_on_it():
    cold, warm = (
        intervals_from_lipschitz([[2.0, 1.0, 0.0]], [0], constant=1, radius=0.3, temperature=t) for t in (0.5, 2.0)
    )
    assert cold.certified_radius == warm.certified_radius
    assert cold.upper - cold.lower != warm.upper - warm.lower


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lower": [[0.0, 2.0]]}, "Expected `lower` to be at most `upper`, but got 2.0 > 1.0 in row 0, class 1."),
        ({"lower": [[0.0, np.nan]]}, "Expected `lower` to be numbers, but got NaN in row 0."),
        ({"lower": [[0.0]]}, "Expected `lower` to have shape (inputs, classes ≥ 2), but got shape (1, 1)."),
        ({"upper": [[0.0, 1.0, 1.0]]}, "Expected `upper` to have the shape of `lower`, (1, 2), but got (1, 3)."),
        ({"labels": [2]}, "Expected `labels` to be whole numbers from 0 to 1, but got 2 at index 0."),
        ({"predicted": [0, 1]}, "Expected `predicted` to have an entry for each of 1 inputs, but got 2."),
        ({"alpha": 1.0}, "Expected `alpha` to lie in [0, 1); 0 if the bounds are proven, but got 1.0."),
        ({"radius": -1.0}, "Expected `radius` to be finite and ≥ 0, but got -1.0."),
        (
            {"lower": [[1.0, 0.0]], "upper": [[2.0, 1.0]]},
            "Expected `lower and upper` to hold 0 at the predicted class itself, 0, but got [1, 2] in row 0 (are these "
            "margins of the label, or of all classes but one?).",
        ),
        (
            {"lower": [[0.0, -2.0]], "upper": [[0.0, -1.0]]},
            "Expected `upper` to be ≥ 0, as the predicted class leads at the input itself, but got -1 in row 0, class "
            "1, which then is ahead everywhere (is it z_j − z_A?).",
        ),
        (
            {"norm": "L2"},
            "Expected `norm` to be one of 'l2', 'linf', 'l1', 'patch', 'declared', but got 'L2' (did you mean 'l2'?).",
        ),
        ({"norm": "l3"}, "Expected `norm` to be one of 'l2', 'linf', 'l1', 'patch', 'declared', but got 'l3'."),
        (
            {"confidence": [0.2]},
            "Expected `confidence` to lie between its bounds, but got 0.2, which is not in "
            "[0.5, 0.731059], at index 0.",
        ),
    ],
)
def test_wrong_margins_get_one_line(change, told):
    right = {"lower": [[0.0, 0.0]], "upper": [[0.0, 1.0]], "labels": [0], "predicted": [0]}
    with pytest.raises(InputError) as caught:
        intervals_from_margins(**right | change)
    assert str(caught.value) == told


@pytest.mark.parametrize("margin", [-700.0, -709.9, -720.0, -744.0, -800.0])
def test_shares_too_small_for_floats_stay_between_their_bounds(margin):
    lower, upper = (_softmax(np.array([[np.inf, margin]]), up=up)[0] for up in (False, True))
    assert mpmath.mpf(float(lower)) <= exact_share([margin]) <= mpmath.mpf(float(upper))
    assert upper < 1e-300


def test_an_input_that_is_named_twice_is_refused():
    sides = [[0.0, 1.0]] * 2
    with pytest.raises(InputError, match="Expected `index` to name each input once, but got 4 2 times"):
        intervals_from_margins(sides, sides, labels=[0, 0], predicted=[0, 0], index=[4, 4], alpha=0.01)


@pytest.mark.parametrize(
    ("logits", "options"),
    [
        ([[1.0, 0.0]], {"constant": 1e308, "radius": 0.0}),
        ([[1.0, 0.0]], {"constant": 1e308, "radius": 1e308}),
        ([[1.0, 0.0]], {"temperature": 1e-320}),
        ([[1e299, 0.0]], {"temperature": 1e-10}),
    ],
)
def test_no_size_of_logits_gives_something_that_is_no_number(logits, options):
    made = intervals_from_lipschitz(logits, [0], **({"constant": 1.0, "radius": 0.5} | options))
    assert 0 <= made.lower[0] <= made.confidence[0] <= made.upper[0] <= 1


def test_logits_whose_differences_are_infinite_are_refused():
    with pytest.raises(InputError, match="Expected `logits` to be finite, within ±1e300, but got 1e"):
        intervals_from_lipschitz([[1e308, -1e308]], [0], constant=1.0, radius=0.5)


def test_probabilities_are_not_taken_for_logits(rng):
    shares = softmax(rng.standard_normal((5, 3)))
    told = "to be logits, but got numbers in \\[0, 1\\] that sum to 1 in every row: probabilities"
    with pytest.raises(InputError, match=f"Expected `logits` {told}"):
        intervals_from_lipschitz(shares, [0] * 5, constant=1.0, radius=0.1)
    own = shares.argmax(axis=1)
    with pytest.raises(InputError, match=f"Expected `lower and upper` {told}"):
        intervals_from_logits(shares * 0.9, np.minimum(shares * 1.1, 1), labels=own, predicted=own)
    assert intervals_from_lipschitz(shares * 1.01, [0] * 5, constant=1.0, radius=0.1).certified.any()
    assert intervals_from_lipschitz([[1.0, 0.0], [0.0, 1.0]], [0, 1], constant=1.0, radius=0.1).certified.all()


def test_another_class_has_no_more_than_the_predicted_one_leaves(rng):
    """Softmax networks and votes: where A gives way, the confidence of its successor is known to be small."""
    low, own = rng.normal(0, 1, (50, 4)), rng.integers(0, 4, 50)
    high = np.maximum(low + rng.uniform(0, 2, (50, 4)), 0.0)
    low[np.arange(50), own] = high[np.arange(50), own] = 0
    made = intervals_from_margins(low, high, labels=own, predicted=own)
    assert (made.other >= 1 - made.lower).all()
    assert (made.other <= 1 - made.lower + 2e-6).all()
    for _ in range(200):  # margins within the box, and the largest probability of another class
        margins = rng.uniform(low, high)
        margins[np.arange(50), own] = 0
        shares = np.exp(-margins) / np.exp(-margins).sum(axis=1, keepdims=True)
        shares[np.arange(50), own] = 0
        assert (shares.max(axis=1) <= made.other).all()
