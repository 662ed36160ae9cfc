"""What the (η, ω)-ACE attacks do to a model, as the rows of the paper's Table 1 and the curves of its App. B.2."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from certcal.attacks.ace import CONFIGURATIONS, Configuration, ace_attack, galil_ace_attack
from certcal.attacks.batched import Attacked, as_budgets, check_each_once
from certcal.attacks.climb_settings import End, OnFlip
from certcal.attacks.records import GALIL, AceRow, AceTable
from certcal.attacks.victims import as_inputs, as_labels, classify
from certcal.metrics import (
    ReliabilityCurve,
    adaptive_calibration_error,
    expected_calibration_error,
    reliability_curve,
    top_label_brier_score,
)
from certcal.models import held_still
from certcal.types import ArrayLike, BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class _Predictions:
    label: Tensor
    confidence: FloatArray
    correct: BoolArray


def run_ace_attacks(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: Iterable[float] | float,
    configurations: Iterable[tuple[int, str]] | None = None,
    n_bins: int = 15,
    galil: bool = False,
    **settings: Any,
) -> AceTable:
    """Accuracy and calibration without attack and under each (η, ω)-ACE attack, at each budget.

    The rows of an attack are made from a forward pass of their own, not from what the attack saw.

    Paper: Table 1, App. B.2.

    Args:
        model, x, y, settings: as for `ace_attack`.
        epsilon: how far inputs may move in ℓ∞.
        configurations: pairs (eta, omega); by default the four of the paper, in its order.
        n_bins: of the ECE, the AdaECE and the curves.
        galil: also the original ACE, with its own settings.
    """
    budgets = as_budgets(epsilon)
    chosen = CONFIGURATIONS if configurations is None else [Configuration.checked(*pair) for pair in configurations]
    check_each_once("epsilon", budgets)
    check_each_once("configurations", chosen)
    with held_still(model):
        inputs = as_inputs(x, model, boxed=bool(settings.get("box", True)))
        labels = as_labels(y, len(inputs))
    clean = _predict(model, inputs, labels)
    rows, curves = [_row(clean, clean, n_bins)], [_curve(clean, n_bins)]
    tried = [
        (own.eta, own.omega.value, found, int(np.count_nonzero(found.updates)))
        for own in chosen
        for found in ace_attack(model, inputs, labels, eta=own.eta, omega=own.omega, epsilon=budgets, **settings)
    ]
    if galil:
        shared = {key: value for key, value in settings.items() if key in ("batch_size", "box")}
        original = galil_ace_attack(model, inputs, labels, epsilon=budgets, **shared)
        tried += [(0, GALIL, found, _moved(found.inputs, inputs)) for found in original]
    for eta, omega, found, moved in tried:
        attacked = _predict(model, found.inputs, labels)
        rows.append(_row(attacked, clean, n_bins, eta=eta, omega=omega, found=found, moved=moved))
        curves.append(_curve(attacked, n_bins))
    stronger = settings.get("on_flip", OnFlip.STOP) == OnFlip.SHRINK
    return AceTable(tuple(rows), tuple(curves), stronger)


def _moved(after: Tensor, before: Tensor) -> int:
    return int((after != before).flatten(1).any(dim=1).sum())


def _predict(model: nn.Module, inputs: Tensor, labels: Tensor) -> _Predictions:
    with held_still(model):
        predicted, confidence = classify(model, inputs)
    return _Predictions(predicted, confidence.numpy(), (predicted == labels).numpy())


def _row(
    own: _Predictions,
    clean: _Predictions,
    n_bins: int,
    *,
    eta: int = 0,
    omega: str = "",
    found: Attacked | None = None,
    moved: int = 0,
) -> AceRow:
    pair = (own.confidence, own.correct)
    return AceRow(
        eta=eta,
        omega=omega,
        epsilon=0.0 if found is None else found.epsilon,
        inputs=len(own.correct),
        accuracy=float(own.correct.mean()),
        ece=expected_calibration_error(*pair, n_bins=n_bins),
        adaptive_ece=adaptive_calibration_error(*pair, n_bins=n_bins),
        brier=top_label_brier_score(*pair),
        mean_confidence=float(own.confidence.mean()),
        label_changes=int((own.label != clean.label).sum()),
        moved=moved,
        stopped_by_label=0 if found is None else int(np.count_nonzero(found.end == End.LABEL)),
    )


def _curve(own: _Predictions, n_bins: int) -> ReliabilityCurve:
    return reliability_curve(own.confidence, own.correct, n_bins=n_bins)
