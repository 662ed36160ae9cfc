"""What people call an input and a label — bytes, 16-bit pixels, pictures, names, one-hot vectors — as numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from certcal.errors import InputError
from certcal.inputs import to_numpy

INPUTS = ("image", "img", "pixel_values", "input_values", "input", "inputs", "features", "embedding", "x", "data")
LABELS = ("label", "labels", "fine_label", "target", "targets", "class", "y")
DEPTHS: dict[Any, float] = {torch.uint8: 255.0, torch.uint16: 65535.0}  # pixels of 8 and 16 bits, up to 1


def as_pair(entry: Any, where: str) -> tuple[Any, Any]:
    """Input and label of an entry or a batch: a tuple or list that starts with them, or a dict that names them."""
    if isinstance(entry, Mapping):
        found = [[key for key in names if key in entry] for names in (INPUTS, LABELS)]
        if all(len(one) == 1 for one in found):
            return entry[found[0][0]], entry[found[1][0]]
        named = f"one of {', '.join(INPUTS)} and one of {', '.join(LABELS)}"
        raise InputError.expected("data", f"name {named}", f"the keys {', '.join(map(str, entry))} {where}")
    if isinstance(entry, tuple | list) and len(entry) >= 2:
        return entry[0], entry[1]
    kind = f"{type(entry).__name__} of {len(entry)}" if isinstance(entry, tuple | list) else type(entry).__name__
    raise InputError.expected("data", "give (input, label) pairs", f"a {kind} {where}")


def as_values(value: Any, *, bytes_to_unit: bool = True) -> Tensor:
    """One input, or several, as float32: bytes and 16-bit pixels divided by their largest, a picture with its channels
    first, other floats as they are."""
    if hasattr(value, "getbands"):  # a picture of Pillow's
        value = np.asarray(value)
        value = value[None] if value.ndim == 2 else np.moveaxis(value, -1, 0)
    tensor = as_tensor(value)
    if tensor.is_floating_point():
        return tensor.to(torch.float32)
    if bytes_to_unit and tensor.dtype in DEPTHS:
        return tensor.to(torch.float32) / DEPTHS[tensor.dtype]
    if bytes_to_unit:
        raise InputError.expected("inputs", "be uint8, uint16 or floats", f"dtype {tensor.dtype}")
    return tensor.to(torch.float32)


def channels_first(values: Tensor) -> Tensor:
    """Images (n, c, h, w); those whose channels obviously come last, as (n, 28, 30, 3), turned."""
    shape = values.shape
    if values.ndim == 4 and shape[3] in (1, 3, 4) and shape[1] not in (1, 3, 4):
        return values.permute(0, 3, 1, 2).contiguous()
    return values


def as_tensor(value: Any) -> Tensor:
    """An array as a tensor on the CPU, in its own type."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    array = to_numpy("inputs", value)
    # torch takes native byte order only, and warns at arrays that must not be written.
    native = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
    return torch.from_numpy(np.ascontiguousarray(native))


def as_classes(labels: Any, *, classes: Sequence[str] | None = None) -> tuple[Any, tuple[str, ...] | None]:
    """Labels as numbers, and the names they stand for where they were names (sorted); else as they came, and None.

    One-hot rows become the number of their one. Several ones are many labels, and other numbers a regression: neither
    is a class.
    """
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    table = np.asarray(labels) if not _is_text(labels) else np.asarray(labels, dtype=np.str_)
    if table.dtype.kind in "US" and table.ndim == 1:
        return _from_names(table.astype(np.str_), classes)
    if table.ndim == 2 and table.dtype.kind in "buif" and table.shape[1] > 1:
        return _from_one_hot(table), None
    if table.ndim == 1 and table.dtype.kind == "f" and not np.array_equal(table, np.floor(table)):
        wrong = table[np.argmax(table != np.floor(table))]
        raise InputError.expected("labels", "be classes: certcal certifies no regression", f"{wrong}")
    return labels, None


def _is_text(labels: Any) -> bool:
    if isinstance(labels, np.ndarray):
        return labels.dtype == object and all(isinstance(one, str) for one in labels.ravel())
    kind = str(getattr(labels, "dtype", ""))  # of a pandas column
    return kind in ("str", "string", "category", "object")


def _from_names(names: NDArray[Any], classes: Sequence[object] | None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    found = set(names.tolist())
    if classes is None and found and all(name.isdecimal() and len(name) < 6 for name in found):  # numbers as texts
        classes = range(max(map(int, found)) + 1)
        names = np.array([str(int(name)) for name in names.tolist()], dtype=object)
    known = tuple(sorted(found)) if classes is None else tuple(map(str, classes))
    place = {name: number for number, name in enumerate(known)}
    unknown = next((name for name in names.tolist() if name not in place), None)
    if unknown is not None:
        raise InputError.expected("labels", f"be among the classes {', '.join(known)}", repr(unknown))
    return np.array([place[name] for name in names.tolist()], dtype=np.int64), known


def _from_one_hot(table: NDArray[Any]) -> NDArray[np.int64]:
    if not np.isin(table, (0, 1)).all():
        raise InputError.expected("labels", "be class numbers, names or one-hot rows", f"shape {table.shape}")
    ones = table.sum(axis=1)
    if (ones != 1).any():
        row = int(np.argmax(ones != 1))
        wanted = "have one class per input: certcal certifies no multi-label classification"
        raise InputError.expected("labels", wanted, f"{int(ones[row])} in row {row}")
    numbers: NDArray[np.int64] = table.argmax(axis=1).astype(np.int64)
    return numbers
