"""A fingerprint and a probe by which evidence knows its model: its tensors, and what it makes of fixed inputs."""

import hashlib
from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from certcal.data import tensor_bytes
from certcal.errors import InputError
from certcal.models.outputs import as_outputs
from certcal.models.running import made_up_inputs
from certcal.settings import Outputs

PROBES, TOLERANCE = 8, 1e-3  # made-up inputs, and how far answers of one model may differ, of the largest


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
    add_state(digest, dict(plain.named_buffers()) | dict(plain.state_dict()))
    return digest.hexdigest()


def add_state(digest: "hashlib._Hash", state: Mapping[str, object]) -> None:
    """Add names and tensors to a digest, and what modules' get_extra_state returns."""
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Tensor):
            digest.update(f"{name}:{value.dtype}:{tuple(value.shape)}\n".encode())
            digest.update(tensor_bytes(value))
        else:
            digest.update(f"{name}={value!r}\n".encode())


def model_probe(
    model: nn.Module, shape: tuple[int, ...], device: torch.device, *, kind: str = Outputs.LOGITS
) -> list[float]:
    """What a model on a device answers to eight made-up inputs. Settings that are no tensors show there alone.

    In full precision and without choosing convolutions by their speed, so that it comes out alike on all devices.
    """
    return _answers(model, made_up_inputs(PROBES, shape).to(device), PROBES, kind)


def _answers(model: nn.Module, batch: Tensor, rows: int, kind: str) -> list[float]:
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        answers = as_outputs(model(batch), len(batch), kind=kind)
    first: list[float] = answers.float()[:rows].flatten().tolist()
    return first


def check_rows(model: nn.Module, inputs: Tensor, device: torch.device, *, kind: str) -> list[float]:
    """What a model answers to some inputs; it is refused if that changes with the rest of its batch, or by chance.

    Each of the inputs is tried with all others and with as many made-up ones beside it, and two of them alone.

    Raises: InputError.
    """
    others = made_up_inputs(len(inputs), tuple(inputs.shape[1:]))
    beside, alone = torch.cat([inputs, others]).to(device), inputs[:2].to(device)
    batches = (beside, inputs.to(device), alone)
    first, second, third = (_answers(model, batch.clone(), len(inputs), kind) for batch in batches)
    if not (same_probe(second, first) and same_probe(third, first)):
        got = "outputs that depend on the other inputs of their batch, or on chance: batch statistics, dropout"
        raise InputError.expected("model", "answer each input by itself, the same way every time", got)
    return second


def same_probe(probe: list[float], stored: list[float]) -> bool:
    """Whether two probes are of one model, as far as both go: earlier versions asked it one input.

    Other machines and thread counts round otherwise, by some 10⁻⁶ of the largest answer, or 10⁻⁴ in deep networks. A
    temperature that is off by 1 % changes answers by 10⁻².
    """
    new, old = (np.array(answers[: min(len(probe), len(stored))]) for answers in (probe, stored))
    scale = np.abs(old[np.isfinite(old)]).max(initial=0.0)
    return np.allclose(new, old, rtol=0.0, atol=TOLERANCE * scale, equal_nan=True)


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
