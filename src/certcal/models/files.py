"""Whole models from files and other libraries: ONNX, TorchScript, torch.export, Hugging Face folders, timm names."""

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from certcal.errors import InputError, one_line
from certcal.files import expanded
from certcal.models.functions import Program, exported
from certcal.models.normalization import Normalize
from certcal.models.preparation import preparation
from certcal.settings import LIBRARIES, is_program

Network = tuple[nn.Module | None, nn.Module]  # what normalises, where the source says it, and the network


def source_of(name: str) -> Callable[..., Network] | None:
    """What opens a model of this name; None if it is no such name."""
    if name.startswith(LIBRARIES):
        kind, _, rest = name.partition(":")
        return lambda **given: (_timm if kind == "timm" else _hugging_face)(rest, **given)
    suffix = Path(name).suffix.lower()
    if suffix != ".onnx" and not is_program(name):
        return None
    opener = {".onnx": _onnx, ".pt2": _exported}.get(suffix, _script)
    return lambda **given: opener(_existing(name), **given)


def _onnx(path: Path, **_: Any) -> Network:
    return None, Program(_Session(path), _content(path))


class _Session:
    """An ONNX model in ONNX Runtime, opened where it is used: sessions cannot be sent to workers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()

    def _open(self) -> None:
        runtime = optional("onnxruntime", "ONNX files")
        options = runtime.SessionOptions()
        # As many threads as torch has, and none that waits for work beside it.
        options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
        options.log_severity_level = 3
        with InputError.expecting("model", "be an ONNX file that ONNX Runtime opens"):
            self._session = runtime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        if len(self._session.get_inputs()) != 1:
            names = ", ".join(one.name for one in self._session.get_inputs())
            raise InputError.expected("model", "be an ONNX file with one input", names)
        self._input, self._answered = self._session.get_inputs()[0].name, False
        self._outputs = [one.name for one in self._session.get_outputs()]
        sides = self._session.get_inputs()[0].shape
        self._batch = sides[0] if sides and isinstance(sides[0], int) and sides[0] > 0 else None  # None: any size

    def _run(self, array: NDArray[Any]) -> list[Any]:
        """The outputs for a batch; of a file that was exported for one batch size, in batches of that size."""
        size, count = self._batch or len(array), len(array)
        padded = np.concatenate([array, np.repeat(array[-1:], -count % size, axis=0)])
        found = [self._session.run(None, {self._input: padded[at : at + size]}) for at in range(0, count, size)]
        if len(found) == 1 and len(padded) == count:
            return list(found[0])
        return [np.concatenate(parts)[:count] if np.ndim(parts[0]) else parts[0] for parts in zip(*found, strict=True)]

    def __call__(self, inputs: Tensor) -> dict[str, Tensor]:
        try:
            found = self._run(inputs.detach().contiguous().numpy())
        except Exception as error:
            if self._answered:  # one input went well
                raise InputError.expected("model", "take batches of any size", one_line(error)) from error
            raise ValueError(f"{one_line(error)} (are its type float32 and its batch axis dynamic?)") from error
        self._answered = True
        arrays = {name: one for name, one in zip(self._outputs, found, strict=True) if hasattr(one, "dtype")}
        return {name: torch.from_numpy(one) for name, one in arrays.items() if one.dtype.kind in "fiu"}

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path = state["path"]
        self._open()


def _exported(path: Path, *, trust: bool, **_: Any) -> Network:
    _check_trusted(path, trust)
    with _opening("be a file of torch.export.save", path):
        return None, exported(torch.export.load(str(path)))


def _script(path: Path, *, trust: bool, **_: Any) -> Network:
    _check_trusted(path, trust)
    import warnings

    wanted = "be a TorchScript file (weights alone go into --weights, beside the network's name)"
    with _opening(wanted, path), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the files are there all the same
        return None, torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]


def _check_trusted(path: Path, trust: bool) -> None:
    """A program in a file can do what any program can."""
    if not trust:
        wanted = "be trusted, with --trust or trust=True, because the file is a program that would run here"
        raise InputError.expected("model", wanted, str(path))


def _hugging_face(folder: str, **settings: Any) -> Network:
    settings.pop("trust")  # code that a folder brings along is never run
    path = expanded("model", folder)
    if not (path / "config.json").is_file():
        wanted = "be hf: and a folder with config.json, as save_pretrained writes it"
        raise InputError.expected("model", wanted, repr(str(path)))
    transformers = optional("transformers", "hf: folders")
    kind = _config(path).get("problem_type")
    if kind not in (None, "single_label_classification"):
        wanted = "tell classes apart, one for each input: certcal certifies no " + str(kind).replace("_", " ")
        raise InputError.expected("model", wanted, f"{path}, made for it")
    with _opening("be a folder of an image classifier", path):
        network, loaded = transformers.AutoModelForImageClassification.from_pretrained(
            path,
            **settings | {"local_files_only": True, "trust_remote_code": False, "weights_only": True},
            output_loading_info=True,
        )
    if missing := sorted(loaded["missing_keys"]):
        made = ", ".join(_config(path).get("architectures") or ["another task"])
        got = f"{path}, made for {made}, without {missing[0]}"
        raise InputError.expected("model", "be a folder of a trained image classifier", got)
    return preparation(path, int(getattr(network.config, "num_channels", 3))), network


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    with InputError.expecting(str(file), "be JSON", on=(ValueError, TypeError)):
        return dict(json.loads(file.read_text(encoding="utf-8")))


def _timm(name: str, *, trust: bool, classes: int, channels: int = 3, **settings: Any) -> Network:
    timm = optional("timm", "timm: names", hint=" It needs torchvision, built for the torch that is installed.")
    with _opening("be timm: and a name of its models", repr(name)):
        network: nn.Module = timm.create_model(name, **{"num_classes": classes, "in_chans": channels} | settings)
    about = getattr(network, "pretrained_cfg", None) or {}
    known = "mean" in about and len(about["mean"]) == channels
    return Normalize(about["mean"], about["std"]) if known else None, network


def optional(package: str, what: str, *, hint: str = "") -> Any:
    """A package that only some people have, for something of theirs."""
    try:
        return import_module(package)
    except Exception as error:  # beside another build of torch, torchvision fails while importing, with a RuntimeError
        told = f"For {what} certcal needs {package}, which did not import here: {one_line(error).rstrip('.')}.{hint}"
        raise InputError(told) from error


def _opening(wanted: str, source: object) -> AbstractContextManager[None]:
    """Within this context a model is opened, which may fail with anything."""
    return InputError.expecting("model", wanted, lambda error: f"{source}: {one_line(error)}")


def _existing(name: str) -> Path:
    path = expanded("model", name)
    if not path.is_file():
        raise InputError.expected("model", "be a file that exists", repr(str(path)))
    return path


def _content(path: Path) -> str:
    """SHA-256 of an ONNX file and of those beside it that it names, such as net.onnx.data: they hold its weights."""
    content = path.read_bytes()
    digest = hashlib.sha256(content)
    for part in sorted(path.parent.iterdir()):
        if part != path and len(part.name) > 4 and part.name.encode() in content and part.is_file():
            digest.update(part.read_bytes())
    return digest.hexdigest()
