"""What the (η, ω)-ACE attacks do to a model, as the rows of the paper's Table 1 and the curves of its App. B.2."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from certcal.attacks.ace import CONFIGURATIONS, Configuration, galil_ace_attack, run_ace
from certcal.attacks.launch import Attacked, as_budgets, check_each_once
from certcal.attacks.settings import End
from certcal.attacks.victims import as_inputs, as_labels, classify, held_still
from certcal.metrics import (
    ReliabilityCurve,
    adaptive_calibration_error,
    expected_calibration_error,
    reliability_curve,
    top_label_brier_score,
)
from certcal.types import ArrayLike, BoolArray, FloatArray

GALIL = "galil"


@dataclass(frozen=True)
class AceRow:
    """A model under one attack; the first row of a table, with η = 0, ω empty and ε = 0, is without attack.

    Rows of the original ACE of Galil and El-Yaniv have η = 0 and ω = "galil".
    """

    eta: int
    omega: str
    epsilon: float
    inputs: int
    accuracy: float
    ece: float
    adaptive_ece: float
    brier: float  # top-label
    mean_confidence: float
    label_changes: int  # predictions that differ from those without attack; none should
    moved: int  # inputs that took at least one update
    stopped_by_label: int  # inputs whose next update would have changed their label


@dataclass(frozen=True, eq=False)
class AceTable:
    """Rows of the paper's Table 1 and, in the same order, the reliability curves of its appendix."""

    rows: tuple[AceRow, ...]
    curves: tuple[ReliabilityCurve, ...]

    def __iter__(self) -> Iterator[AceRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries, for JSON or a data frame."""
        return [asdict(row) for row in self.rows]


@dataclass(frozen=True, eq=False)
class _Predictions:
    label: Tensor
    confidence: FloatArray
    correct: BoolArray


def prepare_ace_table(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilons: Iterable[float] | float,
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
        epsilons: how far inputs may move in ℓ∞.
        configurations: pairs (eta, omega); by default the four of the paper, in its order.
        n_bins: of the ECE, the AdaECE and the curves.
        galil: also the original ACE, with its own settings.
    """
    budgets = as_budgets(epsilons)
    chosen = CONFIGURATIONS if configurations is None else [Configuration.checked(*pair) for pair in configurations]
    check_each_once("epsilons", budgets)
    check_each_once("configurations", chosen)
    with held_still(model):
        inputs = as_inputs(x, model, boxed=bool(settings.get("box", True)))
        labels = as_labels(y, len(inputs))
    clean = _predict(model, inputs, labels)
    rows, curves = [_row(clean, clean, (0, ""), 0.0, None, n_bins)], [_curve(clean, n_bins)]
    for own in chosen:
        for found in run_ace(model, inputs, labels, eta=own.eta, omega=own.omega, epsilon=budgets, **settings):
            attacked = _predict(model, found.inputs, labels)
            rows.append(_row(attacked, clean, (own.eta, own.omega.value), found.epsilon, found, n_bins))
            curves.append(_curve(attacked, n_bins))
    for epsilon in budgets if galil else ():
        shared = {key: value for key, value in settings.items() if key in ("batch_size", "box")}
        moved = galil_ace_attack(model, inputs, labels, epsilon=epsilon, **shared)
        attacked = _predict(model, moved, labels)
        took = int((moved != inputs).flatten(1).any(dim=1).sum())
        rows.append(replace(_row(attacked, clean, (0, GALIL), epsilon, None, n_bins), moved=took))
        curves.append(_curve(attacked, n_bins))
    return AceTable(tuple(rows), tuple(curves))


def _predict(model: nn.Module, inputs: Tensor, labels: Tensor) -> _Predictions:
    with held_still(model):
        predicted, confidence = classify(model, inputs)
    return _Predictions(predicted, confidence.numpy(), (predicted == labels).numpy())


def _row(
    own: _Predictions,
    clean: _Predictions,
    setting: tuple[int, str],
    epsilon: float,
    found: Attacked | None,
    n_bins: int,
) -> AceRow:
    pair, (eta, omega) = (own.confidence, own.correct), setting
    return AceRow(
        eta=eta,
        omega=omega,
        epsilon=epsilon,
        inputs=len(own.correct),
        accuracy=float(own.correct.mean()),
        ece=expected_calibration_error(*pair, n_bins=n_bins),
        adaptive_ece=adaptive_calibration_error(*pair, n_bins=n_bins),
        brier=top_label_brier_score(*pair),
        mean_confidence=float(own.confidence.mean()),
        label_changes=int((own.label != clean.label).sum()),
        moved=0 if found is None else int(np.count_nonzero(found.updates)),
        stopped_by_label=0 if found is None else int(np.count_nonzero(found.end == End.LABEL)),
    )


def _curve(own: _Predictions, n_bins: int) -> ReliabilityCurve:
    return reliability_curve(own.confidence, own.correct, n_bins=n_bins)
