"""CIFAR-10 and CIFAR-100: the binary version, and the Python version, of pickles read without running their code."""

import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.errors import InputError

PIXELS = 3 * 32 * 32
Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_cifar_binary(paths: Sequence[Path], *, label_bytes: int) -> Arrays:
    """Images (n, 3, 32, 32) and labels (n,) from .bin files; the last of the label bytes is the (fine) class."""
    record = label_bytes + PIXELS
    parts = []
    for path in paths:
        content = np.fromfile(path, dtype=np.uint8)
        if content.size == 0 or content.size % record:
            raise InputError.expected(str(path), f"hold whole records of {record} bytes", f"{content.size} bytes")
        parts.append(content.reshape(-1, record))
    rows = np.concatenate(parts)
    images = np.ascontiguousarray(rows[:, label_bytes:]).reshape(-1, 3, 32, 32)
    return images, rows[:, label_bytes - 1].astype(np.int64)


def read_cifar_python(paths: Sequence[Path], *, key: str) -> Arrays:
    """Images (n, 3, 32, 32) and labels (n,) from Python batches, which are pickles: only plain data is admitted."""
    parts = [_python_batch(path, key) for path in paths]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def _python_batch(path: Path, key: str) -> Arrays:
    batch = load_plain_pickle(path)
    images, labels = _entry(path, batch, "data"), _entry(path, batch, key)
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.shape[1:] == (PIXELS,)):
        got = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise InputError.expected(str(path), f"hold 'data' as uint8 of shape (n, {PIXELS})", got)
    if not (isinstance(labels, list) and all(type(label) is int for label in labels)):
        raise InputError.expected(str(path), f"hold '{key}' as a list of integers", type(labels).__name__)
    if len(labels) != len(images):
        raise InputError.expected(str(path), f"hold {len(images)} labels, one per image", len(labels))
    return images.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


def _entry(path: Path, batch: object, key: str) -> Any:
    # Python 2 wrote these files, so the keys are bytes; newer copies have str.
    for spelling in (key.encode(), key):
        if isinstance(batch, dict) and spelling in batch:
            return batch[spelling]
    got = f"keys {sorted(map(str, batch))}" if isinstance(batch, dict) else type(batch).__name__
    raise InputError.expected(str(path), f"be a batch with an entry '{key}'", got)


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
