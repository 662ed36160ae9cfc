"""What training refuses: data that nothing can be learned from or that does not fit the model, and what diverges."""

from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from certcal.data import ImageData, check_names
from certcal.errors import InputError, TrainingError, one_line
from certcal.models import as_outputs, held_still
from certcal.settings import Values


def check_data(data: ImageData) -> None:
    """Refuse data that is empty, mislabelled, not in [0, 1], or of one class only."""
    if len(data) == 0:
        raise InputError.expected("data", "hold at least one image", f"an empty {data.name}")
    labels, classes = data.labels, len(data.classes)
    if labels.is_floating_point() or len(labels) != len(data.pixels):
        got = f"{len(labels)} labels of {labels.dtype} for {len(data.pixels)} images in {data.name}"
        raise InputError.expected("data", "have one class number per image", got)
    outside = (labels < 0) | (labels >= classes)
    if bool(outside.any()):
        where = int(outside.nonzero()[0])
        got = f"{int(labels[where])} at index {where} of {data.name}"
        raise InputError.expected("data", f"have labels from 0 to {classes - 1}", got)
    if int(labels.min()) == int(labels.max()):
        got = f"{data.classes[int(labels[0])]!r} alone in {data.name}"
        raise InputError.expected("data", "have images of at least two classes", got)
    pixels = data.pixels
    if isinstance(pixels, torch.Tensor) and pixels.is_floating_point() and data.values is Values.UNIT:
        low, high = (float(value) for value in pixels.aminmax())
        if not (low >= 0.0 and high <= 1.0):  # a NaN fails both
            raise InputError.expected("data", "have inputs in [0, 1]", f"values from {low} to {high} in {data.name}")


def check_fit(model: nn.Module, data: ImageData, device: torch.device) -> None:
    """Refuse a model that has nothing to learn, does not take these images, or has another number of classes."""
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError.expected("model", "have weights with gradients, which training changes", "none")
    inputs = data.select(torch.arange(min(2, len(data)))).inputs.to(device)
    try:
        with held_still(model), torch.no_grad():
            logits = as_outputs(model(inputs), len(inputs))
    except RuntimeError as error:
        got = f"{one_line(error)} for inputs of shape {tuple(inputs.shape)}"
        raise InputError.expected("model", f"take the images of {data.name}", got) from error
    check_names(data.classes, logits.shape[1], found=data.found, fresh=True)
    if logits.shape[1] < len(data.classes):
        wanted = f"give logits of shape (inputs, {len(data.classes)}) for {data.name}"
        raise InputError.expected("model", wanted, f"shape {tuple(logits.shape)}")


def diverged(place: str, found: str, checkpoint: Path) -> TrainingError:
    """What to say where training came to something that is no number."""
    kept = "there is none yet"
    with suppress(OSError):
        kept = f"{checkpoint} is kept" if checkpoint.is_file() else kept
    return TrainingError(
        f"Training diverged at {place}: {found}. Last good checkpoint: {kept}. "
        "Try a smaller learning_rate, or warm σ and ε up over more epochs."
    )
