"""Weights in files, read without running code and written whole or not at all."""

import hashlib
import pickle
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Set
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from certcal.errors import InputError, one_line
from certcal.files import expanded, replacing
from certcal.models.fingerprint import add_state, unwrapped
from certcal.models.normalization import Normalize

Model = TypeVar("Model", bound=nn.Module)
State = Mapping[str, Tensor]
_DIGEST = "certcal.sha256"  # in the metadata of a safetensors file
WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "module", "weights", "params")
HEADS = ("fc", "linear", "classifier", "head")  # what people call the last layer

# What a Lightning module keeps beside its network, and no prediction uses: losses with class weights, and metrics.
BESIDE = re.compile(r"(criterion|loss|loss_fn|\w*metrics?|(train|val|valid|test)_\w+|accuracy|acc)\.")


def load_checkpoint(model: Model, path: str | PathLike[str]) -> Model:
    """The model, now with the weights of a checkpoint: a .safetensors file, or what `torch.save` wrote.

    The weights may sit under "state_dict" or a similar key and carry the prefixes of data parallelism or compilation,
    or of the Lightning module that had the network as its attribute. The last layer may go by another usual name. For a
    model from `build_model` they may be those of the network alone; its normalisation then stays as it is.

    Raises:
        InputError: if the file needs more than plain tensors (a pickle can run code, so it is not opened), or holds the
            weights of another architecture. The model is unchanged then.
    """
    file, target = expanded("path", path), unwrapped(model)
    target.load_state_dict(_fitted(_read(file), target, file), strict=False)
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
            _safetensors().save_file(state, part, metadata={_DIGEST: _digest(state)})
        else:
            with part.open("wb") as written:  # given a path, torch would write its name into the file
                torch.save({"state_dict": state}, written)


def checkpoint_digest(path: str | PathLike[str]) -> str:
    """SHA-256 of the names and tensors in a checkpoint, whatever else is in the file."""
    return _digest(_read(expanded("path", path)))


def state_digest(model: nn.Module) -> str:
    """SHA-256 of a model's names and tensors, that of a checkpoint which `save_checkpoint` writes of it."""
    return _digest(unwrapped(model).state_dict())


def _digest(state: State) -> str:
    digest = hashlib.sha256()
    add_state(digest, state)
    return digest.hexdigest()


def _read(file: Path) -> State:
    """The names and tensors in a checkpoint."""
    if file.is_dir():
        own = file / "model.pt"  # as training writes it
        hint = f" (did you mean {str(own)!r}?)" if own.is_file() else ""
        raise InputError.expected("path", "be a checkpoint file", f"{str(file)!r}, which is a folder{hint}")
    if not file.is_file():
        raise InputError.expected("path", "be a checkpoint file", f"{str(file)!r}, which does not exist")
    return _state(file, _read_safetensors(file) if file.suffix == ".safetensors" else _read_torch(file))


def _check_whole(file: Path) -> None:
    """Refuse an archive whose checksums do not fit: torch writes them, but reads on over damaged bytes."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise InputError.expected(str(file), "be as it was written", f"a damaged file (in {damaged})")


def _read_torch(file: Path) -> Any:
    try:
        _check_whole(file)
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+\.\w+)", str(error))
        got = f"a pickle that needs {named[1]}" if named else "a pickle that needs more, or a damaged file"
        wanted = "hold plain tensors only, as torch.save(model.state_dict(), …) writes; other pickles can run code"
        raise InputError.expected(str(file), wanted, got) from error
    except InputError:
        raise
    except Exception as error:  # a damaged archive fails in torch's C++ reader with anything
        raise InputError.expected(str(file), "be a checkpoint written by torch.save", one_line(error)) from error


def _read_safetensors(file: Path) -> Any:
    package = _safetensors()
    with InputError.expecting(str(file), "be a safetensors file"):  # its errors have no common base
        state = package.load_file(file, device="cpu")
        with sys.modules["safetensors"].safe_open(file, framework="pt") as opened:
            recorded = (opened.metadata() or {}).get(_DIGEST)
    if recorded not in (None, _digest(state)):
        raise InputError.expected(str(file), "be as it was written", "a damaged file")
    return state


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
    # The closest reading is the one to load, or to compare with; of equals the first, which changes least.
    candidate = max(_readings(state, expected), key=lambda names: len(names.keys() & expected.keys()))
    missing, foreign = expected.keys() - optional - candidate.keys(), candidate.keys() - expected.keys()
    ours = "1." if _is_wrapped(model) else ""  # the step that our own wrapper adds to the network's names
    if missing or foreign:
        raise InputError.expected(
            str(file),
            f"hold the weights of {_describe(model)}",
            f"{_some(missing, ours)} missing and {_some(foreign, ours)} too many",
        )
    for name, value in candidate.items():
        if value.shape != expected[name].shape:
            named = f"{name.removeprefix(ours)} of shape {tuple(expected[name].shape)}"
            raise InputError.expected(
                str(file), f"hold the weights of {_describe(model)}, {named}", f"shape {tuple(value.shape)}"
            )
    return candidate


def _readings(state: State, expected: State) -> Iterator[State]:
    """The state under other names that the same weights go by."""
    yield state
    # Parallel and compiled models add a step to every name, at the top or, for a part of the model, inside.
    plain = {re.sub(r"(^|(?<=\.))(module|_orig_mod)\.", "", name): value for name, value in state.items()}
    plain = {name: value for name, value in plain.items() if name in expected or not BESIDE.match(name)}
    first = {name.partition(".")[0] for name in plain}
    # A Lightning module has its network as an attribute: one step more, the same for every name.
    inner = {name.partition(".")[2]: value for name, value in plain.items()} if len(first) == 1 else plain
    for names in (plain, inner):
        for network in (names, {f"1.{name}": value for name, value in names.items()}):
            yield network
            yield _with_head(network, expected)


def _with_head(state: State, expected: State) -> State:
    """The state with its last layer renamed, if each side has one of its own that is called as last layers are."""
    ours, theirs = (
        {_layer(name) for name in own if _layer(name).rpartition(".")[2] in HEADS}
        for own in (expected.keys() - state, state.keys() - expected)
    )
    if len(ours) != 1 or len(theirs) != 1:
        return state
    (new,), (old,) = ours, theirs
    return {f"{new}.{name.rpartition('.')[2]}" if _layer(name) == old else name: own for name, own in state.items()}


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _optional(model: nn.Module) -> set[str]:
    """Names a checkpoint may lack: our normalisation, and batch-norm's counter, which older files do not have."""
    names = set()
    for prefix, module in model.named_modules():
        own = ("mean", "std") if isinstance(module, Normalize) else ("num_batches_tracked",)
        names |= {f"{prefix}.{name}" if prefix else name for name in own}
    return names


def _is_wrapped(model: nn.Module) -> bool:
    """Whether it is a network behind its normalisation, as `build_model` puts them together."""
    if not isinstance(model, nn.Sequential) or len(model) != 2:
        return False
    return any(isinstance(part, Normalize | nn.Identity) for part in model[0].modules())


def _describe(model: nn.Module) -> str:
    inner = model[1] if isinstance(model, nn.Sequential) and len(model) == 2 else model
    return type(inner).__name__


def _some(names: Set[str], ours: str) -> str:
    if not names:
        return "none"
    return f"{len(names)} tensor{'s' * (len(names) > 1)} (such as {min(names).removeprefix(ours)})"
