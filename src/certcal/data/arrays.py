"""Images from arrays: in memory or in a NumPy .npz file."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from certcal.data.images import ImageData
from certcal.errors import InputError, one_line
from certcal.inputs import as_vector, check_same_length, to_numpy
from certcal.settings import MAX_CLASSES
from certcal.types import ArrayLike


def from_arrays(
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    name: str = "arrays",
    source: str = "memory",
) -> ImageData:
    """Labelled images from arrays of shape (n, c, h, w), or (n, h, w) for one channel.

    Args:
        inputs: bytes (uint8, 0 to 255) or floats in [0, 1].
        labels: whole numbers from 0, shape (n,).
        classes: class names; without them the classes are '0', …, up to the largest label.
        name: what to call the data.
        source: where it comes from.

    >>> from_arrays(np.zeros((2, 4, 4), dtype=np.uint8), [0, 1], name="blank")
    ImageData(blank: 2 images of 1×4×4, 2 classes, from memory)
    """
    pixels = _as_pixels(inputs)
    targets = _as_labels(labels, len(pixels), None if classes is None else len(classes))
    if classes is not None and len(classes) > MAX_CLASSES:
        raise InputError.expected("classes", f"be at most {MAX_CLASSES:,}", len(classes))
    names = map(str, range(int(targets.max()) + 1) if classes is None else classes)
    return ImageData(pixels, targets, tuple(names), torch.arange(len(pixels)), name, source)


def read_npz(path: Path, *, split: str | None) -> ImageData:
    """The arrays `inputs` and `labels` of a .npz file, or `test_inputs` and `test_labels` for the split "test".

    An array `classes` of strings, where there is one, names the classes.
    """
    prefix = "" if split is None else f"{split}_"
    wanted = [f"{prefix}inputs", f"{prefix}labels"]
    try:
        # Opened here, because NumPy leaves a file that is no archive open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            # A lone .npy array has no names, and is not what we ask for.
            held = list(getattr(archive, "files", []))
            if not set(wanted) <= set(held):
                raise InputError.expected(str(path), f"hold arrays {' and '.join(wanted)}", ", ".join(held) or "none")
            inputs, labels = (archive[key] for key in wanted)
            classes = archive["classes"].tolist() if "classes" in held else None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError.expected(str(path), "be a NumPy .npz file of plain arrays", one_line(error)) from error
    return from_arrays(inputs, labels, classes=classes, name=path.stem, source=str(path))


def _as_pixels(inputs: ArrayLike) -> Tensor:
    pixels = _as_tensor(inputs)
    if pixels.ndim == 3:
        pixels = pixels.unsqueeze(1)
    shape = tuple(pixels.shape)
    if len(shape) != 4 or 0 in shape:
        raise InputError.expected("inputs", "have shape (n, c, h, w) or (n, h, w) with n ≥ 1", f"shape {shape}")
    if shape[3] in (1, 3, 4) and shape[1] not in (1, 3, 4):
        raise InputError.expected("inputs", "have the channels second, shape (n, c, h, w)", f"shape {shape}")
    if pixels.dtype == torch.uint8:
        return pixels
    if not pixels.is_floating_point():
        raise InputError.expected("inputs", "be uint8 or floats in [0, 1]", f"dtype {pixels.dtype}")
    pixels = pixels.to(torch.float32)
    low, high = (float(value) for value in pixels.aminmax())
    if not (low >= 0.0 and high <= 1.0):  # a NaN fails both
        raise InputError.expected("inputs", "lie in [0, 1] (or be uint8)", f"values from {low} to {high}")
    return pixels


def _as_tensor(inputs: ArrayLike) -> Tensor:
    if isinstance(inputs, Tensor):
        return inputs.detach().cpu()
    array = to_numpy("inputs", inputs)
    # torch takes native byte order only, and warns at arrays that must not be written.
    native = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
    return torch.from_numpy(np.ascontiguousarray(native))


def _as_labels(labels: ArrayLike, n: int, k: int | None) -> Tensor:
    vector = as_vector("labels", labels)
    check_same_length("labels", vector, "inputs", np.empty(n, dtype=np.bool_))
    if vector.dtype.kind == "b":
        raise InputError.expected("labels", "be whole numbers", "booleans")
    most = MAX_CLASSES if k is None else k
    valid = (vector >= 0) & (vector == np.floor(vector)) & (vector < most)
    if not valid.all():
        position = int(np.argmin(valid))
        wanted = f"be whole numbers from 0 to {most - 1:,}"
        raise InputError.expected("labels", wanted, f"{vector[position]} at index {position}")
    return torch.from_numpy(vector.astype(np.int64))
