"""Metric objects: equal to the functions over batches, after reset, in collections and across processes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing
from torchmetrics import MetricCollection

import certcal
from certcal import InputError, certified_brier_score, certified_calibration_error, expected_calibration_error
from certcal.integrations.torchmetrics import (
    CertifiedBrierScore,
    CertifiedCalibrationError,
    CertifiedOperatingPoint,
    CertifiedOverconfidence,
    CertifiedUnderconfidence,
    ExpectedCalibrationError,
)
from certcal.worstcase import certified_overconfidence, certified_underconfidence
from problems import CATALOGUE, smoothed_like

LOWER, UPPER, CORRECT, CLEAN = (torch.tensor(part) for part in smoothed_like(500))
CASES = {
    "ece": (ExpectedCalibrationError, (CLEAN, CORRECT), expected_calibration_error),
    "brier": (CertifiedBrierScore, (LOWER, UPPER, CORRECT), lambda *a: certified_brier_score(*a).value),
    "cce": (CertifiedCalibrationError, (LOWER, UPPER, CORRECT), lambda *a: certified_calibration_error(*a).value),
}


@pytest.mark.parametrize("case", CASES)
def test_batches_add_up_to_the_function(case):
    make, data, function = CASES[case]
    metric = make()
    for start in range(0, 500, 70):
        metric.update(*(part[start : start + 70] for part in data))
    assert metric.compute().dtype == torch.float64
    assert metric.compute().item() == pytest.approx(function(*data), abs=1e-12)
    metric.reset()
    with pytest.warns(UserWarning, match="before the ``update``"):
        assert torch.isnan(metric.compute())
    metric.update(*(part[:100] for part in data))
    assert metric.compute().item() == pytest.approx(function(*(part[:100] for part in data)), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_forward_gives_the_batch_and_keeps_the_total(case):
    make, data, function = CASES[case]
    metric = make()
    first = [part[:200] for part in data]
    assert metric(*first).item() == pytest.approx(function(*first), abs=1e-12)
    metric(*(part[200:] for part in data))
    assert metric.compute().item() == pytest.approx(function(*data), abs=1e-12)


def test_certified_values_never_fall_below_the_functions_witness():
    for lower, upper, correct, _ in CATALOGUE.values():
        metric = CertifiedCalibrationError()
        metric.update(lower, upper, correct)
        witness = certified_calibration_error(lower, upper, correct).confidence
        assert metric.compute().item() >= expected_calibration_error(witness, correct)


def test_certified_brier_metric_is_rounded_up():
    """Losses of 0.1² that each round down when added one by one: the metric may not end below their true sum."""
    from fractions import Fraction

    metric = CertifiedBrierScore()
    for _ in range(300):
        metric.update([0.9], [1.0], [1])
    exact = Fraction(1 - 0.9) ** 2
    assert Fraction(metric.compute().item()) >= exact


def test_uncertified_inputs_are_counted():
    metric = CertifiedCalibrationError()
    metric.update(LOWER, UPPER, CORRECT, uncertified=20)
    metric.update([], [], [], uncertified=5)
    expected = certified_calibration_error(LOWER, UPPER, CORRECT, uncertified=25).value
    assert metric.compute().item() == pytest.approx(expected, abs=1e-12)


def test_options_and_states_survive_casting_saving_and_collections():
    collection = MetricCollection([CertifiedCalibrationError(edges=[0, 0.5, 0.9, 1]), CertifiedBrierScore()])
    collection.update(LOWER, UPPER, CORRECT)
    values = collection.half().compute()
    expected = certified_calibration_error(LOWER, UPPER, CORRECT, edges=[0, 0.5, 0.9, 1]).value
    assert values["CertifiedCalibrationError"].item() == pytest.approx(expected, abs=1e-12)
    restored = ExpectedCalibrationError(n_bins=5)
    original = ExpectedCalibrationError(n_bins=5)
    for metric in (restored, original):
        metric.persistent(True)
    original.update(CLEAN, CORRECT)
    restored.load_state_dict(original.state_dict())
    assert torch.equal(restored.sums, original.sums)


@pytest.mark.parametrize("case", CASES)
def test_plot_draws_the_diagram(case):
    make, data, _ = CASES[case]
    metric = make()
    metric.update(*data)
    figure, axes = metric.plot()
    value = metric.compute().item()
    assert f"{value:.3f}" in axes.get_title() or f"{value:.1%}" in axes.get_title()
    assert metric.plot(ax=axes) == metric.plot(metric.compute(), axes) == (figure, axes)
    plt.close(figure)


def test_collections_plot_too_and_empty_metrics_say_why_not():
    collection = MetricCollection([CertifiedCalibrationError(), CertifiedBrierScore()])
    collection.update(LOWER, UPPER, CORRECT)
    assert len(collection.plot()) == 2
    plt.close("all")
    metric = CertifiedCalibrationError()
    metric.update([], [], [], uncertified=3)
    with pytest.raises(InputError, match="to come after an update with at least one certified input"):
        metric.plot()


def test_collections_keep_metrics_with_other_edges_apart():
    """torchmetrics merges metrics whose states look alike after the first update."""
    for make, data in (
        (CertifiedCalibrationError, (LOWER, UPPER, CORRECT)),
        (ExpectedCalibrationError, (CLEAN, CORRECT)),
    ):
        edges = {"low": [0, 0.5, 1], "high": [0, 0.7, 1]}
        collection = MetricCollection({name: make(edges=own) for name, own in edges.items()})
        collection.update([0.9], [0.9], [1]) if len(data) == 3 else collection.update([0.9], [1])
        collection.update(*data)
        for name, own in edges.items():
            alone = make(edges=own)
            alone.update([0.9], [0.9], [1]) if len(data) == 3 else alone.update([0.9], [1])
            alone.update(*data)
            assert collection.compute()[name] == alone.compute()


@pytest.mark.parametrize("cast", [torch.float16, torch.bfloat16, torch.float32])
def test_states_stay_in_double_precision_wherever_a_model_goes(cast):
    metric = CertifiedCalibrationError()
    parent = torch.nn.ModuleDict({"metric": metric, "layer": torch.nn.Linear(2, 2)})
    metric.update(LOWER, UPPER, CORRECT)
    before = metric.compute().item()
    parent.to(cast)
    metric.to(dtype=cast)
    metric._computed = None
    assert parent["layer"].weight.dtype == cast
    assert metric.sums.dtype == torch.float64
    assert metric.compute().item() == before


def test_too_many_bins_are_refused_at_once():
    with pytest.raises(InputError, match="Expected `n_bins` to give at most 1024 bins, but got 2000"):
        CertifiedCalibrationError(n_bins=2000)


def test_the_worst_case_diagram_is_that_of_the_witness():
    from certcal.metrics.reliability import bin_sums
    from certcal.worstcase import WorstCaseProblem
    from certcal.worstcase.exact import optimise
    from certcal.worstcase.reach import bin_sums_at, goals, send, tabulate

    for lower, upper, correct, _ in CATALOGUE.values():
        problem = WorstCaseProblem.checked(lower, upper, correct)
        tables, _ = tabulate(problem)
        signs, _ = optimise(tables, problem.bins)
        goal, (confidence, _) = goals(problem.bins, signs), send(problem, signs)
        for ours, expected in zip(
            bin_sums_at(goal, tables), bin_sums(confidence, problem.correct, problem.bins), strict=True
        ):
            np.testing.assert_allclose(ours, expected, atol=1e-12)


def _rank(rank, folder, results):
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    own = slice(0, 137) if rank == 0 else slice(137, None)
    for make, data, _ in CASES.values():
        metric = make()
        metric.update(*(part[own] for part in data))
        results.append((make.__name__, metric.compute().item()))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_give_the_value_of_the_whole_set(tmp_path):
    """Unequal shares: a mean of per-process values would be wrong."""
    with multiprocessing.get_context("spawn").Manager() as manager:
        results = manager.list()
        multiprocessing.spawn(_rank, args=(str(tmp_path), results), nprocs=2)
        found = list(results)
    assert len(found) == 6
    for make, data, function in CASES.values():
        values = [value for name, value in found if name == make.__name__]
        assert values == pytest.approx([function(*data)] * 2, abs=1e-12)


def test_operating_points_add_up_over_batches():
    lower, upper, correct = np.array([0.7, 0.2, 0.6, 0.9]), np.array([0.9, 0.6, 0.8, 1.0]), np.array([1, 1, 0, 1])
    metric = CertifiedOperatingPoint(threshold=0.5)
    assert np.isnan(metric.coverage)
    metric.update(lower[:1], upper[:1], correct[:1])
    metric.update(lower[1:], upper[1:], correct[1:], uncertified=2)
    point = certcal.worstcase.certified_operating_point(lower, upper, correct, threshold=0.5, uncertified=2)
    assert metric.compute().item() == point.accuracy
    assert metric.coverage == point.coverage


@pytest.mark.parametrize(
    ("metric", "function"),
    [(CertifiedOverconfidence, certified_overconfidence), (CertifiedUnderconfidence, certified_underconfidence)],
)
@pytest.mark.parametrize("uncertified", [0, 7])
def test_one_sided_errors_add_up_over_batches(metric, function, uncertified):
    lower, upper, correct, _ = smoothed_like(300)
    own = metric(n_bins=10)
    for rows in (slice(0, 90), slice(90, 300)):
        own.update(lower[rows], upper[rows], correct[rows], uncertified=uncertified if rows.start else 0)
    whole = function(lower, upper, correct, n_bins=10, uncertified=uncertified)
    assert float(own.compute()) == pytest.approx(whole.value, abs=1e-10)
    assert float(own.compute()) >= whole.value - whole.stats["rounding"]
    _, axes = own.plot()
    assert axes.get_title().startswith(own.title)
    plt.close("all")


def test_bounds_after_a_map_of_steps_count_whole_intervals():
    """Batches may come from several maps, so bands are left out: the value errs high."""
    lower, upper, correct, _ = smoothed_like(80)
    places = np.arange(len(lower))
    own = certcal.certificates.ConfidenceIntervals(
        lower=lower, upper=upper, confidence=lower, predicted=places * 0, correct=correct, index=places,
        label=np.where(correct, 0, 1), certified=np.ones(len(lower), dtype=bool), certified_radius=np.ones(len(lower)),
        radius=0.1, alpha=0.0, method="by hand",
    )  # fmt: skip
    mapped = certcal.recalibrate(own, method="steps", clean_weight=0.8).intervals(own)
    metric = CertifiedCalibrationError()
    metric.update(mapped, None, None)
    assert float(metric.compute()) >= mapped.worst_case().value
