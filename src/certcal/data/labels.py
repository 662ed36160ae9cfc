"""What people call a label — numbers, names, one-hot rows — as class numbers; other tasks are refused by their name."""

import math
import re
from collections import Counter
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


def check_names(
    names: Sequence[str],
    outputs: int,
    *,
    found: bool,
    own: Sequence[str] = (),
    fresh: bool = False,
    numbered: bool = False,
    name: str = "data",
) -> None:
    """Refuse class names whose numbers are not those of a model with so many outputs.

    Args:
        names: the data's, in the order of its labels.
        outputs: of the model.
        found: whether they are the names that were met in the data, sorted, rather than given in an order.
        own: the model's names, in its order, where it says them; they count only if there is one for each output.
        fresh: whether the model is yet to learn what the numbers mean.
        numbered: whether labels are numbers, to which these names were given: other names do not mend them.
        name: what to call the data.
    """
    listed, told = tuple(names), tuple(own) if len(own) == outputs else ()
    numbers = are_numbers(listed)
    if _match(listed, told, numbers, name, _RENUMBER if numbered else _REMEDY) or numbers or not found:
        return
    coded = _are_codes(listed) and not _are_codes(told)
    if told and not (fresh or coded or are_numbers(told)):
        known = {one.casefold() for one in told}
        if foreign := [one for one in listed if one.casefold() not in known]:
            wanted = f"have the names of the model's classes, {some_names(told)} ({_REMEDY})"
            raise InputError.expected(name, wanted, f"{some_names(foreign)}, which it does not have")
    if len(listed) != outputs:
        wanted = (
            f"name each of the model's {outputs:,} classes, because names that are found are numbered in sorted order "
            f"({_REMEDY})"
        )
        raise InputError.expected(name, wanted, f"{len(listed):,} names: {some_names(listed)}")
    if not fresh and all(one.isdecimal() for one in listed) and sorted(listed, key=int) != list(listed):
        wanted = f"say in which order its classes are numbered, as numbers or, like torchvision's, as texts ({_REMEDY})"
        raise InputError.expected(name, wanted, some_names(listed))


def are_numbers(names: Sequence[str]) -> bool:
    """Whether names are 0, 1, 2, …, which mean themselves."""
    return tuple(names) == tuple(map(str, range(len(names))))


def _are_codes(names: Sequence[str]) -> bool:
    """Whether names are such that their sorted order is that of the classes: numbers, or ImageNet's n01440764, …"""
    return all(one.isdecimal() or re.fullmatch(r"n\d{8}", one) for one in names)


def _match(listed: Sequence[str], own: Sequence[str], numbers: bool, name: str, remedy: str) -> bool:
    """Whether all names are the model's; one that it has at another number is refused, whatever its capitals."""
    folded = [one.casefold() for one in own]
    counts = Counter(folded)
    place = {one: number for number, one in enumerate(folded) if counts[one] == 1}  # two of one name say nothing
    known = [place.get(one.casefold()) for one in listed]
    if numbers and None in known:  # numbers of classes, not some of the model's names
        return False
    for at, number in enumerate(known):
        if number is None or number == at:
            continue
        spelled = {one.casefold(): one for one in listed}
        order = some_names([spelled.get(one.casefold(), one) for one in own])
        wanted = f"number its classes as the model does, {own[number]!r} as {number} ({remedy}: {order})"
        raise InputError.expected(name, wanted, f"{listed[at]!r} as {at}")
    return bool(own) and None not in known


def names_by_number(named: object) -> tuple[str, ...]:
    """Names in the order of their numbers, from a mapping like Hugging Face's id2label; none unless it has 0 … k − 1.

    >>> names_by_number({"1": "dog", "0": "cat"})
    ('cat', 'dog')
    """
    try:
        numbered = {int(key): str(name) for key, name in named.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return ()
    order = sorted(numbered)
    return tuple(numbered[key] for key in order) if order == list(range(len(named))) else ()  # type: ignore[arg-type]


def names_of_model(named: object) -> tuple[str, ...]:
    """Names by their numbers in a model's configuration, where LABEL_0, LABEL_1, … stand for none."""
    names = names_by_number(named)
    return names if names != tuple(f"LABEL_{n}" for n in range(len(names))) else ()


# By `in_order` names find their numbers, also where labels are numbers that `classes` names; other `classes` would
# only call these numbers something else.
_REMEDY = "give all of them in the model's order, by from_arrays(…).in_order([…]) or --class-names"
_RENUMBER = "its labels are numbers: renumber them in the model's order"


def some_names(names: Sequence[str]) -> str:
    """The first ten names."""
    return ", ".join(names[:10]) + ", …" * (len(names) > 10)


def _other_task(name: str, task: str, got: object) -> InputError:
    return InputError.expected(name, f"have one class per input: certcal certifies no {task}", got)


def _as_table(labels: Any, name: str) -> NDArray[Any]:
    if hasattr(labels, "detach"):  # a tensor
        return to_numpy(name, labels)
    if hasattr(labels, "isna") and labels.isna().any():  # a column of pandas
        place = int(np.argmax(np.asarray(labels.isna())))
        raise InputError.expected(name, "have a class for every input", f"none at index {place}")
    if isinstance(labels, list | tuple):  # of which NumPy makes texts
        _check_one_kind(labels, name)
    try:
        table = np.asarray(labels)
    except ValueError as error:  # rows of uneven length: sets of classes
        raise _other_task(name, "multi-label classification", "rows of several lengths") from error
    if table.dtype != object:
        return table
    if (found := next((one for one in table.ravel() if isinstance(one, dict)), None)) is not None:
        raise _other_task(name, "detection or segmentation", f"a dict of {', '.join(map(str, found)) or 'nothing'}")
    _check_one_kind(table.ravel(), name)
    if all(isinstance(one, str) for one in table.ravel()) or str(getattr(labels, "dtype", "")) == "category":
        return table.astype(np.str_)
    if any(isinstance(one, list | tuple | set | np.ndarray) for one in table.ravel()):
        raise _other_task(name, "multi-label classification", "several per input")
    if any(one is None for one in table.ravel()):
        raise InputError.expected(name, "have a class for every input", "None")
    return np.array(table.tolist())  # numbers of pandas


def _check_one_kind(labels: Iterable[object], name: str) -> None:
    """Refuse names beside numbers; what is missing, or holds several, is refused for that."""
    single = (one for one in labels if one is not None and not isinstance(one, list | tuple | set | dict | np.ndarray))
    kinds = {isinstance(one, str): one for one in single}
    if len(kinds) > 1:
        raise InputError.expected(name, "have names or numbers, not both", f"{kinds[True]!r} and {kinds[False]}")


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
    twice = next((one for one, count in Counter(known).items() if count > 1 and one in found), None)
    if twice is not None:
        raise InputError.expected("classes", "have the name of a label once", f"{twice!r} {known.count(twice)} times")
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
