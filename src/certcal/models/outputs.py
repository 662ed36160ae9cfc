"""What a model answers: logits or probabilities of shape (rows, classes), refused where they are no such thing."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.models.devices import device_of
from certcal.settings import Outputs

OUTPUTS = tuple(Outputs)


def as_outputs(answer: object, rows: int, classes: int | None = None) -> Tensor:
    """The answer to so many rows, if it has one output per class; at least in float32, for what follows."""
    fits = isinstance(answer, Tensor) and answer.ndim == 2 and len(answer) == rows
    if not isinstance(answer, Tensor) or not fits or answer.shape[1] < 2 or classes not in (None, answer.shape[1]):
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        wanted = "(batch, classes ≥ 2)" if classes is None else f"({rows}, {classes})"
        raise InputError.expected("model", f"give outputs of shape {wanted}", shape)
    return answer.float() if answer.dtype.itemsize < 4 else answer


def as_probabilities(outputs: Tensor, kind: str) -> Tensor:
    """Class probabilities from outputs of a kind, one of `OUTPUTS`, shape (rows, k) and in their dtype.

    Probabilities may come out a rounding above 1; what is certified is their clipped version. Rows that are none, by
    `no_distribution`, are left to be found.
    """
    if kind == "logits":
        return outputs.softmax(dim=1)
    return torch.where(no_distribution(outputs)[:, None], outputs, outputs.clamp(max=1.0))


def no_distribution(probs: Tensor) -> Tensor:
    """Which rows are no probability vectors, shape (rows,). Written so that NaN counts as wrong."""
    total, least = probs.sum(dim=1), probs.amin(dim=1)
    return ~((least >= 0) & ((total - 1).abs() < 1e-3))


def logits_of(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model as a function from inputs to logits. The model is given a copy: it may work in place."""
    return lambda inputs: as_outputs(model(inputs.clone()), len(inputs))


def count_classes(model: nn.Module, inputs: Tensor, device: torch.device | None = None) -> int:
    """How many classes the model tells apart, from its answer to the first input, on a device or where it is."""
    one = inputs[:1].to(device or device_of(model), copy=True)
    try:
        with torch.no_grad():
            answer = model(one)
    except (RuntimeError, ValueError, TypeError) as error:
        got = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise InputError.expected("model", f"accept inputs of shape {tuple(one.shape[1:])}", got) from error
    return as_outputs(answer, 1).shape[1]
