"""(η, ω)-ACE: attacks that wreck confidences and leave every predicted label as it is. Paper: Sec. 2.2, Eq. (2)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from certcal.attacks.batched import as_budgets, attack_model, cross_entropy, one_or_all
from certcal.attacks.climb_settings import Direction, End, OnFlip, Plateau, Settings
from certcal.attacks.records import GALIL, AceRow, AceTable, Attacked
from certcal.errors import InputError
from certcal.inputs import make_settings
from certcal.metrics import (
    adaptive_calibration_error,
    expected_calibration_error,
    reliability_curve,
    top_label_brier_score,
)
from certcal.models import as_inputs, as_labels, classify, count_classes, held_still
from certcal.scalars import check_choice, check_flag, check_number
from certcal.settings import Norm, check_fits_box, each_once
from certcal.types import ArrayLike

# "We use a learning rate of 10 for 100 steps with automatic reduction when the loss plateaus" (App. B.2).
PAPER_SETTINGS: dict[str, Any] = {
    "steps": 100,
    "step_size": 10.0,
    "direction": Direction.GRADIENT,
    "on_flip": OnFlip.STOP,
    "plateau": Plateau(),
}
# One step of full length, halved until the label survives it, at most 15 times (Galil and El-Yaniv 2021, Alg. 1).
GALIL_SETTINGS: dict[str, Any] = {"steps": 15, "updates": 1, "on_flip": OnFlip.SHRINK, "shrink": 0.5}


class Omega(StrEnum):
    """Whose probability an attack moves."""

    LABEL = "y"  # the true label's
    PREDICTION = "yhat"  # the predicted label's


_SPELLINGS = {"y": Omega.LABEL, "yhat": Omega.PREDICTION, "y_hat": Omega.PREDICTION, "ŷ": Omega.PREDICTION}


@dataclass(frozen=True)
class Configuration:
    """One of the four attacks: maximise η · cross-entropy to ω."""

    eta: int
    omega: Omega

    @classmethod
    def checked(cls, eta: object, omega: object) -> "Configuration":
        """The configuration that users name, or an `InputError`."""
        sign = check_number("eta", eta, "be +1 or -1", lambda number: abs(number) == 1)
        return cls(int(sign), _SPELLINGS[check_choice("omega", omega, tuple(_SPELLINGS))])

    def __str__(self) -> str:
        return f"({self.eta:+d}, {'y' if self.omega is Omega.LABEL else 'ŷ'})"


# In the order of the paper's Table 1.
CONFIGURATIONS = tuple(Configuration(eta, omega) for omega in Omega for eta in (-1, 1))


@overload
def ace_attack(
    model: nn.Module, x: ArrayLike, y: ArrayLike, *, eta: int, omega: str, epsilon: float, **settings: Any
) -> Attacked: ...
@overload
def ace_attack(
    model: nn.Module, x: ArrayLike, y: ArrayLike, *, eta: int, omega: str, epsilon: Iterable[float], **settings: Any
) -> list[Attacked]: ...
def ace_attack(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    eta: int,
    omega: str,
    epsilon: float | Iterable[float],
    **settings: Any,
) -> Attacked | list[Attacked]:
    """Inputs moved by at most epsilon in ℓ∞ whose confidences are off and whose predicted labels are not.

    The (η, ω)-ACE attack: maximise η · cross-entropy(f(x + γ), ω) subject to F(x + γ) = F(x), by projected gradient
    ascent with a learning rate of 10 over 100 steps, reduced on plateaus. An update that would change the label is not
    taken, and its input stops. η = +1 lowers the probability of ω, η = −1 raises it.

    Paper: Sec. 2.2, Eq. (2), App. B.2.

    Args:
        model: gives logits for inputs in [0, 1]; normalisation is its first layer.
        x: inputs, shape (n, …).
        y: true labels, shape (n,).
        eta: +1 or −1.
        omega: "y" for the true label or "yhat" (also "y_hat", "ŷ") for the predicted one.
        epsilon: how far inputs may move, or several such distances: the result is then a list, in their order.
        settings: fields of `certcal.attacks.Settings` in place of the paper's, such as `steps`, or `on_flip="shrink"`
            with `direction="steepest"` for a stronger attack.

    Returns: an `Attacked`, whose `inputs` are those attacked, shape (n, …).
    Raises: InputError if an argument is wrong.

    >>> model = torch.nn.Linear(2, 2)
    >>> with torch.no_grad():
    ...     _ = model.weight.copy_(4 * torch.eye(2)), model.bias.zero_()
    >>> ace_attack(model, [[0.75, 0.25]], [0], eta=-1, omega="y", epsilon=0.125).inputs.tolist()
    [[0.875, 0.125]]
    """
    configuration, budgets = Configuration.checked(eta, omega), as_budgets(epsilon)
    chosen = _label_preserving(PAPER_SETTINGS | settings, budgets)

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return configuration.eta * cross_entropy(logits, target)

    def omega_of(labels: Tensor, predicted: Tensor) -> Tensor:
        return labels if configuration.omega is Omega.LABEL else predicted

    found = attack_model(model, x, y, loss=loss, epsilons=budgets, settings=chosen, keeping=omega_of)
    return one_or_all(epsilon, found)


@overload
def galil_ace_attack(model: nn.Module, x: ArrayLike, y: ArrayLike, *, epsilon: float, **settings: Any) -> Attacked: ...
@overload
def galil_ace_attack(
    model: nn.Module, x: ArrayLike, y: ArrayLike, *, epsilon: Iterable[float], **settings: Any
) -> list[Attacked]: ...
def galil_ace_attack(
    model: nn.Module, x: ArrayLike, y: ArrayLike, *, epsilon: float | Iterable[float], **settings: Any
) -> Attacked | list[Attacked]:
    """Inputs moved as by the original ACE: less confidence where the model is right, more where it is wrong.

    One step of length epsilon along the sign of the gradient of the softmax score, halved until the label survives it.
    A special case of our loop: the score itself as loss, one update, and a step that shrinks instead of stopping. Where
    the step would work against its own aim, the input stays. Arguments and result are those of `ace_attack`.

    Paper: App. B.2; Galil and El-Yaniv, "Disrupting deep uncertainty estimation without harming accuracy" (2021).
    """

    def away(labels: Tensor, predicted: Tensor) -> Tensor:
        return torch.stack([predicted, torch.where(predicted == labels, -1, 1)], dim=1)

    found = []
    for budget in as_budgets(epsilon):
        defaults = GALIL_SETTINGS | ({"step_size": budget} if budget > 0 else {})
        chosen = _label_preserving(defaults | settings, (budget,))
        found += attack_model(model, x, y, loss=signed_confidence, epsilons=(budget,), settings=chosen, keeping=away)
    return one_or_all(epsilon, found)


def signed_confidence(logits: Tensor, target: Tensor) -> Tensor:
    """The probability of a class times a sign, given as the two columns of `target`, shape (n,)."""
    return logits.softmax(dim=1).gather(1, target[:, :1]).squeeze(1) * target[:, 1]


def _label_preserving(values: dict[str, Any], budgets: tuple[float, ...]) -> Settings:
    settings = make_settings(Settings, values)
    if settings.on_flip == OnFlip.ALLOW:
        raise InputError.expected("on_flip", "be 'stop' or 'shrink', as ACE keeps labels", "'allow'")
    if settings.box and settings.norm == Norm.LINF:
        check_fits_box(budgets)
    return settings


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
            points = inputs if attacked is None else attacked.inputs
            predicted, confidence = classify(model, points)
        pair = confidence.numpy(), (predicted == labels).numpy()
        moved = (points != inputs).flatten(1).any(dim=1).cpu().numpy()
        if attacked is not None and omega != GALIL:  # whose updates may lead nowhere
            moved = attacked.updates > 0
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
            moved=int(moved.sum()),
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
