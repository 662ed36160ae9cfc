"""What people call an input — bytes, 16-bit pixels, pictures — as numbers, and where its label is."""

from collections.abc import Mapping
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


def as_values(value: Any, *, bytes_to_unit: bool = True, rgb: bool = False) -> Tensor:
    """One input, or several, as float32: bytes and 16-bit pixels divided by their largest, a picture with its channels
    first (grey ones with three, if `rgb`), other floats as they are."""
    if is_picture(value):
        value = _channels_of(value, rgb)
    tensor = as_tensor(value)
    if tensor.is_floating_point() or not bytes_to_unit:
        return tensor.to(torch.float32)
    if tensor.dtype not in DEPTHS:
        mend = "make bytes uint8, divide other pixels by their largest value, or say values='any' of what is no image"
        raise InputError.expected("inputs", "be uint8, uint16 or floats in [0, 1]", f"dtype {tensor.dtype} ({mend})")
    return tensor.to(torch.float32) / DEPTHS[tensor.dtype]


def is_picture(value: Any) -> bool:
    """Whether it is a picture of Pillow's."""
    return hasattr(value, "getbands")


def is_grey(picture: Any) -> bool:
    """Whether a picture of Pillow's has one channel, of brightness."""
    return picture.mode in ("1", "L", "F") or picture.mode.startswith("I")


def _channels_of(picture: Any, rgb: bool) -> NDArray[Any]:
    """Its channels (c, h, w); colours of a palette or of another space become red, green and blue."""
    if picture.mode in ("P", "CMYK", "YCbCr", "HSV"):
        picture = picture.convert("RGB")
    array = np.asarray(picture.convert("L") if picture.mode == "1" else picture)
    if array.ndim == 3:
        return np.moveaxis(array, -1, 0)
    return np.repeat(array[None], 3, axis=0) if rgb else array[None]


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
