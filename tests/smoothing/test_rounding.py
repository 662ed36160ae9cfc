"""Sums in floating point tell nothing of the input: noise on a grid hides it, and radii allow for the rounding."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from certcal import CertcalError, InputError
from certcal.certificates import certify_radii, confidence_bounds, confidence_bounds_at
from certcal.models import Noise
from certcal.smoothing import EvidenceHeader, collect_evidence, load_evidence, save_evidence
from certcal.smoothing.evidence import grid_reach, noise_slip
from collecting import collect
from low_bits import ReadsCircles, ReadsLowBits, two_inputs
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


def coarse_normals(self, inputs, out, runs):
    """The noise of "philox-1": Box and Muller's formula on 24 to 31 bits, in float32."""
    half = inputs.shape[1:].numel() // 2
    bits = torch.randint(0, 2**31, (2, len(out), half), generator=torch.Generator().manual_seed(int(runs[1, 0]) + 1))
    radius = (bits[0].float() * 2.0**-31 + 2.0**-32).log_().mul_(-2 * (self.sigma / self.step) ** 2).sqrt_()
    angle = bits[1].float() * (2 * math.pi / 2**31)
    noise = torch.cat((angle.cos() * radius, angle.sin() * radius), dim=1).round_().view_as(out)
    torch.add(inputs[int(runs[0, 0])], noise, alpha=self.step, out=out)


@pytest.mark.parametrize("fine", [False, True])
def test_the_pattern_of_the_noise_does_not_tell_the_input(fine, monkeypatch):
    """Radii of pairs of coarse normals lie on circles, which show where the input is: both classes are certified."""
    if not fine:
        monkeypatch.setattr(Noise, "add", coarse_normals)
    apart = 2.0**-14 * math.sqrt(3 * 96 * 96)
    inputs = torch.stack((torch.zeros(3, 96, 96), torch.full((3, 96, 96), 2.0**-14)))
    evidence = collect_evidence(ReadsCircles(0.5), (inputs, [0, 1]), sigma=0.5, n=250, n0=50)
    radii = certify_radii(evidence, alpha=0.001)
    certified = radii.predicted[~radii.abstained].tolist()
    if fine:
        assert len(set(certified)) < 2
    else:
        assert certified == [0, 1]
        assert radii.radius.min() > 2 * apart


def test_evidence_names_its_noise():
    header = collect().header
    assert (header.noise, header.grid, header.elements, header.schema) == ("philox-2", 2.0**-20, 64, 2)
    assert header.reach == pytest.approx(8 * 2.0**-20)
    assert collect(sigma=1.0).header.grid == 2.0**-19


class TestRadii:
    @pytest.fixture
    def pair(self, rng):
        """The same counts under ideal noise and on a grid so coarse that it shows."""
        ideal = random_evidence(rng, inputs=200, draws=2000)
        return ideal, replace(ideal, header=replace(ideal.header, noise="exact", grid=2.0**-8, elements=100))

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


class TestSlip:
    """Noise is drawn by integers, whose law is not quite that of rounded normals: every limit allows for it."""

    @pytest.fixture
    def pair(self, rng):
        ideal = random_evidence(rng, inputs=200, draws=2000)
        return ideal, replace(ideal, header=replace(ideal.header, noise="philox-2", elements=10**9))

    def test_it_is_small(self):
        assert noise_slip(784) < 4e-7
        assert noise_slip(3 * 32 * 32) < 8e-7
        assert noise_slip(3 * 224 * 224) < 8e-6

    @pytest.mark.parametrize("method", ["standard", "standard-bernstein", "cdf", "cdf-cp"])
    def test_limits_at_the_input_are_wider_by_it(self, pair, method):
        ideal, drawn = (confidence_bounds(own, radius=0.0, alpha=0.01, method=method) for own in pair)
        slip = pair[1].header.slip
        assert slip == pytest.approx(1.2e-8 * 10**4.5 + 2e-2)
        wider = np.stack((ideal.lower - drawn.lower, drawn.upper - ideal.upper))
        assert (wider <= slip * (1 + 1e-9)).all()
        least = 1 - 1e-9 if method.startswith("standard") else 0.01  # tails that are 0 or 1 stay it
        assert (wider >= least * slip)[:, ideal.upper < 0.9].all()

    @pytest.mark.parametrize("runner_up", ["complement", "bounded"])
    def test_radii_are_those_of_votes_that_many_fewer(self, pair, runner_up):
        ideal, drawn = (certify_radii(own, alpha=0.01, runner_up=runner_up).radius for own in pair)
        known = ~np.isnan(drawn)
        assert known.any()
        assert (drawn[known] < ideal[known]).all()
        if runner_up == "complement":
            p = stats.norm.cdf(ideal[known] / pair[0].header.sigma) - pair[1].header.slip
            np.testing.assert_allclose(drawn[known], pair[0].header.sigma * stats.norm.ppf(p), rtol=1e-6)

    def test_what_was_drawn_otherwise_is_as_it_was(self, pair):
        old = replace(pair[1], header=replace(pair[1].header, noise="philox-1"))
        assert old.header.slip == pair[0].header.slip == 0
        for ours, theirs in zip(
            *(confidence_bounds_at(own, radii=[0, 0.2], alpha=0.01) for own in (old, pair[0])), strict=True
        ):
            np.testing.assert_array_equal(ours.lower, theirs.lower)


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

    @pytest.mark.parametrize("changes", [{"noise": "philox-9"}, {"grid": 0.0}, {"elements": 0}])
    def test_noise_that_is_not_known_is_refused(self, changes, tmp_path):
        evidence = collect(n=100)
        save_evidence(replace(evidence, header=replace(evidence.header, **changes)), tmp_path / "other.parquet")
        with pytest.raises(CertcalError, match="as this version does not know it"):
            load_evidence(tmp_path / "other.parquet")

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
        assert "noise = philox-2, but it has noise = torch" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert (load_evidence(tmp_path).draws == 100).all()
