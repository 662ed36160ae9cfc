"""Images from arrays: in memory or in a NumPy .npz file."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from certcal.data.entries import as_tensor, as_values, channels_first
from certcal.data.images import ImageData
from certcal.data.labels import as_classes
from certcal.errors import InputError
from certcal.inputs import as_class_numbers, check_same_length
from certcal.scalars import check_choice
from certcal.settings import MAX_CLASSES, Values
from certcal.types import ArrayLike


def from_arrays(
    inputs: ArrayLike,
    labels: ArrayLike | Sequence[str],
    *,
    classes: Sequence[str] | None = None,
    name: str = "arrays",
    source: str = "memory",
    values: str = Values.UNIT,
) -> ImageData:
    """Labelled inputs from arrays: images of shape (n, c, h, w), (n, h, w, c) or (n, h, w), or anything of one shape.

    Args:
        inputs: bytes (uint8), 16-bit pixels (uint16) or floats in [0, 1]; any finite numbers if `values` is "any".
        labels: whole numbers from 0, truth values, names, which are numbered in sorted order, or one-hot rows.
        classes: class names; without them the classes are the sorted names, or '0', …, up to the largest label.
        name: what to call the data.
        source: where it comes from.
        values: "any" for inputs that do not live in [0, 1]: tables, signals, embeddings. Their shape may be any, and
            radii are in their own units.

    >>> from_arrays(np.zeros((2, 4, 4), dtype=np.uint8), [0, 1], name="blank")
    ImageData(blank: 2 inputs of 1×4×4, 2 classes, from memory)
    >>> from_arrays([[-3.0, 5.0], [0.5, 2.0]], ["no", "yes"], values="any").classes
    ('no', 'yes')
    """
    held = Values(check_choice("values", values, tuple(Values)))
    pixels = _as_pixels(inputs) if held is Values.UNIT else _as_numbers(inputs)
    numbers, named = as_classes(labels, classes=classes)
    check_same_length("labels", numbers, "inputs", np.empty(len(pixels)))
    most = MAX_CLASSES if classes is None else len(classes)
    targets = torch.from_numpy(as_class_numbers("labels", numbers, inputs=len(pixels), classes=most))
    if classes is not None and len(classes) > MAX_CLASSES:
        raise InputError.expected("classes", f"be at most {MAX_CLASSES:,}", len(classes))
    known = named or (map(str, range(int(targets.max()) + 1)) if classes is None else classes)
    index = torch.arange(len(pixels))
    return ImageData(
        pixels,
        targets,
        tuple(map(str, known)),
        index,
        name,
        source,
        values=held,
        found=named is not None and classes is None,
    )


def read_npz(path: Path, *, split: str | None, values: Values = Values.UNIT) -> ImageData:
    """The arrays `inputs` and `labels` of a .npz file, or `test_inputs` and `test_labels` for the split "test".

    An array `classes` of strings, where there is one, names the classes.
    """
    prefix = "" if split is None else f"{split}_"
    wanted = [f"{prefix}inputs", f"{prefix}labels"]
    damage = (OSError, ValueError, EOFError, zipfile.BadZipFile)
    with (
        InputError.expecting(str(path), "be a NumPy .npz file of plain arrays", on=damage),
        path.open("rb") as file,  # here, because NumPy leaves a file that is no archive open
        np.load(file, allow_pickle=False) as archive,
    ):
        # A lone .npy array has no names, and is not what we ask for.
        held = list(getattr(archive, "files", []))
        if not set(wanted) <= set(held):
            raise InputError.expected(str(path), f"hold arrays {' and '.join(wanted)}", ", ".join(held) or "none")
        inputs, labels = (archive[key] for key in wanted)
        classes = archive["classes"].tolist() if "classes" in held else None
    return from_arrays(inputs, labels, classes=classes, name=path.stem, source=str(path), values=values)


def _as_pixels(inputs: ArrayLike) -> Tensor:
    pixels = as_tensor(inputs)
    if pixels.ndim == 3:
        pixels = pixels.unsqueeze(1)
    pixels, shape = channels_first(pixels), tuple(pixels.shape)
    if len(shape) != 4 or 0 in shape:
        wanted = "have shape (n, c, h, w), (n, h, w, c) or (n, h, w) with n ≥ 1"
        got = f"shape {shape} (what is no image takes --values any, in Python values='any')"
        raise InputError.expected("inputs", wanted, got)
    if pixels.dtype == torch.uint8:
        return pixels
    pixels = as_values(pixels)
    low, high = (float(value) for value in pixels.aminmax())
    _check_finite(pixels)
    if not (low >= 0.0 and high <= 1.0):
        wanted, got = "lie in [0, 1], or be bytes", f"values from {low:.4g} to {high:.4g}"
        if low < 0:
            got += (
                ": normalised already? (give the images as they were, and their normalisation as --mean and --std; "
                "what is no image takes --values any, in Python values='any')"
            )
        elif high <= 255:  # scikit-learn's digits go to 16
            got += ": divide them by 255" if high > 64 else ": divide them by the largest value that there can be"
        raise InputError.expected("inputs", wanted, got)
    return pixels


def _as_numbers(inputs: ArrayLike) -> Tensor:
    values = as_values(as_tensor(inputs), bytes_to_unit=False)
    if values.ndim < 2 or 0 in values.shape:
        raise InputError.expected("inputs", "have shape (n, …) with n ≥ 1", f"shape {tuple(values.shape)}")
    _check_finite(values)
    return values


def _check_finite(values: Tensor) -> None:
    broken = (~values.isfinite()).flatten(1).any(dim=1)
    if broken.any():
        got = (
            f"NaN or infinity in {int(broken.sum())} of {len(values)} inputs, the first at {int(broken.int().argmax())}"
        )
        raise InputError.expected("inputs", "hold finite numbers", got)
