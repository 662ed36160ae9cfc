"""A fingerprint by which evidence knows its model."""

import hashlib
from typing import cast

from torch import Tensor, nn

from certcal.data import tensor_bytes


def model_fingerprint(model: nn.Module) -> str:
    """SHA-256, in hexadecimal, of a model's classes, parameters and buffers.

    The same on every device, in every memory format, and for a model wrapped by `torch.compile` or for data
    parallelism. Settings that a module keeps as plain attributes do not count, unless they choose its submodules.
    """
    plain = unwrapped(model)
    digest = hashlib.sha256()
    for name, module in plain.named_modules():
        digest.update(f"{name}:{_lasting_name(type(module))}\n".encode())
    # Buffers that are left out of the state_dict still shape the outputs.
    state: dict[str, object] = dict(plain.named_buffers()) | dict(plain.state_dict())
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Tensor):
            digest.update(f"{name}:{value.dtype}:{tuple(value.shape)}\n".encode())
            digest.update(tensor_bytes(value))
        else:  # what a module's get_extra_state returns
            digest.update(f"{name}={value!r}\n".encode())
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


def _lasting_name(kind: type[nn.Module]) -> str:
    """A class's full name. Ours began in `certcal.data`, and evidence drawn then still knows its model."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name.replace("certcal.models.", "certcal.data.", 1) if name.startswith("certcal.models.") else name
