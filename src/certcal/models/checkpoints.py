"""Weights in files, read without running code and written whole or not at all."""

import pickle
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.files import expanded, replacing
from certcal.models.fingerprint import unwrapped
from certcal.models.normalization import Normalize

Model = TypeVar("Model", bound=nn.Module)
State = Mapping[str, Tensor]
WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights")


def load_checkpoint(model: Model, path: str | PathLike[str]) -> Model:
    """The model, now with the weights of a checkpoint: a .safetensors file, or what `torch.save` wrote.

    The weights may sit under "state_dict" or a similar key and carry the prefixes of data parallelism or compilation.
    For a model from `build_model` they may be those of the network alone; its normalisation then stays as it is.

    Raises:
        InputError: if the file needs more than plain tensors (a pickle can run code, so it is not opened), or holds the
            weights of another architecture. The model is unchanged then.
    """
    file, target = expanded("path", path), unwrapped(model)
    if not file.is_file():
        raise InputError.expected("path", "be a checkpoint file", f"{str(file)!r}, which does not exist")
    content = _read_safetensors(file) if file.suffix == ".safetensors" else _read_torch(file)
    target.load_state_dict(_fitted(_state(file, content), target, file), strict=False)
    return model


def save_checkpoint(model: nn.Module, path: str | PathLike[str]) -> None:
    """Write the weights for `load_checkpoint`; an interrupted write leaves the previous file as it was."""
    file = expanded("path", path)
    weights = unwrapped(model).state_dict()
    # Copies, because safetensors refuses tensors that share memory.
    state = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in weights.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        if file.suffix == ".safetensors":
            _safetensors().save_file(state, part)
        else:
            torch.save({"state_dict": state}, part)


def _read_torch(file: Path) -> Any:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+\.\w+)", str(error))
        got = f"a pickle that needs {named[1]}" if named else "a pickle that needs more, or a damaged file"
        wanted = "hold plain tensors only, as torch.save(model.state_dict(), …) writes; other pickles can run code"
        raise InputError.expected(str(file), wanted, got) from error
    except Exception as error:  # a damaged archive fails in torch's C++ reader with anything
        raise InputError.expected(str(file), "be a checkpoint written by torch.save", _line(error)) from error


def _read_safetensors(file: Path) -> Any:
    package = _safetensors()
    try:
        return package.load_file(file, device="cpu")
    except Exception as error:  # its errors have no common base
        raise InputError.expected(str(file), "be a safetensors file", _line(error)) from error


def _safetensors() -> Any:
    try:
        import safetensors.torch as package
    except ImportError as error:
        raise InputError("Files ending in .safetensors need the package safetensors: install it first.") from error
    return package


def _state(file: Path, content: object) -> State:
    """The mapping from names to tensors inside what the file holds."""
    if isinstance(content, Mapping):
        if content and all(isinstance(value, Tensor) for value in content.values()):
            return content
        for key in WRAPPERS:
            if isinstance(content.get(key), Mapping):
                return _state(file, content[key])
    held = f"a dict of {sorted(map(str, content))[:5]}" if isinstance(content, Mapping) else type(content).__name__
    raise InputError.expected(str(file), f"hold a state_dict, bare or under {', '.join(WRAPPERS)}", held)


def _fitted(state: State, model: nn.Module, file: Path) -> State:
    """The state under the model's own names, or an error that says how the two differ."""
    expected = model.state_dict()
    optional = _optional(model)
    # Parallel and compiled models add a step to every name, at the top or, for a part of the model, inside.
    plain = {re.sub(r"(^|(?<=\.))(module|_orig_mod)\.", "", name): value for name, value in state.items()}
    inner = {f"1.{name}": value for name, value in plain.items()}
    # The closest reading is the one to load, or to compare with.
    candidate = max((state, plain, inner), key=lambda names: len(names.keys() & expected.keys()))
    missing, foreign = sorted(expected.keys() - optional - candidate.keys()), sorted(candidate.keys() - expected.keys())
    if missing or foreign:
        raise InputError.expected(
            str(file),
            f"hold the weights of {_describe(model)}",
            f"{_some(missing)} missing and {_some(foreign)} too many",
        )
    for name, value in candidate.items():
        if value.shape != expected[name].shape:
            wanted = f"hold the weights of {_describe(model)}, {name} of shape {tuple(expected[name].shape)}"
            raise InputError.expected(str(file), wanted, f"shape {tuple(value.shape)}")
    return candidate


def _optional(model: nn.Module) -> set[str]:
    """Names a checkpoint may lack: our normalisation, and batch-norm's counter, which older files do not have."""
    names = set()
    for prefix, module in model.named_modules():
        own = ("mean", "std") if isinstance(module, Normalize) else ("num_batches_tracked",)
        names |= {f"{prefix}.{name}" if prefix else name for name in own}
    return names


def _describe(model: nn.Module) -> str:
    inner = model[1] if isinstance(model, nn.Sequential) and len(model) == 2 else model
    return type(inner).__name__


def _some(names: list[str]) -> str:
    return f"{len(names)} tensors (such as {names[0]})" if names else "none"


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
