"""What attacks are given and give, checked: inputs, labels, losses, goals and numbers."""

import torch
from torch import Tensor, nn

from certcal.attacks.balls import DTYPES
from certcal.errors import CertcalError, InputError
from certcal.inputs import as_vector, contiguous, to_numpy
from certcal.models import device_of, logits_of
from certcal.types import ArrayLike


def as_gains(value: object, logits: Tensor, *, with_gradient: bool) -> Tensor:
    """What a loss gives: one number per input, with a gradient if that is wanted."""
    if not isinstance(value, Tensor) or value.shape != logits.shape[:1]:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError.expected("loss", f"give one number per input, shape ({len(logits)},)", got)
    if with_gradient and not value.requires_grad:
        name = "loss" if logits.requires_grad else "model"
        raise InputError.expected(name, "let gradients through", "a value without one")
    return value


def as_flags(value: object, rows: int) -> Tensor:
    """What a goal gives: one boolean per input."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool or value.shape != (rows,):
        got = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError.expected("goal", f"give one boolean per input, shape ({rows},)", got)
    return value


def as_inputs(x: ArrayLike, model: nn.Module, *, boxed: bool) -> Tensor:
    """At least one input, shape (n, …), in the model's dtype, and in [0, 1] if boxed.

    Tensors are taken as they are; lists and NumPy arrays, whose dtype is often an accident, in that of the model.
    """
    wanted = next((part.dtype for part in (*model.parameters(), *model.buffers()) if part.dtype in DTYPES), None)
    if isinstance(x, Tensor):
        inputs = x.clone() if x.is_inference() else x.detach()
    else:
        array = to_numpy("x", x)
        inputs = torch.from_numpy(contiguous(array)).to((wanted or torch.float32) if array.dtype.kind == "f" else None)
    if inputs.dtype not in DTYPES:
        raise InputError.expected("x", "be float32 or float64 inputs in [0, 1]", f"dtype {inputs.dtype}")
    if wanted not in (None, inputs.dtype):
        raise InputError.expected("x", f"have the model's dtype, {wanted}", inputs.dtype)
    if inputs.ndim < 2 or inputs.numel() == 0:
        raise InputError.expected("x", "have shape (n, …) with n ≥ 1", f"shape {tuple(inputs.shape)}")
    low, high = (float(end) for end in inputs.aminmax())
    if not (-torch.inf < low and high < torch.inf):
        raise InputError.expected("x", "hold finite numbers", f"values from {low} to {high}")
    if boxed and not (low >= 0 and high <= 1):
        needs = "lie in [0, 1] (normalisation is the model's first layer)"
        raise InputError.expected("x", needs, f"values from {low:.4g} to {high:.4g}")
    return inputs


def as_labels(y: ArrayLike, inputs: int, *, name: str = "y") -> Tensor:
    """One class number ≥ 0 per input, int64 on the CPU."""
    labels = as_vector(name, y)
    if len(labels) != inputs:
        raise InputError.expected(name, f"have as many entries as `x` ({inputs})", len(labels))
    if labels.dtype.kind not in "ui" or labels.min() < 0:
        got = f"dtype {labels.dtype}" if labels.dtype.kind not in "ui" else labels.min()
        raise InputError.expected(name, "be class numbers ≥ 0", got)
    return torch.from_numpy(contiguous(labels.astype("int64")))


def check_classes(name: str, labels: Tensor, classes: int) -> None:
    """Refuse numbers of classes that the model does not tell apart."""
    if int(labels.max()) >= classes:
        raise InputError.expected(name, f"be class numbers below the model's {classes}", int(labels.max()))


def classify(model: nn.Module, inputs: Tensor, *, batch: int = 512) -> tuple[Tensor, Tensor]:
    """Predicted classes and their probabilities, shapes (n,), on the CPU."""
    predict, device = logits_of(model), device_of(model)
    classes, confidence = [], []
    with torch.no_grad():
        for start in range(0, len(inputs), batch):
            logits = predict(inputs[start : start + batch].to(device))
            classes.append(logits.argmax(dim=1).cpu())
            confidence.append(logits.double().softmax(dim=1).amax(dim=1).cpu())
    return torch.cat(classes), torch.cat(confidence)


def check_numbers(values: Tensor, rows: Tensor) -> None:
    """Refuse a model whose probabilities are no numbers; `rows` are the numbers of the inputs."""
    bad = ~values.isfinite()
    if bool(bad.any()):
        raise CertcalError(f"The model's probabilities are no numbers at input {int(rows[bad.cpu()][0])} under noise.")


def check_finite(values: Tensor, rows: Tensor) -> None:
    """Refuse a loss that is no number where the attack begins; `rows` are the numbers of the inputs."""
    bad = ~values.isfinite()
    if bool(bad.any()):
        index, value = int(rows[bad.cpu()][0]), float(values[bad][0])
        raise CertcalError(f"The loss is {value} at input {index} itself, where the attack would begin.")
