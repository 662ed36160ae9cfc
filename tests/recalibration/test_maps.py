"""Recalibration maps keep order, contain what they map, change no prediction, and come back from disk as they went."""

import dataclasses
import json
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError, certified_calibration_error
from certcal.evaluation import sample_of
from certcal.recalibration import (
    BetaMap,
    IdentityMap,
    IsotonicMap,
    TemperatureMap,
    load_map,
    recalibrate_bounds,
    save_map,
)
from certcal.recalibration.maps import CLAMP
from laws import examples
from problems import maps

UNIT = st.floats(0, 1)


class TestMaps:
    @examples(400)
    @given(maps(), UNIT, UNIT, UNIT)
    def test_bounds_contain_every_mapped_confidence(self, g, a, b, c):
        low, z, high = sorted([a, b, c])
        lower, upper = g.bounds([low], [high])
        value = g.transform([z])
        assert 0 <= lower[0] <= value[0] <= upper[0] <= 1

    @examples(200)
    @given(maps(), UNIT)
    def test_order_is_kept_between_neighbouring_floats(self, g, z):
        close = np.array([np.nextafter(z, 0), z, min(np.nextafter(z, 1), 1.0)])
        lower, upper = g.bounds(close, close)
        assert (lower[:-1] <= upper[1:]).all()
        steps = np.diff(g.transform(close))
        assert steps.min() >= (0 if isinstance(g, IsotonicMap | IdentityMap) else -1e-12)

    @examples(100)
    @given(st.lists(UNIT, min_size=2, max_size=6, unique=True), st.lists(UNIT, min_size=6, max_size=6), UNIT)
    def test_isotonic_bounds_hold_in_exact_arithmetic(self, x, y, z):
        x, y = sorted(x), sorted(y)[: len(x)]
        exact_x, exact_y, point = [Fraction(v) for v in x], [Fraction(v) for v in y], Fraction(z)
        k = max((i for i, v in enumerate(exact_x) if v <= point), default=None)
        if k is None:
            truth = exact_y[0]
        elif k == len(x) - 1:
            truth = exact_y[-1]
        else:
            truth = exact_y[k] + (exact_y[k + 1] - exact_y[k]) * (point - exact_x[k]) / (exact_x[k + 1] - exact_x[k])
        lower, upper = IsotonicMap(x, y).bounds([z], [z])
        assert Fraction(lower[0]) <= truth <= Fraction(upper[0])
        assert upper[0] - lower[0] < 1e-14

    @pytest.mark.slow
    def test_isotonic_bounds_hold_on_many_random_lines(self, rng):
        """The error of a straight line between two knots is above 2⁻⁵³ only once in thousands of cases."""
        for _ in range(20):
            x, y = np.sort(rng.random(2)), np.sort(rng.random(2))
            z = x[0] + (x[1] - x[0]) * rng.random(2000)
            z = z[(z > x[0]) & (z < x[1])]
            lower, upper = IsotonicMap(x, y).bounds(z, z)
            (a, b), (c, d) = map(Fraction, x), map(Fraction, y)
            for point, low, high in zip(z, lower, upper, strict=True):
                truth = c + (d - c) * (Fraction(point) - a) / (b - a)
                assert Fraction(low) <= truth <= Fraction(high)

    @examples(100)
    @given(st.floats(0, 60), st.floats(0, 60), st.floats(-60, 60), UNIT)
    def test_beta_bounds_hold_to_many_digits(self, a, b, c, z):
        with mp.workdps(40):
            kept = mp.mpf(min(max(z, CLAMP), 1 - CLAMP))
            odds = mp.mpf(a) * mp.log(kept) - mp.mpf(b) * mp.log(1 - kept) + mp.mpf(c)
            truth = 1 / (1 + mp.exp(-odds))
            lower, upper = BetaMap(a, b, c).bounds([z], [z])
            assert mp.mpf(lower[0]) <= truth <= mp.mpf(upper[0])

    def test_a_flat_part_is_mapped_exactly(self):
        """One ulp would put it across the edge of a bin, where an adversary could split right from wrong."""
        g = IsotonicMap([0.2, 0.9], [0.8, 0.8])
        assert [side.tolist() for side in g.bounds([0.0, 0.3], [0.5, 1.0])] == [[0.8, 0.8], [0.8, 0.8]]
        correct = np.arange(100) % 5 > 0
        value = certified_calibration_error(*g.bounds(np.full(100, 0.3), np.full(100, 0.7)), correct).value
        assert value < 1e-9

    def test_temperature_is_a_beta_map(self):
        z = np.linspace(0, 1, 50)
        np.testing.assert_allclose(TemperatureMap(2.5).transform(z), BetaMap(0.4, 0.4, 0.0).transform(z))

    def test_intervals_keep_predictions_and_certificates(self, bounds):
        g = recalibrate_bounds(bounds)
        for own in bounds:
            mapped = g.intervals(own)
            for name in ("predicted", "correct", "certified", "certified_radius"):
                assert getattr(mapped, name) is getattr(own, name)
            assert (mapped.radius, mapped.alpha, mapped.method, mapped.split_alpha) == (
                own.radius,
                0.01,
                own.method,
                True,
            )
            assert (mapped.lower <= mapped.confidence).all()
            assert (mapped.confidence <= mapped.upper).all()

    def test_select_takes_all_arrays(self, bounds):
        part = bounds[1].select(np.array([5, 2]))
        assert len(part) == 2
        for name in ("lower", "upper", "confidence", "predicted", "correct", "certified", "certified_radius"):
            np.testing.assert_array_equal(getattr(part, name), getattr(bounds[1], name)[[5, 2]])


