"""CIFAR-10 and CIFAR-100: the binary version and the Python version."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.data.pickles import load_plain_pickle
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
