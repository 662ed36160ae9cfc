"""What people call a label — numbers, names, one-hot rows — as class numbers; other tasks are refused by their name."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.errors import InputError, kind_of
from certcal.inputs import to_numpy


def as_classes(
    labels: Any, *, classes: Sequence[str] | None = None, name: str = "labels"
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Labels as whole numbers, shape (n,), and the names they stand for where they were names (sorted), else None.

    A column is taken as a vector, truth values as 0 and 1, and a one-hot row as the number of its one. Several classes
    per input, numbers that are no classes and masks are other tasks.

    >>> as_classes(["dog", "cat", "dog"])
    (array([1, 0, 1]), ('cat', 'dog'))
    """
    table = _as_table(labels, name)
    if table.ndim == 0:
        raise InputError.expected(name, "be one-dimensional", kind_of(labels))
    if table.dtype.kind in "US" and table.ndim <= 2 and table.size == len(table):
        return _from_names(table.reshape(-1).astype(np.str_), classes, name)
    table = to_numpy(name, table)
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.ndim == 2:
        return _from_one_hot(table, name), None
    if table.ndim > 2:
        raise _other_task(name, "segmentation", f"shape {table.shape}")
    if table.dtype.kind == "b":
        return table.astype(np.int64), None
    with np.errstate(invalid="ignore"):
        broken = np.isfinite(table) & (table != np.floor(table))
    if broken.any():
        raise _other_task(name, "regression", table[np.argmax(broken)])
    return table, None


def _other_task(name: str, task: str, got: object) -> InputError:
    return InputError.expected(name, f"have one class per input: certcal certifies no {task}", got)


def _as_table(labels: Any, name: str) -> NDArray[Any]:
    if hasattr(labels, "detach"):  # a tensor
        return to_numpy(name, labels)
    if hasattr(labels, "isna") and labels.isna().any():  # a column of pandas
        place = int(np.argmax(np.asarray(labels.isna())))
        raise InputError.expected(name, "have a class for every input", f"none at index {place}")
    try:
        table = np.asarray(labels)
    except ValueError as error:  # rows of uneven length: sets of classes
        raise _other_task(name, "multi-label classification", "rows of several lengths") from error
    if table.dtype != object:
        return table
    if (found := next((one for one in table.ravel() if isinstance(one, dict)), None)) is not None:
        raise _other_task(name, "detection or segmentation", f"a dict of {', '.join(map(str, found)) or 'nothing'}")
    if all(isinstance(one, str) for one in table.ravel()) or str(getattr(labels, "dtype", "")) == "category":
        return table.astype(np.str_)
    if any(isinstance(one, list | tuple | set | np.ndarray) for one in table.ravel()):
        raise _other_task(name, "multi-label classification", "several per input")
    if any(one is None for one in table.ravel()):
        raise InputError.expected(name, "have a class for every input", "None")
    return np.array(table.tolist())  # numbers of pandas


def _from_names(
    names: NDArray[Any], classes: Iterable[object] | None, name: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    found = set(names.tolist())
    if classes is None:
        _check_names(found, name)
        numbers = {one: _number(one) for one in found}
        if found and all(0 <= one < 1e5 for one in numbers.values()):  # numbers as texts
            classes = range(int(max(numbers.values())) + 1)
            names = np.array([str(int(numbers[one])) for one in names.tolist()], dtype=object)
    known = tuple(sorted(found)) if classes is None else tuple(map(str, classes))
    place = {one: number for number, one in enumerate(known)}
    unknown = next((one for one in names.tolist() if one not in place), None)
    if unknown is not None:
        raise InputError.expected(name, f"be among the classes {', '.join(known)}", repr(unknown))
    return np.array([place[one] for one in names.tolist()], dtype=np.int64), known


def _check_names(names: set[str], name: str) -> None:
    """Names are classes: none is empty or a list of other names, and they are not all numbers with fractions."""
    if not all(one.strip() for one in names):
        raise InputError.expected(name, "have a class for every input", "an empty text")
    numbers = [_number(one) for one in names]
    if np.isfinite(numbers).all() and (broken := [one for one in numbers if one != int(one)]):
        raise _other_task(name, "regression", min(broken))
    for one in sorted(names):
        parts = [part.strip() for part in re.split("[|;,]", one)]
        if len(parts) > 1 and all(part in names for part in parts):
            raise _other_task(name, "multi-label classification", repr(one))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _from_one_hot(table: NDArray[Any], name: str) -> NDArray[np.int64]:
    if table.dtype.kind == "f" and not np.isin(table, (0, 1)).all():
        if np.allclose(table.sum(axis=1), 1) and table.min() >= 0:
            raise InputError.expected(name, "be class numbers, names or one-hot rows", "probabilities of classes")
        raise _other_task(name, "regression", f"shape {table.shape}")
    ones = (table != 0).sum(axis=1)
    if table.shape[1] == 0 or not np.isin(table, (0, 1)).all() or (ones != 1).any():
        row = int(np.argmax(ones != 1))
        several = f"{int(ones[row])} in row {row}" if (ones != 1).any() else f"shape {table.shape}"
        raise _other_task(name, "multi-label classification", several)
    numbers: NDArray[np.int64] = table.argmax(axis=1).astype(np.int64)
    return numbers
