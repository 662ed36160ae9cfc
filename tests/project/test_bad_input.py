"""Every bad argument is answered by one InputError that names it, says what was expected and what came."""

import numpy as np
import pytest
import torch

import certcal
from certcal import (
    InputError,
    adaptive_calibration_error,
    certified_brier_score,
    certified_calibration_error,
    expected_calibration_error,
    reliability_curve,
    top_label_brier_score,
)
from certcal.metrics import brier_score, differentiable_calibration_error, log_score, top_label_log_score
from certcal.proportions import clopper_pearson
from certcal.worstcase import (
    approximate_certified_calibration_error,
    certified_auroc,
    certified_log_score,
    certified_risk_coverage_area,
    operating_curve,
)

NAN, LONG = float("nan"), np.dtype(np.longdouble)
DENSE = "Expected `confidence` to be a dense tensor with values"
PREDICTIONS = [
    expected_calibration_error,
    adaptive_calibration_error,
    differentiable_calibration_error,
    reliability_curve,
    top_label_brier_score,
    top_label_log_score,
]
BOUNDED = [
    certcal.worstcase.any_binning_calibration_error,
    certcal.worstcase.equal_count_calibration_error,
    certified_auroc,
    certified_risk_coverage_area,
    operating_curve,
    certified_brier_score,
    certified_log_score,
    certified_calibration_error,
    approximate_certified_calibration_error,
]


def answer(function, *args, **kwargs):
    with pytest.raises(InputError) as caught:
        function(*args, **kwargs)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("function", PREDICTIONS)
@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.5, NAN], [1, 0], "Expected `confidence` to lie in [0, 1], but got nan at index 1."),
        ([0.5, 1.5], [1, 0], "Expected `confidence` to lie in [0, 1], but got 1.5 at index 1."),
        ([-1e-9], [1], "Expected `confidence` to lie in [0, 1], but got -1e-09 at index 0."),
        ([np.inf], [1], "Expected `confidence` to lie in [0, 1], but got inf at index 0."),
        ([], [], "Expected `confidence` to hold at least one value, but got an empty array."),
        ([0.5, 0.6], [1], "Expected `correct` to have as many entries as `confidence` (2), but got 1."),
        ([0.5], [2], "Expected `correct` to be 0 or 1 (or False or True), but got 2 at index 0."),
        ([0.5, 0.5], [1, -1], "Expected `correct` to be 0 or 1 (or False or True), but got -1 at index 1."),
        ([0.5], [NAN], "Expected `correct` to be 0 or 1 (or False or True), but got nan at index 0."),
        ([[0.5]], [1], "Expected `confidence` to be one-dimensional, but got shape (1, 1)."),
        (["a"], [1], "Expected `confidence` to be an array of numbers, but got an array of dtype <U1."),
        ([0.5], [1j], "Expected `correct` to be an array of numbers, but got an array of dtype complex128."),
        ([[0.1], [0.2, 0.3]], [1], "Expected `confidence` to be an array of numbers, but got a ragged list."),
        (None, [1], "Expected `confidence` to be an array of numbers, but got a NoneType."),
        ({0.5}, [1], "Expected `confidence` to be an array of numbers, but got a set."),
        (
            np.array([0.5], dtype=np.longdouble),
            [1],
            f"Expected `confidence` to have at most 64-bit numbers, but got an array of dtype {LONG}.",
        ),
        (
            torch.empty(2, device="meta"),
            [1, 0],
            f"{DENSE}, but got a strided tensor of torch.float32 on meta.",
        ),
        (
            torch.eye(2).to_sparse()[0],
            [1, 0],
            f"{DENSE}, but got a sparse_coo tensor of torch.float32 on cpu.",
        ),
        (
            np.ma.array([0.5, 0.6], mask=[0, 1]),
            [1, 0],
            "Expected `confidence` to have no masked entries, but got 1 of them.",
        ),
        (torch.tensor([2.0]), [1], "Expected `confidence` to lie in [0, 1], but got 2.0 at index 0."),
    ],
)
def test_predictions(function, confidence, correct, message):
    assert answer(function, confidence, correct) == message


@pytest.mark.parametrize("function", BOUNDED)
@pytest.mark.parametrize(
    ("lower", "upper", "correct", "message"),
    [
        ([0.7], [0.2], [1], "Expected `lower` to be at most `upper`, but got lower = 0.7 > upper = 0.2 at index 0."),
        ([0.1, 0.2], [0.5], [1, 0], "Expected `upper` to have as many entries as `lower` (2), but got 1."),
        ([0.1], [0.5], [1, 0], "Expected `correct` to have as many entries as `lower` (1), but got 2."),
        ([NAN], [0.5], [1], "Expected `lower` to lie in [0, 1], but got nan at index 0."),
        ([0.1], [NAN], [1], "Expected `upper` to lie in [0, 1], but got nan at index 0."),
        ([0.1], [1.1], [1], "Expected `upper` to lie in [0, 1], but got 1.1 at index 0."),
        ([], [], [], "Expected `lower` to hold at least one value, but got an empty array."),
        ([0.1], [0.5], [0.5], "Expected `correct` to be 0 or 1 (or False or True), but got 0.5 at index 0."),
    ],
)
def test_bounds(function, lower, upper, correct, message):
    assert answer(function, lower, upper, correct) == message


