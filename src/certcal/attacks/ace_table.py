"""What the (η, ω)-ACE attacks do to a model, as the rows of the paper's Table 1 and the curves of its App. B.2."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor, nn

from certcal.attacks.ace import CONFIGURATIONS, Configuration, ace_attack, galil_ace_attack
from certcal.attacks.batched import as_budgets
from certcal.attacks.climb_settings import End, OnFlip
from certcal.attacks.records import GALIL, AceRow, AceTable, Attacked
from certcal.errors import InputError
from certcal.metrics import (
    adaptive_calibration_error,
    expected_calibration_error,
    reliability_curve,
    top_label_brier_score,
)
from certcal.models import as_inputs, as_labels, classify, count_classes, held_still
from certcal.scalars import check_flag
from certcal.settings import each_once
from certcal.types import ArrayLike


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
    chosen = CONFIGURATIONS if configurations is None else _configurations(configurations)
    check_flag("galil", galil)
    each_once("epsilon", budgets)
    each_once("configurations", chosen)
    with held_still(model):
        inputs = as_inputs(x, model, boxed=bool(settings.get("box", True)))
        labels = as_labels(y, len(inputs), classes=count_classes(model, inputs))
        unattacked, _ = classify(model, inputs)
    tried: list[tuple[int, str, Attacked | None]] = [(0, "", None)]
    for own in chosen:
        found = ace_attack(model, inputs, labels, eta=own.eta, omega=own.omega, epsilon=budgets, **settings)
        tried += [(own.eta, own.omega.value, one) for one in found]
    if galil:
        shared = {key: value for key, value in settings.items() if key in ("batch_size", "box")}
        tried += [(0, GALIL, one) for one in galil_ace_attack(model, inputs, labels, epsilon=budgets, **shared)]
    rows, curves = [], []
    for eta, omega, attacked in tried:
        with held_still(model):
            predicted, confidence = classify(model, inputs if attacked is None else attacked.inputs)
        pair = confidence.numpy(), (predicted == labels).numpy()
        row = AceRow(
            eta=eta,
            omega=omega,
            epsilon=0.0 if attacked is None else attacked.epsilon,
            inputs=len(labels),
            accuracy=float(pair[1].mean()),
            ece=expected_calibration_error(*pair, n_bins=n_bins),
            adaptive_ece=adaptive_calibration_error(*pair, n_bins=n_bins),
            brier=top_label_brier_score(*pair),
            mean_confidence=float(pair[0].mean()),
            label_changes=int((predicted != unattacked).sum()),
            moved=0 if attacked is None else _moved(attacked, inputs, by_place=omega == GALIL),
            stopped_by_label=0 if attacked is None else int(np.count_nonzero(attacked.end == End.LABEL)),
        )
        rows.append(row)
        curves.append(reliability_curve(*pair, n_bins=n_bins))
    stronger = settings.get("on_flip", OnFlip.STOP) == OnFlip.SHRINK
    return AceTable(tuple(rows), tuple(curves), stronger)


def _configurations(pairs: object) -> list[Configuration]:
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs
    ):
        raise InputError.expected("configurations", "be pairs (eta, omega)", type(pairs).__name__)
    return [Configuration.checked(*pair) for pair in pairs]


def _moved(attacked: Attacked, inputs: Tensor, *, by_place: bool) -> int:
    """How many inputs took an update; of the original ACE, whose updates may lead nowhere, how many are elsewhere."""
    if by_place:
        return int((attacked.inputs != inputs).flatten(1).any(dim=1).sum())
    return int(np.count_nonzero(attacked.updates))
