"""Projected gradient attacks on a model, `attack(model, x, y, epsilon=…)`, batch by batch, within several budgets."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from certcal.attacks.balls import Ball, random_unit
from certcal.attacks.climb_settings import ENDS, Loss, Predict, Settings
from certcal.attacks.pgd import Found, climb
from certcal.attacks.records import Attacked
from certcal.errors import CertcalError, InputError
from certcal.inputs import make_settings, to_numpy
from certcal.models import as_inputs, as_labels, classify, count_classes, device_of, held_still, logits_of
from certcal.scalars import one_or_more
from certcal.settings import Norm, checks
from certcal.types import ArrayLike

BATCH = {"cpu": 128, "cuda": 1024}


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


def as_budgets(epsilon: object) -> tuple[float, ...]:
    """One or several budgets as numbers ≥ 0."""
    given = to_numpy("epsilon", epsilon).tolist() if isinstance(epsilon, Tensor | np.ndarray) else epsilon
    values = one_or_more("epsilon", given)
    return tuple(checks.not_negative("epsilon", e) for e in values)


def one_or_all(epsilon: object, found: list[Attacked]) -> Attacked | list[Attacked]:
    """All that was found where budgets came as a list, the only one where it was a number."""
    return found if isinstance(epsilon, Iterable) and getattr(epsilon, "ndim", 1) > 0 else found[0]


def attack_model(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    loss: Loss,
    epsilons: Sequence[float],
    settings: Settings,
    keeping: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> list[Attacked]:
    """Attack a model's inputs within each budget, after a look at them.

    The loss is given the labels; or, where predicted labels are to be kept, what `keeping` makes of labels and these.
    """
    with held_still(model):
        inputs = as_inputs(x, model, boxed=settings.box)
        target, predicted = as_labels(y, len(inputs), classes=count_classes(model, inputs)), None
        if keeping is not None:
            predicted, _ = classify(model, inputs)
            target = keeping(target, predicted)
        predict, device = logits_of(model), device_of(model)
        return attack_batched(
            predict, loss, inputs, target, epsilons=epsilons, settings=settings, device=device, label=predicted
        )


def attack_batched(
    predict: Predict,
    loss: Loss,
    inputs: Tensor,
    target: Tensor,
    *,
    epsilons: Sequence[float],
    settings: Settings,
    device: torch.device,
    label: Tensor | None = None,
) -> list[Attacked]:
    """Attack all inputs within each budget; inputs of different budgets share batches.

    `label` holds the labels to keep, shape (n,) on the CPU; by default those that the model gives within each batch.
    """
    norm = Norm(settings.norm)
    unit = random_unit(inputs.shape, norm, settings.seed).to(inputs) if settings.random_start else None
    budgets = torch.tensor(epsilons, dtype=torch.float64).repeat_interleave(len(inputs))
    batch = settings.batch_size or BATCH.get(device.type, BATCH["cuda"])
    parts = []
    for places in torch.split(torch.arange(len(budgets)), batch):
        own, rows = budgets[places], places % len(inputs)
        ball = Ball.around(inputs[rows.to(inputs.device)].to(device), own, norm, boxed=settings.box)
        begin = None if unit is None else ball.at(unit[rows.to(unit.device)].to(device))
        # Madry et al. (2018): enough to cross the ball, and to turn within it.
        rate = 2.5 * own / settings.steps if settings.step_size is None else torch.full_like(own, settings.step_size)
        keep = None if label is None else label[rows].to(device)
        found = climb(
            predict, loss, ball, target[rows].to(device), rate.to(ball.center), settings, start=begin, label=keep
        )
        check_numbers(found.clean, rows, "The loss", "itself, where the attack would begin")
        parts.append(found)
    return _per_budget(parts, epsilons, inputs, norm)


def check_numbers(values: Tensor, rows: Tensor, what: str, where: str) -> None:
    """Refuse what is no number at an input; `rows` are the numbers of the inputs."""
    bad = ~values.isfinite()
    if bool(bad.any()):
        index, value = int(rows[bad.cpu()][0]), float(values[bad][0])
        raise CertcalError(f"{what} is {value} at input {index} {where}.")


def _per_budget(parts: list[Found], epsilons: Sequence[float], inputs: Tensor, norm: Norm) -> list[Attacked]:
    n = len(inputs)
    point = torch.cat([part.point.to(inputs.device) for part in parts])
    clean, value, updates, end = (
        torch.cat([getattr(part, name).cpu() for part in parts]).numpy()
        for name in ("clean", "value", "updates", "end")
    )
    ends = np.array([str(end) for end in ENDS])[end]
    clean, value = (part.astype(np.float64) for part in (clean, value))
    parts_of = (slice(i * n, (i + 1) * n) for i in range(len(epsilons)))
    return [
        Attacked(point[own], epsilon, norm, clean[own], value[own], updates[own], ends[own])
        for epsilon, own in zip(epsilons, parts_of, strict=True)
    ]
