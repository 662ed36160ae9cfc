"""Sums in floating point tell nothing of the input: noise on a grid hides it, and radii allow for the rounding."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError
from certcal.certificates import certify_radii, confidence_bounds, confidence_bounds_at
from certcal.models import Noise
from certcal.smoothing import EvidenceHeader, collect_evidence, load_evidence
from certcal.smoothing.evidence import grid_reach
from collecting import collect
from low_bits import ReadsLowBits, two_inputs
from old_runs import write_old_run
from smoothing_oracles import random_evidence

APART = 2.0**-7 * math.sqrt(3072)


def unrounded(self, inputs, out, runs):
    """What earlier versions did."""
    generator = torch.Generator().manual_seed(0)
    out.normal_(0.0, self.sigma, generator=generator).add_(inputs[int(runs[0, 0])])


@pytest.mark.parametrize("rounded", [False, True])
def test_no_two_classes_are_certified_for_one_point(rounded, monkeypatch):
    """Without the grid both balls contain both inputs, and are of different classes."""
    if not rounded:
        monkeypatch.setattr(Noise, "add", unrounded)
    evidence = collect_evidence(ReadsLowBits(), (two_inputs(), [0, 1]), sigma=0.5, n=1000, outputs="probabilities")
    radii = certify_radii(evidence, alpha=0.001)
    assert (radii.radius > 2 * APART).all()
    assert (radii.predicted.tolist() == [1, 1]) is rounded


def test_evidence_names_its_noise():
    header = collect().header
    assert (header.noise, header.grid, header.elements, header.schema) == ("philox-1", 2.0**-20, 64, 2)
    assert header.reach == pytest.approx(8 * 2.0**-20)
    assert collect(sigma=1.0).header.grid == 2.0**-19


class TestRadii:
    @pytest.fixture
    def pair(self, rng):
        """The same counts under ideal noise and on a grid so coarse that it shows."""
        ideal = random_evidence(rng, inputs=200, draws=2000)
        return ideal, replace(ideal, header=replace(ideal.header, noise="philox-1", grid=2.0**-8, elements=100))

    def test_a_certified_radius_is_less_by_the_reach_but_no_less_than_nothing(self, pair):
        ideal, rounded = (certify_radii(own, alpha=0.01).radius for own in pair)
        reach = 10 * 2.0**-8
        np.testing.assert_array_equal(np.isnan(ideal), np.isnan(rounded))
        known = ~np.isnan(ideal)
        np.testing.assert_allclose(rounded[known], np.maximum(ideal[known] - reach, 0), rtol=1e-12, atol=1e-15)
        assert (rounded[known] <= np.maximum(ideal[known] - reach, 0)).all()
        assert (rounded[known] == 0).any()
        assert (rounded[known] > 0).any()

    def test_bounds_are_those_of_a_radius_larger_by_the_reach(self, pair):
        ideal, rounded = pair
        reach = rounded.header.reach
        ours = confidence_bounds(rounded, radius=0.1, alpha=0.01)
        theirs = confidence_bounds(ideal, radius=0.1 + reach, alpha=0.01)
        np.testing.assert_array_equal(ours.lower, theirs.lower)
        np.testing.assert_array_equal(ours.upper, theirs.upper)
        assert (ours.certified <= theirs.certified).all()

    def test_at_radius_0_nothing_is_allowed_for(self, pair):
        """The smoothed model rounds its input itself: what holds there is about that very input."""
        ours, theirs = (confidence_bounds(own, radius=0.0, alpha=0.01) for own in reversed(pair))
        np.testing.assert_array_equal(ours.lower, theirs.lower)
        np.testing.assert_array_equal(ours.upper, theirs.upper)
        np.testing.assert_array_equal(ours.certified, theirs.certified)

    def test_intervals_nest_from_radius_0_on(self, pair):
        bounds = confidence_bounds_at(pair[1], radii=[0.0, 1e-12, 0.01, 0.3], alpha=0.01)
        for inner, outer in pairwise(bounds):
            assert (outer.lower <= inner.lower).all()
            assert (outer.upper >= inner.upper).all()
            assert (outer.certified <= inner.certified).all()


@given(st.integers(1, 10**6), st.integers(-20, -10))
def test_the_reach_errs_high(elements, power):
    step = 2.0**power
    assert grid_reach(elements, step) ** 2 >= elements * step**2
    assert grid_reach(elements, 0.0) == 0.0


class TestOldEvidence:
    def test_is_loaded_and_certified_as_it_was(self, tmp_path):
        write_old_run(tmp_path / "old")
        evidence = load_evidence(tmp_path / "old")
        assert (evidence.header.schema, evidence.header.noise, evidence.header.reach) == (1, "torch", 0.0)
        assert (evidence.score_rounding == 2 * 2.0**-40).all()  # two chunks
        assert confidence_bounds(evidence, radius=0.1, alpha=0.01).radius == 0.1

    def test_is_not_drawn_on(self, tmp_path, monkeypatch):
        old = {"noise": "torch", "grid": 0.0, "elements": 0, "schema": 1}
        with monkeypatch.context() as earlier:
            earlier.setattr(
                "certcal.smoothing.collect.EvidenceHeader", lambda **fields: EvidenceHeader(**(fields | old))
            )
            collect(n=100, store=tmp_path)
        with pytest.raises(InputError) as caught:
            collect(store=tmp_path)
        assert str(caught.value).endswith("Draw into a new folder, or evaluate what is there.")
        assert "noise = philox-1, but it has noise = torch" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert (load_evidence(tmp_path).draws == 100).all()