class TestStorage:
    @examples(60)
    @given(maps())
    def test_loads_what_was_saved_to_the_last_bit(self, tmp_path_factory, g):
        path = tmp_path_factory.mktemp("map") / "g.json"
        save_map(dataclasses.replace(g, about={"radii": [0.5]}), path)
        loaded = load_map(path)
        assert type(loaded) is type(g)
        assert loaded.parameters() == g.parameters()
        assert loaded.about == {"radii": [0.5]}

    def test_fitted_maps_say_how(self, bounds, tmp_path):
        save_map(recalibrate_bounds(bounds, clean_weight=0.25), tmp_path / "g.json")
        about = json.loads((tmp_path / "g.json").read_text())["about"]
        certified = [int(b.certified.sum()) for b in bounds]
        assert about == {
            "objective": "brier",
            "certified": certified,
            "wrong": [int((own.certified & ~own.correct).sum()) for own in bounds],
            "clean_weight": 0.25,
            "radii": [0.0, 0.1, 0.3],
            "weights": [1 / 3] * 3,
            **bounds[0].origin,
            **sample_of(bounds[0]),
        }

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "be a readable JSON file"),
            ("[1]", "hold a certcal recalibration map"),
            ('{"format": "something"}', "hold a certcal recalibration map"),
            (
                '{"format": "certcal recalibration map", "version": 2, "kind": "beta"}',
                "hold version 1 of one of identity",
            ),
            (
                '{"format": "certcal recalibration map", "version": 1, "kind": "magic"}',
                "hold version 1 of one of identity",
            ),
            (
                '{"format": "certcal recalibration map", "version": 1, "kind": "beta", "a": 1, "q": 2}',
                "hold the numbers of a map of kind 'beta'",
            ),
            (
                '{"format": "certcal recalibration map", "version": 1, "kind": "isotonic", "x": [1, 0], "y": [0, 1]}',
                "rise from knot to knot",
            ),
            (
                '{"format": "certcal recalibration map", "version": 1, "kind": "temperature", "temperature": -1}',
                "Expected `temperature` to lie in",
            ),
        ],
    )
    def test_refuses_what_is_no_map(self, tmp_path, text, message):
        (tmp_path / "g.json").write_text(text)
        with pytest.raises(InputError, match=message.replace("[", r"\[")) as caught:
            load_map(tmp_path / "g.json")
        assert "\n" not in str(caught.value)

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(InputError, match=r"nothing\.json"):
            load_map(tmp_path / "nothing.json")


def test_a_map_cannot_be_made_to_fall_later():
    x, y = np.array([0.2, 0.6]), np.array([0.1, 0.5])
    own = IsotonicMap(x, y)
    y[1] = 0.0
    assert own.y.tolist() == [0.1, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        own.y[1] = 0.0


@pytest.mark.parametrize("text", ['{"format": "certcal recalibration map", "version": 1, "kind": []}', "[" * 100_000])
def test_strange_files_are_no_maps(tmp_path, text):
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(InputError, match="Expected `path` to"):
        load_map(tmp_path / "map.json")


@pytest.mark.parametrize("about", [{"x": float("nan")}, {"x": {1, 2}}])
def test_what_json_cannot_hold_is_said(tmp_path, about):
    with pytest.raises(InputError, match="Expected `recalibration` to have an `about` of plain, finite data"):
        save_map(IdentityMap(about=about), tmp_path / "map.json")


def test_a_map_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(InputError, match="Expected `path` to be a file that can be written"):
        save_map(IdentityMap(), tmp_path / "no" / "map.json")
