"""Projected gradient attacks on a model: `attack(model, x, y, epsilon=…)`."""

from collections.abc import Iterable
from typing import Any, overload

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from certcal.attacks.batched import as_budgets, attack_model, one_or_all
from certcal.attacks.climb_settings import Loss, Settings
from certcal.attacks.records import Attacked
from certcal.errors import InputError
from certcal.inputs import make_settings
from certcal.types import ArrayLike


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """−log of the target's probability, per input, shape (n,)."""
    return F.cross_entropy(logits, target, reduction="none")


@overload
def attack(
    model: nn.Module, x: ArrayLike, y: ArrayLike, *, epsilon: float, loss: Loss = ..., **settings: Any
) -> Attacked: ...
@overload
def attack(
    model: nn.Module, x: ArrayLike, y: ArrayLike, *, epsilon: Iterable[float], loss: Loss = ..., **settings: Any
) -> list[Attacked]: ...
def attack(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: float | Iterable[float],
    loss: Loss = cross_entropy,
    **settings: Any,
) -> Attacked | list[Attacked]:
    """Inputs moved by at most epsilon so that the loss is large: projected gradient ascent, batched.

    By default 40 steps along the sign of the gradient within an ℓ∞ ball, cut by the box [0, 1]; `norm="l2"` takes unit
    steps within a Euclidean one. The best iterate is returned, so the loss never ends below its start.

    Paper: App. B.2, "Attack"; Madry et al. (2018).

    Args:
        model: gives logits for inputs in [0, 1]; normalisation is its first layer.
        x: inputs, shape (n, …).
        y: labels, shape (n,), handed to the loss.
        epsilon: how far inputs may move, or several such distances: the result is then a list, in their order.
        loss: of logits (n, k) and labels (n,), what each input is to gain, shape (n,). Cross-entropy by default.
        settings: fields of `certcal.attacks.Settings`, such as `norm`, `steps`, `random_start` or `on_flip="stop"`.

    Raises: InputError if an argument is wrong; CertcalError if the loss is no number at one of the inputs.

    >>> import torch
    >>> model = torch.nn.Linear(2, 2)
    >>> with torch.no_grad():
    ...     _ = model.weight.copy_(torch.eye(2)), model.bias.zero_()
    >>> attack(model, [[0.75, 0.25]], [0], epsilon=0.125).inputs.tolist()
    [[0.625, 0.375]]
    """
    if not callable(loss):
        raise InputError.expected("loss", "be a function of logits and labels", repr(loss))
    chosen = make_settings(Settings, settings)
    return one_or_all(epsilon, attack_model(model, x, y, loss=loss, epsilons=as_budgets(epsilon), settings=chosen))
