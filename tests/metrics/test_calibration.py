"""Calibration errors against their definition and against other libraries, edge cases stated."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certcal import adaptive_calibration_error, expected_calibration_error
from certcal.metrics import differentiable_calibration_error, equal_count_edges
from oracles import plain_ece
from problems import edge_lists


def test_a_negative_zero_is_a_zero():
    assert expected_calibration_error([-0.0, 1.0, 0.5], [1, 1, 0]) == expected_calibration_error([0, 1, 0.5], [1, 1, 0])


@pytest.mark.parametrize("kind", ["?", "i1", "u8", "i8", "f4", "f8"])
def test_any_numbers_may_say_what_is_correct(kind):
    confidence, correct = predictions("saturated")
    assert expected_calibration_error(confidence, correct.astype(kind)) == expected_calibration_error(
        confidence, correct
    )


def predictions(kind, inputs=5000, seed=1):
    """Confidences with gaps of both signs: with one sign, every binning would give the same error."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(inputs)
    if kind == "saturated":
        confidence[rng.random(inputs) < 0.4] = 1.0
    if kind == "two decimals":
        confidence = confidence.round(2)
    if kind == "zeros":
        confidence[::3] = 0.0
    truth = np.where(confidence < 0.5, confidence**0.5, confidence**3)
    return confidence, rng.random(inputs) < truth


def off_the_edges(kind):
    """Linspace edges differ between libraries in the last bit, so no confidence but 0 and 1 may sit on one."""
    confidence, correct = predictions(kind)
    inner = (confidence > 0) & (confidence < 1)
    return np.where(inner, np.minimum(confidence + 1e-6, 1 - 1e-9), confidence), correct


KINDS = ["plain", "saturated", "two decimals", "zeros"]


