"""What people call a model, as a module that can be held still, moved and fingerprinted."""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from certcal.data import tensor_bytes
from certcal.errors import InputError


def as_module(model: object) -> nn.Module:
    """A model as it is; a function, a method or an exported program as a module that calls it."""
    if isinstance(model, nn.Module):
        return model
    if isinstance(model, torch.export.ExportedProgram):
        return exported(model)
    if not callable(model) or isinstance(model, type):
        got = f"the class {model.__name__} itself" if isinstance(model, type) else type(model).__name__
        raise InputError.expected("model", "be a torch.nn.Module or a function from a batch to outputs", got)
    return Function(model)


class Function(nn.Module):
    """A function from a batch to outputs.

    Networks that it holds, in its closure, its globals or as the object of a method, are its parts: they are put into
    evaluation mode, moved and fingerprinted with it. Other numbers that it uses do not count in the fingerprint.
    """

    def __init__(self, call: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.call = call
        self.parts = nn.ModuleList(dict.fromkeys(_networks(call)))

    def forward(self, inputs: Tensor) -> Any:
        return self.call(inputs)

    def get_extra_state(self) -> str:
        """The function's name and instructions, by which its fingerprint knows it."""
        function = _plain(self.call)
        named = function if hasattr(function, "__qualname__") else type(function)
        own = ""
        if code := getattr(function, "__code__", None):
            # Of functions inside it their instructions: their own name holds an address.
            constants = [one.co_code if inspect.iscode(one) else one for one in code.co_consts]
            own = _digest([code.co_code, repr(constants).encode()])
        return f"{named.__module__}.{named.__qualname__} {own}"

    def set_extra_state(self, state: str) -> None:
        """Nothing to restore."""


class Program(nn.Module):
    """A program from a file, on the CPU; its fingerprint is that of the file's content."""

    def __init__(self, call: Callable[[Tensor], Any], content: str) -> None:
        super().__init__()
        self._held = (call,)  # as no part of this module: an exported one refuses to be put into evaluation mode
        self.content = content

    def forward(self, inputs: Tensor) -> Any:
        return self._held[0](inputs)

    def get_extra_state(self) -> str:
        return self.content

    def set_extra_state(self, state: str) -> None:
        """Nothing to restore."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Program":
        device = fn(torch.empty(0)).device
        if device.type != "cpu":
            raise InputError.expected("device", "be cpu for an ONNX file or an exported program", device)
        return self


def exported(program: torch.export.ExportedProgram) -> Program:
    """An exported program, which knows no evaluation mode: it is run as it was exported."""
    parts = [str(program.graph).encode()]
    for name, value in sorted({**program.state_dict, **program.constants}.items()):
        parts += [name.encode(), bytes(tensor_bytes(value)) if isinstance(value, Tensor) else repr(value).encode()]
    return Program(program.module(), _digest(parts))


def _networks(call: Any) -> Iterator[nn.Module]:
    """The modules that a callable holds, one step deep."""
    if isinstance(call, partial):
        yield from _of((*call.args, *call.keywords.values()))
    function = _plain(call)
    yield from _of((getattr(function, "__self__", None),))
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        yield from _of(getattr(call, "__dict__", {}).values())  # an object that can be called
        function = type(call).__call__
    if inspect.isfunction(function) or inspect.ismethod(function):
        used = inspect.getclosurevars(function)
        yield from _of((*used.nonlocals.values(), *used.globals.values()))


def _of(values: Iterable[object]) -> Iterator[nn.Module]:
    for value in values:
        if isinstance(value, nn.Module):
            yield value
        elif value is not None and not isinstance(value, type) and hasattr(value, "__dict__"):
            yield from (one for one in vars(value).values() if isinstance(one, nn.Module))


def _plain(call: Any) -> Any:
    return _plain(call.func) if isinstance(call, partial) else inspect.unwrap(call)


def _digest(parts: Iterable[bytes]) -> str:
    """SHA-256 of parts, each with its length, so that none can run into the next."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()
