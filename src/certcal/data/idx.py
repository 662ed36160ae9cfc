"""The IDX format of the MNIST family, plain or gzipped."""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from certcal.errors import InputError

UNSIGNED_BYTE = 0x08


def read_idx_pair(paths: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 1, h, w) and labels (n,) from an image file and a label file."""
    images, labels = read_idx(paths[0], axes=3), read_idx(paths[1], axes=1)
    if len(images) != len(labels):
        raise InputError.expected(str(paths[1]), f"hold {len(images)} labels, one per image", len(labels))
    return images[:, None], labels


def read_idx(path: Path, *, axes: int) -> NDArray[np.uint8]:
    """The array of bytes in an IDX file that must have the given number of axes."""
    magic, start = bytes((0, 0, UNSIGNED_BYTE, axes)), 4 + 4 * axes
    content = _content(path, start)
    if content[:4] != magic:
        raise InputError.expected(
            str(path), f"start with the IDX magic {magic.hex(' ')}", content[:4].hex(" ") or "nothing"
        )
    shape = tuple(int(size) for size in np.frombuffer(content[4:start].ljust(4 * axes, b"\0"), dtype=">u4"))
    if len(content) != start + math.prod(shape):
        wanted = f"hold {math.prod(shape)} bytes for shape {shape}"
        raise InputError.expected(str(path), wanted, max(len(content) - start, 0))
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _content(path: Path, start: int) -> bytearray:
    """The file's bytes, and no more of a gzip file than its own header announces and one byte."""
    raw = path.read_bytes()
    if raw[:2] != b"\x1f\x8b":  # browsers unpack .gz files and keep the name, so ask the file itself
        return bytearray(raw)
    damage = (OSError, EOFError, zlib.error)
    with InputError.expecting(str(path), "be a whole gzip file", str, on=damage), gzip.open(path) as unpacked:
        head = unpacked.read(start)
        announced = math.prod(int(size) for size in np.frombuffer(head[4:].ljust(start - 4, b"\0"), dtype=">u4"))
        return bytearray(head + unpacked.read(announced + 1))