@pytest.mark.parametrize("function", [expected_calibration_error, reliability_curve, differentiable_calibration_error])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "Expected `n_bins` to be an integer ≥ 1, but got 0."),
        ({"n_bins": 2.5}, "Expected `n_bins` to be an integer ≥ 1, but got 2.5."),
        ({"n_bins": True}, "Expected `n_bins` to be an integer ≥ 1, but got True."),
        ({"edges": [0, 0.6, 0.4, 1]}, "Expected `edges` to rise strictly from 0 to 1, but got [0.0, 0.6, 0.4, 1.0]."),
        ({"edges": [0, 0.5, 0.5, 1]}, "Expected `edges` to rise strictly from 0 to 1, but got [0.0, 0.5, 0.5, 1.0]."),
        ({"edges": [0.1, 1]}, "Expected `edges` to rise strictly from 0 to 1, but got [0.1, 1.0]."),
        ({"edges": [0]}, "Expected `edges` to rise strictly from 0 to 1, but got [0.0]."),
        ({"edges": [0, NAN, 1]}, "Expected `edges` to rise strictly from 0 to 1, but got [0.0, nan, 1.0]."),
    ],
)
def test_bins(function, options, message):
    assert answer(function, [0.5], [1], **options) == message
    assert answer(certified_calibration_error, [0.1], [0.5], [1], **options) == message
    assert answer(approximate_certified_calibration_error, [0.1], [0.5], [1], **options) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: certified_calibration_error([0.1], [0.5], [1], uncertified=-1),
            "Expected `uncertified` to be an integer ≥ 0, but got -1.",
        ),
        (
            lambda: certified_calibration_error([0.1], [0.5], [1], n_bins=2000),
            "Expected `n_bins` to give at most 1024 bins, but got 2000.",
        ),
        (
            lambda: certified_calibration_error([0.1], [0.5], [1], uncertified=10**400),
            "Expected `uncertified` to be an integer ≤ 9007199254740992, but got an integer of more than 30 digits.",
        ),
        (
            lambda: expected_calibration_error([0.5], [1], n_bins=10**12),
            "Expected `n_bins` to be an integer ≤ 1048576, but got 1000000000000.",
        ),
        (
            lambda: expected_calibration_error([0.5], [1], edges=[0, 1], n_bins=-3),
            "Expected `n_bins` to be an integer ≥ 1, but got -3.",
        ),
        (
            lambda: expected_calibration_error([0.5], [1], edges=np.zeros(10_000)),
            "Expected `edges` to rise strictly from 0 to 1, but got 10000 edges that do not.",
        ),
        (
            lambda: reliability_curve([0.5], [1], alpha=10**400),
            "Expected `alpha` to lie in the open interval (0, 1), but got an integer of more than 30 digits.",
        ),
        (
            lambda: expected_calibration_error([0.5], [1], rule="mine"),
            "Expected `rule` to be one of 'paper', 'torchmetrics', 'guo', but got 'mine'.",
        ),
        (
            lambda: expected_calibration_error([0.5], [1], edges=[0, 1], rule="guo"),
            "Expected `rule` to be 'paper' when `edges` are given, but got 'guo'.",
        ),
        (
            lambda: differentiable_calibration_error([0.5], [1], temperature=0),
            "Expected `temperature` to lie in [1e-12, 1e6], but got 0.",
        ),
        (
            lambda: reliability_curve([0.5], [1], alpha=1.0),
            "Expected `alpha` to lie in the open interval (0, 1), but got 1.0.",
        ),
        (
            lambda: clopper_pearson([3], 2, alpha=0.05),
            "Expected `successes` to be at most `trials`, but got 3 of 2.",
        ),
        (
            lambda: clopper_pearson([0.5], 2, alpha=0.05),
            "Expected `successes` to be whole numbers ≥ 0, but got 0.5.",
        ),
        (
            lambda: clopper_pearson([1, 2], [3, 4, 5], alpha=0.05),
            "Expected `successes` to have a shape that fits `trials`, (3,), but got (2,).",
        ),
    ],
)
def test_options(call, message):
    assert answer(call) == message


