"""Tiny files in the published formats, written byte by byte, independently of certcal's readers."""

import gzip
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def random_images(n: int, channels: int, size: int, *, seed: int = 0) -> Bytes:
    """Random bytes, shape (n, channels, size, size)."""
    return np.random.default_rng(seed).integers(0, 256, (n, channels, size, size), dtype=np.uint8)


def idx_bytes(array: Bytes) -> bytes:
    """An IDX file of unsigned bytes."""
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(folder: Path, images: Bytes, labels: Bytes, *, prefix: str = "t10k", zipped: bool = True) -> None:
    """The two files of one split of an MNIST-like data set."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", images[:, 0]), ("labels-idx1", labels)):
        content = idx_bytes(array)
        name = f"{prefix}-{kind}-ubyte" + (".gz" if zipped else "")
        (folder / name).write_bytes(gzip.compress(content) if zipped else content)


def cifar_binary(images: Bytes, *labels: Bytes) -> bytes:
    """A CIFAR .bin file: per image its label bytes, then red, green and blue planes."""
    return np.concatenate([*(column[:, None] for column in labels), images.reshape(len(images), -1)], axis=1).tobytes()


def python2_batch(images: Bytes, labels: Bytes, *, key: str = "labels") -> bytes:
    """A CIFAR batch as Python 2 pickled it: byte strings, the old NumPy names, and numbers where booleans are meant."""
    rows = images.reshape(len(images), -1)
    shape = b"".join(b"J" + struct.pack("<i", size) for size in rows.shape) + b"\x86"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    data = b"T" + struct.pack("<I", rows.size) + rows.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + shape + dtype
    array += b"\x89" + data + b"tb"
    targets = b"](" + b"".join(b"K" + bytes((int(label),)) for label in labels) + b"e"
    name = key.encode()
    return b"\x80\x02}(U\x04data" + array + b"U" + bytes((len(name),)) + name + targets + b"u."
