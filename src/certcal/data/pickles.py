"""Pickles of plain data, read without running any code of theirs."""

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.errors import InputError


def load_plain_pickle(path: Path) -> Any:
    """What a pickle of dicts, lists, tuples, strings, bytes, numbers and numeric arrays holds.

    Unpickling may call anything that can be imported. Here the few names that an array needs are replaced by
    functions of ours, and every other name is refused.
    """
    # A damaged pickle fails in as many ways as there are opcodes.
    with InputError.expecting(str(path), "be a pickle of plain data and arrays"), path.open("rb") as file:
        return _PlainUnpickler(file, encoding="bytes").load()


def _plain_dtype(code: Any, *_: Any) -> np.dtype[Any]:
    text = code.decode("latin1") if isinstance(code, bytes) else str(code)
    if not re.fullmatch(r"[<>|=]?[biuf]\d{1,2}", text):
        raise pickle.UnpicklingError(f"an array of dtype {text!r}")
    # Files from Python 2 also pass `align` and `copy` as numbers, which NumPy 2.4 warns at; they change nothing.
    return np.dtype(text)


def _empty_array(*_: Any) -> NDArray[Any]:
    # The pickle fills it in its next step, through ndarray.__setstate__, which checks the size.
    return np.empty(0, dtype=np.int8)


def _encoded(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")  # how protocols 0 to 2 of Python 3 write bytes


def _sealed(function: Callable[..., Any]) -> Any:
    """Something to call that has no attributes a pickle's BUILD step could set."""
    return type("Sealed", (), {"__slots__": (), "__call__": staticmethod(function)})()


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _sealed(_plain_dtype),
    ("numpy", "ndarray"): "ndarray",  # named as an argument only; a string cannot be called
    ("numpy.core.multiarray", "_reconstruct"): _sealed(_empty_array),
    ("numpy._core.multiarray", "_reconstruct"): _sealed(_empty_array),
    ("_codecs", "encode"): _sealed(_encoded),
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"one that asks for {module}.{name}, refused because it could run code")
        return _ADMITTED[module, name]