@pytest.mark.parametrize("score", [brier_score, log_score])
@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        ([0.5, 0.5], [1], "Expected `probs` to have shape (inputs, classes ≥ 2), but got shape (2,)."),
        ([[0.5, 0.6]], [1], "Expected `probs` to sum to 1 in every row, but got 1.1 in row 0."),
        ([[2.0, -1.0]], [1], "Expected `probs` to lie in [0, 1], but got 2.0 in row 0."),
        ([[0.5, NAN]], [1], "Expected `probs` to lie in [0, 1], but got nan in row 0."),
        ([[0.5, 0.5]], [2], "Expected `labels` to be whole numbers from 0 to 1, but got 2 at index 0."),
        ([[0.5, 0.5]], [True], "Expected `labels` to be whole numbers from 0 to 1, but got booleans."),
        ([[0.5, 0.5]], [0, 1], "Expected `labels` to have as many entries as `probs` (1), but got 2."),
    ],
)
def test_class_probabilities(score, probs, labels, message):
    assert answer(score, probs, labels) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "Expected `method` to be one of 'admm', 'dece', 'brier', but got 'magic'."),
        ({"method": "brier", "steps": 3}, "Expected `settings` to be empty for method 'brier', but got steps."),
        ({"starts": "uniform"}, "Expected `starts` to be one of 'clean', 'brier', but got 'uniform'."),
        ({"starts": ()}, "Expected `starts` to hold at least one value, but got none."),
        ({"snapshots": ("x",)}, "Expected `snapshots` to be an integer ≥ 0, but got the text 'x', which is no number."),
        ({"diagnostics": "no"}, "Expected `diagnostics` to be True or False, but got 'no'."),
        ({"rho": 1e39}, "Expected `rho` to lie in (0, 1e4], but got 1e+39."),
        ({"steps": 0}, "Expected `steps` to be an integer ≥ 1, but got 0."),
        ({"assignment_rates": -1.0}, "Expected `assignment_rates` to hold numbers in (0, 1e4], but got -1.0."),
        (
            {"assignment_rates": "fast"},
            "Expected `assignment_rates` to hold numbers in (0, 1e4], but got the text 'fast', which is no number.",
        ),
        ({"rho_factors": 0.9}, "Expected `rho_factors` to hold numbers in [1, 1e4], but got 0.9."),
        (
            {"dtype": "int8"},
            "Expected `dtype` to be one of 'float16', 'bfloat16', 'float32', 'float64', but got 'int8'.",
        ),
        (
            {"device": "toaster"},
            "Expected `device` to name a device of this machine, such as 'cpu' or 'cuda', but got 'toaster'.",
        ),
        (
            {"confidence": [0.9]},
            "Expected `confidence` to lie within its bounds, but got 0.9 outside [0.1, 0.5] at index 0.",
        ),
        (
            {"confidence": [0.3, 0.3]},
            "Expected `confidence` to have as many entries as `lower` (1), but got 2.",
        ),
        (
            {"method": "dece", "starts": "nowhere"},
            "Expected `starts` to be one of 'clean', 'brier', 'uniform', 'gaussian', but got 'nowhere'.",
        ),
    ],
)
def test_solver_settings(options, message):
    assert answer(approximate_certified_calibration_error, [0.1], [0.5], [1], **options) == message


def test_unknown_settings_are_named():
    message = answer(approximate_certified_calibration_error, [0.1], [0.5], [1], stepz=3)
    assert message.startswith("Expected `settings` to name one of starts, confidence_rates")
    assert message.endswith("but got 'stepz'.")


def test_inputs_are_left_alone():
    lower, upper, correct = np.array([0.1, 0.3]), np.array([0.6, 0.3]), np.array([1.0, 0.0])
    copies = [part.copy() for part in (lower, upper, correct)]
    certified_calibration_error(lower, upper, correct)
    approximate_certified_calibration_error(lower, upper, correct, steps=2)
    for part, copy in zip((lower, upper, correct), copies, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_views_and_read_only_arrays_are_fine():
    lower, upper, correct = np.linspace(0.1, 0.4, 9)[::-1], np.linspace(0.5, 0.9, 9)[::-1], (np.arange(9) % 2 > 0)[::-1]
    lower.flags.writeable = False
    expected = certified_calibration_error(lower.copy(), upper.copy(), correct.copy()).value
    assert certified_calibration_error(lower, upper, correct).value == expected
    for method, settings in (("admm", {"steps": 2}), ("dece", {"steps": 2}), ("brier", {})):
        approximate_certified_calibration_error(lower, upper, correct, method=method, **settings)
    differentiable_calibration_error(lower, correct)


def test_half_precision_probabilities_are_probabilities():
    probs = torch.randn(20, 1000, generator=torch.Generator().manual_seed(0)).softmax(dim=1)
    labels = torch.arange(20)
    for dtype in (torch.float16, torch.bfloat16):
        assert brier_score(probs.to(dtype), labels) == pytest.approx(brier_score(probs, labels), abs=1e-2)
