"""What people give beside a model: inputs and labels, checked; and what the model says of them."""

import torch
from torch import Tensor, nn

from certcal.data import as_classes, check_names, names_of_model
from certcal.errors import InputError
from certcal.inputs import as_vector, contiguous, to_numpy
from certcal.models.devices import device_of
from certcal.models.outputs import logits_of
from certcal.types import ArrayLike

FLOATS = (torch.float32, torch.float64)  # in which inputs are moved


def as_inputs(x: ArrayLike, model: nn.Module, *, boxed: bool, name: str = "x") -> Tensor:
    """At least one input, shape (n, …), in the model's dtype, and in [0, 1] if boxed.

    Tensors are taken as they are; lists and NumPy arrays, whose dtype is often an accident, in that of the model.
    """
    wanted = next((part.dtype for part in (*model.parameters(), *model.buffers()) if part.dtype in FLOATS), None)
    if isinstance(x, Tensor):
        inputs = x.clone() if x.is_inference() else x.detach()
    else:
        array = to_numpy(name, x)
        inputs = torch.from_numpy(contiguous(array)).to((wanted or torch.float32) if array.dtype.kind == "f" else None)
    if inputs.dtype not in FLOATS:
        raise InputError.expected(
            name, "be float32 or float64 inputs in [0, 1]", f"dtype {inputs.dtype} (divide bytes by 255)"
        )
    if wanted not in (None, inputs.dtype):
        raise InputError.expected(name, f"have the model's dtype, {wanted}", inputs.dtype)
    if inputs.ndim < 2 or inputs.numel() == 0:
        raise InputError.expected(name, "have shape (n, …) with n ≥ 1", f"shape {tuple(inputs.shape)}")
    low, high = (float(end) for end in inputs.aminmax())
    if not (-torch.inf < low and high < torch.inf):
        raise InputError.expected(name, "hold finite numbers", f"values from {low} to {high}")
    if boxed and not (low >= 0 and high <= 1):
        needs = "lie in [0, 1] (normalisation is the model's first layer)"
        raise InputError.expected(name, needs, f"values from {low:.4g} to {high:.4g}")
    return inputs


def as_labels(y: ArrayLike, inputs: int, *, name: str = "y", classes: int | None = None) -> Tensor:
    """One class number ≥ 0 per input, below `classes` if given, int64 on the CPU."""
    numbers, named = as_classes(y, name=name)
    if named is not None and classes is not None:
        check_names(named, classes, found=True, name=name)
    labels = as_vector(name, numbers)
    if len(labels) != inputs:
        raise InputError.expected(name, f"have as many entries as `x` ({inputs})", len(labels))
    if not 0 <= labels.min() <= labels.max() < 2**63:
        raise InputError.expected(name, "be class numbers ≥ 0", labels.min())
    if classes is not None and labels.max() >= classes:
        raise InputError.expected(name, f"be class numbers below the model's {classes}", int(labels.max()))
    return torch.from_numpy(contiguous(labels.astype("int64")))


def class_names(model: nn.Module) -> tuple[str, ...]:
    """The names of its classes in its order, where the model says them, as Hugging Face's configurations do."""
    told = (getattr(getattr(part, "config", None), "id2label", None) for part in model.modules())
    return names_of_model(next((one for one in told if isinstance(one, dict)), {}))


def classify(model: nn.Module, inputs: Tensor, *, batch: int = 512) -> tuple[Tensor, Tensor]:
    """Predicted classes and their probabilities, shapes (n,), on the CPU."""
    predict, device = logits_of(model), device_of(model)
    classes, confidence = [], []
    with torch.no_grad():
        for part in torch.split(inputs, batch):
            logits = predict(part.to(device))
            classes.append(logits.argmax(dim=1).cpu())
            confidence.append(logits.double().softmax(dim=1).amax(dim=1).cpu())
    return torch.cat(classes), torch.cat(confidence)
