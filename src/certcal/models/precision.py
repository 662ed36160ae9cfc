"""The precision that a model runs in, by name."""

from contextlib import AbstractContextManager, nullcontext

import torch

# What autocast casts to; float32 is the model as it is, without autocast.
_AUTOCAST = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
PRECISIONS = tuple(_AUTOCAST)


def autocast_dtype(precision: str) -> torch.dtype | None:
    """What a precision casts to; None where nothing is cast."""
    return _AUTOCAST[precision]


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Within this context models run in a precision; "float32" leaves everything as it is."""
    dtype = _AUTOCAST[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)
