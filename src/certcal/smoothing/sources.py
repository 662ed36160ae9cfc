"""Data in the forms people have it — arrays, lists of pairs, a Dataset, a DataLoader — as one stream of inputs."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from certcal.data import (
    ImageData,
    as_classes,
    as_pair,
    as_values,
    channels_first,
    check_names,
    check_told_names,
    is_grey,
    is_picture,
)
from certcal.errors import InputError
from certcal.inputs import contiguous, to_numpy
from certcal.settings import Values


@dataclass(frozen=True, eq=False)
class Item:
    """One input with its number, by which its noise is drawn, and its label."""

    index: int
    input: Tensor  # float32, (c, h, w) or any shape
    label: int

    @cached_property
    def content(self) -> int:
        """A 64-bit hash of the input's shape and values."""
        digest = hashlib.blake2b(str(tuple(self.input.shape)).encode(), digest_size=8)
        digest.update(self.input.contiguous().numpy().tobytes())
        return int.from_bytes(digest.digest(), "little", signed=True)


class Source:
    """Numbered inputs of a data set, read when needed; in [0, 1], or of any values."""

    def __init__(self, data: Any, *, values: Values = Values.UNIT) -> None:
        if isinstance(data, Mapping):
            data = as_pair(data, "instead of them (of several splits give one)")
        self._data, self._values = data, values
        self._rgb = self._grey = False  # whether pictures get three channels, and plain pixels one
        self._named: tuple[str, ...] | None = None  # classes, where labels are names
        self.units = values.units
        if isinstance(data, ImageData):
            self._values, self.units = data.values, data.units
            self.indices = data.index.tolist()  # positions in the original data set: a subset keeps its noise
        elif isinstance(data, DataLoader):
            self.indices = list(range(_loader_length(data)))
        elif _is_arrays(data):
            self._data, self._named = _as_tensors(data[0], data[1])
            self.indices = _as_indices(data[2], len(self._data[0])) if len(data) == 3 else list(range(len(data[0])))
        elif (
            hasattr(data, "__len__")
            and hasattr(data, "__getitem__")
            and not isinstance(data, str)
            and not hasattr(data, "iloc")
        ):  # a Dataset, one of Hugging Face's, a list
            self.indices = list(range(len(data)))
        else:
            kinds = "be (inputs, labels), (inputs, labels, indices), a Dataset with a length or a DataLoader"
            raise InputError.expected("data", kinds, type(data).__name__)
        if len(set(self.indices)) != len(self.indices):
            raise InputError.expected("data", "hold each input once", "repeated indices")
        if not self.indices:
            raise InputError.expected("data", "hold at least one input", "none")

    def __len__(self) -> int:
        return len(self.indices)

    def items(self, skip: set[int]) -> Iterator[Item]:
        """The inputs but for those to skip: of data read by position in an order by which any first part is spread."""
        if isinstance(self._data, DataLoader):
            for index, (value, label) in zip(self.indices, _unbatched(self._data), strict=True):
                if index not in skip:
                    yield self._item(index, value, label)
            return
        for position in _spread(len(self)):
            if (index := self.indices[position]) not in skip:
                yield self._item(index, *self._at(position))

    def some(self, count: int) -> Tensor:
        """A few of the inputs, evenly spread; of a DataLoader the first."""
        if isinstance(self._data, DataLoader):
            return torch.stack([item.input for item in islice(self.items(set()), count)])
        places = sorted({n * len(self) // count for n in range(count)})
        items = (self._item(self.indices[place], *self._at(place)) for place in places)
        return torch.stack([item.input for item in items])

    def _at(self, position: int) -> tuple[Any, Any]:
        if isinstance(self._data, tuple):
            return self._data[0][position], self._data[1][position]
        return as_pair(self._data[position], f"at {position}")

    def settle(self, ask: Callable[[Tensor], int]) -> int:
        """The answer to the first input, in the first form that it is given for: as the input is, or with channels.

        Pixels (h, w) may lack their channel. Pictures of Pillow's may be grey among coloured ones: if the first is
        coloured, or asked for with three channels, all get three.
        """
        value = next(_unbatched(self._data))[0] if isinstance(self._data, DataLoader) else self._at(0)[0]
        self._rgb = is_picture(value) and not is_grey(value)
        first = next(self.items(set())).input
        try:
            return ask(first)
        except InputError:
            self._rgb = is_picture(value)
            self._grey = self._values is Values.UNIT and first.ndim == 2
            if self._rgb or self._grey:
                try:
                    return ask(next(self.items(set())).input)
                except InputError:
                    pass
            raise

    def _item(self, index: int, value: Any, label: Any) -> Item:
        """An item, if its input holds what it should and its label is a class."""
        unit = self._values is Values.UNIT
        try:
            tensor = as_values(value, bytes_to_unit=unit, rgb=self._rgb)
        except InputError as error:
            raise InputError(f"{error} (Input {index} of the data.)") from error
        if unit and tensor.ndim == 3:
            tensor = channels_first(tensor[None])[0]
        tensor = tensor[None] if self._grey and tensor.ndim == 2 else tensor
        low, high = (float(end) for end in tensor.aminmax())
        if not (-math.inf < low and high < math.inf):
            raise InputError.expected("data", "hold finite numbers", f"NaN or infinity in input {index}")
        if unit and not (low >= 0.0 and high <= 1.0):
            wanted = "hold inputs in [0, 1] (normalisation is the model's first layer; values='any' takes all numbers)"
            raise InputError.expected("data", wanted, f"values from {low:.4g} to {high:.4g} at input {index}")
        return Item(index, tensor, self._number_of(label, index) if isinstance(label, str) else _class_of(label, index))

    def _number_of(self, name: str, index: int) -> int:
        if name not in self._numbers:
            raise InputError.expected(
                "data", f"name a class of {', '.join(self._numbers)}", f"{name!r} at input {index}"
            )
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each class name: for that, all labels are read."""
        labels = _all_labels(self._data)
        numbers, self._named = as_classes(labels, name="data")
        return dict(zip(labels, numbers.tolist(), strict=True))

    def check_names(self, outputs: int, own: tuple[str, ...]) -> None:
        """Refuse class names whose numbers are not the model's, which may have names of its own."""
        if self._named is not None:
            check_names(self._named, outputs, found=True, own=own)
        else:
            check_told_names(self._data, outputs, own)


def _spread(count: int) -> list[int]:
    """Positions in the order of their multiples of the golden section, modulo 1: the first so many are evenly spread.

    A run that was interrupted so has inputs of all classes, where a folder has one class after the other.
    """
    return [int(one) for one in np.argsort(np.arange(count) * ((math.sqrt(5) - 1) / 2) % 1.0, kind="stable")]


def _is_arrays(data: Any) -> bool:
    """Whether it is inputs with their labels, and perhaps indices, rather than a list of two or three pairs."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        return False
    pairs = isinstance(data, list) and all(isinstance(one, tuple | Mapping) for one in data)
    return not pairs


def _all_labels(data: Any) -> list[Any]:
    """The label of every input: a column of Hugging Face's at once, otherwise one by one."""
    if isinstance(data, DataLoader):
        return [label for _, label in _unbatched(data)]
    if hasattr(data, "column_names") and isinstance(first := data[0], Mapping):
        label = as_pair(first, "at 0")[1]
        if (own := next(key for key, value in first.items() if value is label)) in data.column_names:
            return list(data.with_format(None)[own])
    return [as_pair(data[position], f"at {position}")[1] for position in range(len(data))]


def _as_tensors(inputs: Any, labels: Any) -> tuple[tuple[Tensor, Any], tuple[str, ...] | None]:
    values = inputs if isinstance(inputs, Tensor) else torch.from_numpy(contiguous(to_numpy("inputs", inputs)))
    classes, named = as_classes(labels)
    if classes.ndim != 1 or len(classes) != len(values):
        raise InputError.expected("labels", f"be one number per input ({len(values)})", f"shape {classes.shape}")
    return (values, classes), named


def _as_indices(indices: Any, length: int) -> list[int]:
    numbers = to_numpy("indices", indices)
    unique = numbers.ndim == 1 and numbers.dtype.kind in "ui" and len(np.unique(numbers)) == length == len(numbers)
    if not unique or (length and (numbers.min() < 0 or numbers.max() >= 2**63)):
        raise InputError.expected(
            "indices", f"be {length} different whole numbers from 0 to 2^63 − 1", f"shape {numbers.shape}"
        )
    return [int(number) for number in numbers]


def _loader_length(loader: "DataLoader[Any]") -> int:
    """How many inputs a loader gives, if it gives all of its data set in order."""
    batches = loader.batch_sampler
    order = batches.sampler if isinstance(batches, BatchSampler) else loader.sampler if batches is None else None
    if not isinstance(order, SequentialSampler):
        raise InputError.expected("data", "be in a fixed order", f"a DataLoader with {type(order or batches).__name__}")
    if isinstance(batches, BatchSampler) and batches.drop_last:
        raise InputError.expected("data", "give every input", "a DataLoader with drop_last=True")
    if not hasattr(loader.dataset, "__len__"):
        raise InputError.expected("data", "have a length", f"a DataLoader over {type(loader.dataset).__name__}")
    return len(loader.dataset)


def _unbatched(loader: "DataLoader[Any]") -> Iterator[tuple[Any, Any]]:
    for batch in loader:
        inputs, labels = as_pair(batch, "as a batch")
        if loader.batch_sampler is None:
            yield inputs, labels
        else:
            yield from zip(inputs, labels, strict=True)


def _class_of(label: Any, index: int) -> int:
    if not isinstance(label, int | np.integer):
        try:
            label = as_classes(np.asarray(label)[None])[0][0]
        except InputError as error:
            raise InputError(f"{error} (Input {index} of the data.)") from error
    if not 0 <= label < math.inf:
        raise InputError.expected("data", "have labels that are class numbers ≥ 0", f"{label} at input {index}")
    return int(label)
