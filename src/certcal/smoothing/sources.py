"""Data in the forms people have it — tensors, a Dataset, a DataLoader — as one stream of numbered inputs."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

from certcal.data import ImageData
from certcal.errors import InputError
from certcal.inputs import to_numpy


@dataclass(frozen=True, eq=False)
class Item:
    """One input with its number, by which its noise is drawn, and its label."""

    index: int
    input: Tensor  # float32, (c, h, w) or any shape, in [0, 1]
    label: int

    @cached_property
    def content(self) -> int:
        """A 64-bit hash of the input's shape and values."""
        digest = hashlib.blake2b(str(tuple(self.input.shape)).encode(), digest_size=8)
        digest.update(self.input.contiguous().numpy().tobytes())
        return int.from_bytes(digest.digest(), "little", signed=True)


class Source:
    """Numbered inputs of a data set, read when needed."""

    def __init__(self, data: Any) -> None:
        self._data = data
        if isinstance(data, ImageData):
            self.indices = data.index.tolist()  # positions in the original data set: a subset keeps its noise
        elif isinstance(data, tuple | list) and len(data) in (2, 3):
            self._data = _as_tensors(*data[:2])
            self.indices = _as_indices(data[2], len(self._data[0])) if len(data) == 3 else list(range(len(data[0])))
        elif isinstance(data, DataLoader):
            self.indices = list(range(_loader_length(data)))
        elif isinstance(data, Dataset) and hasattr(data, "__len__"):
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
        """The inputs in order, but for those to skip."""
        if isinstance(self._data, DataLoader):
            for index, (value, label) in zip(self.indices, _unbatched(self._data), strict=True):
                if index not in skip:
                    yield _checked(index, value, label)
            return
        for position, index in enumerate(self.indices):
            if index not in skip:
                value, label = self._at(position)
                yield _checked(index, value, label)

    def _at(self, position: int) -> tuple[Any, Any]:
        if isinstance(self._data, tuple):
            return self._data[0][position], self._data[1][position]
        pair = self._data[position]
        if not isinstance(pair, tuple | list) or len(pair) < 2:
            kind = f"{type(pair).__name__} of {len(pair)}" if isinstance(pair, tuple | list) else type(pair).__name__
            raise InputError.expected("data", "give (input, label) pairs", f"a {kind} at {position}")
        return pair[0], pair[1]


def _as_tensors(inputs: Any, labels: Any) -> tuple[Tensor, Any]:
    values = (
        inputs if isinstance(inputs, Tensor) else torch.from_numpy(np.ascontiguousarray(to_numpy("inputs", inputs)))
    )
    classes = to_numpy("labels", labels)
    if classes.ndim != 1 or len(classes) != len(values):
        raise InputError.expected("labels", f"be one number per input ({len(values)})", f"shape {classes.shape}")
    return values, classes


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
        if not isinstance(batch, tuple | list) or len(batch) < 2:
            raise InputError.expected("data", "give batches of (inputs, labels)", f"a {type(batch).__name__}")
        inputs, labels = batch[0], batch[1]
        if loader.batch_sampler is None:
            yield inputs, labels
        else:
            yield from zip(inputs, labels, strict=True)


def _checked(index: int, value: Any, label: Any) -> Item:
    """An item, if its input lies in [0, 1] and its label is a class."""
    tensor = torch.as_tensor(value)
    if not tensor.is_floating_point():
        needs = "hold floating-point inputs in [0, 1] (divide bytes by 255)"
        raise InputError.expected("data", needs, f"{tensor.dtype} at input {index}")
    tensor = tensor.detach().to("cpu", torch.float32)
    low, high = tensor.aminmax()
    if not (low >= 0 and high <= 1):
        got = f"values from {low.item():.4g} to {high.item():.4g} at input {index}"
        raise InputError.expected("data", "hold inputs in [0, 1] (normalisation is the model's first layer)", got)
    try:
        number = int(label)
        wrong = number != label or number < 0
    except (TypeError, ValueError, RuntimeError):
        wrong = True
    if wrong:
        raise InputError.expected("data", "have labels that are class numbers ≥ 0", f"{label} at input {index}")
    return Item(index, tensor, number)
