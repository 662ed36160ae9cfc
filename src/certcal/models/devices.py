"""Where and in which numbers a model runs: its device, the layout that is fastest there, and its precision."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch
from torch import nn

from certcal.settings import Precision

Model = TypeVar("Model", bound=nn.Module)
# What autocast casts to; float32 is the model as it is, without autocast.
AUTOCAST: dict[str, torch.dtype | None] = {
    Precision.FLOAT32: None,
    Precision.BFLOAT16: torch.bfloat16,
    Precision.FLOAT16: torch.float16,
}


def best_device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters and buffers are; the CPU for a model without any."""
    tensors = (*model.parameters(), *model.buffers())
    return tensors[0].device if tensors else torch.device("cpu")


def on_device(model: Model, device: torch.device) -> Model:
    """The model on a device, in the layout that is fastest there."""
    model = model.to(device)
    # Tensor cores take channels side by side in eights; other widths are padded and moved about at every convolution.
    widths = [len(weight) for weight in model.parameters() if weight.dim() == 4]
    if device.type == "cuda" and all(width % 8 == 0 for width in widths):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def layout_for(device: torch.device, shape: torch.Size) -> torch.memory_format:
    """The memory format in which inputs of one shape, such as (c, h, w), go through a model fastest."""
    return torch.channels_last if device.type == "cuda" and len(shape) == 3 else torch.contiguous_format


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """Within this context cuDNN tries its algorithms once per shape and keeps the fastest; for shapes that stay."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Within this context models run in a precision; "float32" leaves everything as it is."""
    dtype = AUTOCAST[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)
