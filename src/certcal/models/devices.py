"""Where and in which numbers a model runs: its device and its precision."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from certcal.settings import Precision

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
