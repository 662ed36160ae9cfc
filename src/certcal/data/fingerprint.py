"""Fingerprints by which evidence knows its model, and a checkpoint its data."""

import hashlib
from typing import cast

import torch
from torch import Tensor, nn

from certcal.data.images import ImageData


def model_fingerprint(model: nn.Module) -> str:
    """SHA-256, in hexadecimal, of a model's classes, parameters and buffers.

    The same on every device, in every memory format, and for a model wrapped by `torch.compile` or for data
    parallelism. Settings that a module keeps as plain attributes do not count, unless they choose its submodules.
    """
    plain = unwrapped(model)
    digest = hashlib.sha256()
    for name, module in plain.named_modules():
        kind = type(module)
        digest.update(f"{name}:{kind.__module__}.{kind.__qualname__}\n".encode())
    # Buffers that are left out of the state_dict still shape the outputs.
    state: dict[str, object] = dict(plain.named_buffers()) | dict(plain.state_dict())
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Tensor):
            digest.update(f"{name}:{value.dtype}:{tuple(value.shape)}\n".encode())
            digest.update(_bytes(value))
        else:  # what a module's get_extra_state returns
            digest.update(f"{name}={value!r}\n".encode())
    return digest.hexdigest()


def data_fingerprint(data: ImageData) -> str:
    """SHA-256, in hexadecimal, of labels and images; of images that stay in files, of their names."""
    digest = hashlib.sha256(_bytes(data.labels))
    digest.update(_bytes(data.pixels) if isinstance(data.pixels, Tensor) else repr(data.pixels.paths).encode())
    return digest.hexdigest()


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself, without `torch.compile` and data parallel wrappers."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(model, parallel):
            model = model.module
        elif "_orig_mod" in model._modules:  # torch.compile's wrapper has no public class
            model = cast(nn.Module, model._modules["_orig_mod"])
        else:
            return model


def _bytes(tensor: Tensor) -> memoryview:
    # NumPy lacks some of torch's dtypes, so the bytes are taken as bytes; row-major whatever the memory format.
    flat = tensor.detach().cpu().contiguous(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().data
