"""What a model answers, in the forms people have it, as logits or probabilities of shape (rows, classes)."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from certcal.errors import CertcalError, InputError, raised, with_article
from certcal.models.devices import device_of
from certcal.settings import Outputs

GREY = "grey image files? --channels 1, in Python channels=1, reads them with one channel"


def as_outputs(answer: object, rows: int, classes: int | None = None, *, kind: str = Outputs.LOGITS) -> Tensor:
    """The answer to so many rows with one output per class, shape (rows, k); at least in float32, for what follows.

    An answer may be a tensor or a NumPy array, an object with `.logits`, or a dict or tuple in which one entry has one
    row per input; a batch of one may have lost its axes of length 1. One output per row is that of the second of two
    classes: a logit, or a probability by `kind`.
    """
    found = _obvious(answer, rows)
    if found is not None and found.ndim == 1:
        found = found[:, None]
    if found is not None and found.shape[1] == 1:  # softmax of (0, z) is the sigmoid of z
        found = torch.cat([torch.zeros_like(found) if kind == Outputs.LOGITS else 1 - found, found], dim=1)
    if found is None or classes not in (None, found.shape[1]):
        wanted = "(batch, classes)" if classes is None else f"({rows}, {classes})"
        wide = any(one.ndim > 2 and len(one) == rows for one in _tensors(answer))
        hint = ", one class per input: certcal certifies no segmentation or detection" if wide else ""
        raise InputError.expected("model", f"give outputs of shape {wanted}{hint}", _told(answer))
    return found.float() if found.dtype.itemsize < 4 else found


def _obvious(answer: object, rows: int) -> Tensor | None:
    """The one tensor of an answer that holds a number or a vector per row; None if there is no such, or several."""
    tensors = _tensors(answer)
    found = [one for one in tensors if _fits(one, rows)]
    if not found and rows == 1:  # a batch of one, squeezed
        found = [one for part in tensors if _fits(one := part[None], 1)]
    return found[0] if len(found) == 1 else None


def _tensors(answer: object) -> list[Tensor]:
    """The tensors of an answer: its logits, if it names them, or itself, or its entries."""
    named = answer.get("logits") if isinstance(answer, Mapping) else getattr(answer, "logits", None)
    several = answer.values() if isinstance(answer, Mapping) else answer if isinstance(answer, tuple | list) else ()
    parts = [named] if isinstance(named, Tensor | np.ndarray) else [answer, *several]
    arrays = (torch.from_numpy(one) if isinstance(one, np.ndarray) and one.dtype.kind == "f" else one for one in parts)
    return [one for one in arrays if isinstance(one, Tensor)]


def _fits(tensor: Tensor, rows: int) -> bool:
    """Whether it holds a number or a vector of floats per row."""
    return tensor.ndim in (1, 2) and tensor.is_floating_point() and len(tensor) == rows and 0 not in tensor.shape[1:]


def _told(answer: object) -> str:
    """An answer in words."""
    if isinstance(answer, Tensor | np.ndarray):
        if isinstance(answer, Tensor) and answer.is_floating_point():
            return f"{tuple(answer.shape)}"
        classes = answer.ndim == 1 and "int" in str(answer.dtype)
        return f"{tuple(answer.shape)} of {answer.dtype}" + " (class numbers: leave out the argmax)" * classes
    if isinstance(answer, Mapping):
        return f"a dict of {', '.join(f'{key} ({_told(value)})' for key, value in answer.items()) or 'nothing'}"
    if isinstance(answer, tuple | list):
        return f"{with_article(type(answer).__name__)} of {', '.join(map(_told, answer)) or 'nothing'}"
    return type(answer).__name__


def as_probabilities(outputs: Tensor, kind: str) -> Tensor:
    """Class probabilities from outputs of a kind, one of `Outputs`, shape (rows, k) and in their dtype.

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


def doubt_outputs(outputs: Tensor, kind: str) -> InputError | None:
    """Why outputs are not of the kind that they are said to be, as an error to raise or to warn with; None if they may.

    Of few rows this is a suspicion, of dozens it is sure.
    """
    like, (low, high) = not no_distribution(outputs).any(), (float(end) for end in outputs.aminmax())
    within, one = 0 <= low <= high <= 1, outputs.shape[1] == 2 and bool((outputs[:, 0] == 0).all())
    if kind == Outputs.LOGITS and (like or (one and within and high > 0.5)):
        ends = "a softmax" if like else "a sigmoid"
        got = (
            f"probabilities: the model ends in {ends} (give --outputs probabilities, in Python outputs='probabilities')"
        )
        return InputError.expected("outputs", "be 'logits' only of a model that gives logits", got)
    if within and high > 0.5 and not like:
        got = (
            "values in [0, 1] that do neither: a sigmoid for each class (let the model return what goes into it, "
            "or divide by the sum over the classes and give --outputs probabilities; certcal certifies no multi-label "
            "classification)"
        )
        return InputError.expected("outputs", "be logits of any size, or probabilities that sum to 1", got)
    if kind == Outputs.PROBABILITIES and not like:
        got = f"values from {low:.3g} to {high:.3g}: these are logits (give --outputs logits)"
        return InputError.expected("outputs", "be 'probabilities' only of a model whose outputs sum to 1", got)
    return None


def logits_of(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model as a function from inputs to logits. The model is given a copy: it may work in place."""
    return lambda inputs: as_outputs(model(inputs.clone()), len(inputs))


def count_classes(model: nn.Module, inputs: Tensor, device: torch.device | None = None) -> int:
    """How many classes the model tells apart, from its answer to the first input, on a device or where it is."""
    one = inputs[:1].to(device or device_of(model), copy=True)
    try:
        with torch.no_grad():
            answer = model(one)
    except CertcalError:
        raise
    except Exception as error:  # a model is the user's code, and may fail in any way
        if "more than 1 value per channel" in str(error):  # as torch says of one input
            wanted, got = "answer each input by itself", "batch statistics in evaluation mode"
            raise InputError.expected("model", wanted, f"{got} (BatchNorm with track_running_stats=False?)") from error
        wanted = f"accept inputs of shape {tuple(one.shape[1:])}"
        hint = " (exported for one batch size? give torch.export.export dynamic_shapes)" * ("size()[0]" in str(error))
        hint += f" ({GREY})" * (one.shape[1:2] == (3,) and "to have 1 channels" in str(error))  # as torch says
        raise InputError.expected("model", wanted, f"{raised(error)}{hint}") from error
    return as_outputs(answer, 1).shape[1]