@given(st.data(), edge_lists())
def test_ece_is_its_definition(data, edges):
    values = st.one_of(st.floats(0, 1), st.sampled_from(edges.tolist()))
    pairs = data.draw(st.lists(st.tuples(values, st.booleans()), min_size=1, max_size=30))
    confidence, correct = map(np.array, zip(*pairs, strict=True))
    assert expected_calibration_error(confidence, correct, edges=edges) == pytest.approx(
        plain_ece(confidence, correct, edges), abs=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_bins", [1, 10, 15])
class TestAgainstOtherLibraries:
    """They are imported by the tests: that takes seconds of every process that collects them."""

    def test_netcal_has_the_papers_rule(self, kind, n_bins):
        import netcal.metrics

        confidence, correct = off_the_edges(kind)
        theirs = netcal.metrics.ECE(n_bins).measure(confidence, correct.astype(int))
        assert expected_calibration_error(confidence, correct, n_bins=n_bins) == pytest.approx(theirs, abs=1e-10)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_torchmetrics_mode(self, kind, n_bins, dtype):
        from torchmetrics.functional.classification import binary_calibration_error

        confidence, correct = predictions(kind)
        z, c = torch.tensor(confidence, dtype=dtype), torch.tensor(correct).long()
        theirs = binary_calibration_error(z, c, n_bins=n_bins).item()
        ours = expected_calibration_error(z, c, n_bins=n_bins, rule="torchmetrics")
        assert ours == pytest.approx(theirs, abs=1e-5 if dtype == torch.float32 else 1e-10)

    def test_torchmetrics_mode_on_every_edge(self, kind, n_bins):
        """Confidences on the library's own edges, which differ between precisions."""
        from torchmetrics.functional.classification import binary_calibration_error

        for dtype in (torch.float32, torch.float64):
            for bins in (n_bins, 20, 50, 100):
                z = torch.linspace(0, 1, bins + 1, dtype=dtype)
                c = torch.arange(bins + 1) % 2
                theirs = binary_calibration_error(z, c, n_bins=bins).item()
                ours = expected_calibration_error(z, c, n_bins=bins, rule="torchmetrics")
                assert ours == pytest.approx(theirs, abs=1e-5)

    def test_relplot_gives_one_its_own_bin_too(self, kind, n_bins):
        import relplot

        confidence, correct = off_the_edges(kind)
        theirs = relplot.metrics.binnedECE(confidence, correct.astype(int), nbins=n_bins)
        ours = expected_calibration_error(confidence, correct, n_bins=n_bins, rule="torchmetrics")
        assert ours == pytest.approx(theirs, abs=1e-10)

    def test_guo_mode(self, kind, n_bins):
        confidence, correct = predictions(kind)
        z, c = torch.tensor(confidence).float(), torch.tensor(correct)
        edges = torch.linspace(0, 1, n_bins + 1)
        theirs = 0.0
        for low, high in pairwise(edges):
            inside = z.gt(low.item()) * z.le(high.item())
            if inside.any():
                gap = c[inside].float().mean() - z[inside].mean()
                theirs += float(gap.abs() * inside.float().mean())
        assert expected_calibration_error(z, c, n_bins=n_bins, rule="guo") == pytest.approx(theirs, abs=1e-5)

    def test_scikit_learn_closes_bins_on_the_right(self, kind, n_bins):
        from sklearn.calibration import calibration_curve

        confidence, correct = off_the_edges(kind)
        if kind == "zeros":
            confidence = np.maximum(confidence, 1e-9)
        accuracy, mean = calibration_curve(correct.astype(int), confidence, n_bins=n_bins)
        counts = np.histogram(confidence, np.arange(n_bins + 1) / n_bins)[0]
        theirs = np.sum(counts[counts > 0] * np.abs(accuracy - mean)) / len(confidence)
        assert expected_calibration_error(confidence, correct, n_bins=n_bins) == pytest.approx(theirs, abs=1e-10)


def test_modes_differ_where_they_should():
    """z = 1 in its own bin, and z = 0 in none, change the error when gaps have both signs."""
    saturated, right = [1.0, 0.95, 0.95], [0, 1, 1]
    assert expected_calibration_error(saturated, right, n_bins=10) == pytest.approx(0.3)
    assert expected_calibration_error(saturated, right, n_bins=10, rule="torchmetrics") == pytest.approx(1.1 / 3)
    zero, right = [0.0, 0.05], [1, 0]
    assert expected_calibration_error(zero, right, n_bins=10) == pytest.approx(0.475)
    assert expected_calibration_error(zero, right, n_bins=10, rule="guo") == pytest.approx(0.025)


def test_lists_arrays_and_tensors_agree(rng):
    confidence, correct = predictions("plain", 100)
    expected = expected_calibration_error(confidence, correct)
    assert type(expected) is float
    for z, c in [
        (confidence.tolist(), correct.tolist()),
        (torch.tensor(confidence, requires_grad=True), torch.tensor(correct)),
        (confidence, correct.astype(float)),
        (confidence[::1], correct.astype(np.int8)),
    ]:
        assert expected_calibration_error(z, c) == expected
    half = torch.tensor(confidence).bfloat16()
    assert expected_calibration_error(half, correct) == expected_calibration_error(half.double(), correct)


class TestAdaptive:
    @given(st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.3001, 0.9, 1.0]), st.booleans()), min_size=1, max_size=40))
    def test_order_is_irrelevant(self, pairs):
        confidence, correct = map(np.array, zip(*pairs, strict=True))
        order = np.random.default_rng(0).permutation(len(pairs))
        assert adaptive_calibration_error(confidence, correct, n_bins=4) == pytest.approx(
            adaptive_calibration_error(confidence[order], correct[order], n_bins=4), abs=1e-15
        )

    def test_distinct_confidences_are_split_into_equal_counts(self):
        confidence, correct = predictions("plain", 1500)
        order = np.argsort(confidence)
        parts = np.split(correct[order] - confidence[order], 15)
        expected = sum(abs(part.sum()) for part in parts) / 1500
        assert adaptive_calibration_error(confidence, correct) == pytest.approx(expected, abs=1e-12)

    def test_saturated_and_tiny_sets_are_defined(self):
        assert adaptive_calibration_error(np.ones(100), np.arange(100) < 80) == pytest.approx(0.2)
        assert adaptive_calibration_error([0.7], [1]) == pytest.approx(0.3)
        assert adaptive_calibration_error([0.7, 0.4], [1, 1], n_bins=15) == pytest.approx(0.45)

    def test_frozen_edges_reproduce_it(self):
        confidence, correct = predictions("saturated", 700)
        frozen = expected_calibration_error(confidence, correct, edges=equal_count_edges(confidence, n_bins=12))
        assert frozen == adaptive_calibration_error(confidence, correct, n_bins=12)


class TestDifferentiable:
    @pytest.mark.parametrize("edges", [None, [0.0, 0.1, 0.55, 0.8, 1.0]])
    def test_tends_to_the_ece(self, edges):
        confidence, correct = predictions("plain", 2000)
        hard = expected_calibration_error(confidence, correct, edges=edges)
        errors = [
            abs(differentiable_calibration_error(confidence, correct, edges=edges, temperature=t) - hard)
            for t in (1e-2, 1e-4, 1e-7)
        ]
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 1e-5

    def test_gradients_flow_and_match_finite_differences(self):
        z = torch.tensor([0.31, 0.52, 0.68, 0.9], dtype=torch.float64, requires_grad=True)
        c = torch.tensor([1, 0, 1, 0])
        assert torch.autograd.gradcheck(
            lambda x: differentiable_calibration_error(x, c, n_bins=5, temperature=0.05), [z]
        )
