"""The class names that a data set tells beside its labels, held against the model's."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import ConcatDataset

from certcal.data.entries import LABELS
from certcal.data.images import ImageData
from certcal.data.labels import check_names, names_by_number
from certcal.errors import InputError


def check_told_names(data: Any, outputs: int, own: Sequence[str]) -> None:
    """Refuse data whose class names have other numbers than those of a model, which may have names of its own.

    The names are those of `ImageData`, of Hugging Face's data sets and of folders that torchvision numbered, also
    behind loaders, subsets and sums of data sets.
    """
    parts = [_names_of(one) for one in _parts(data)]
    _check_alike([names for names, *_ in parts])
    for names, found, numbered in parts:
        # A part without the last classes of another numbers its own as that one does.
        if names and not any(names == other[: len(names)] != other for other, *_ in parts):
            check_names(names, outputs, found=found, own=own, numbered=numbered)


def _parts(data: Any) -> Iterator[Any]:
    """The data sets that a loader, a subset or a sum of some reads from."""
    while not hasattr(data, "class_to_idx") and hasattr(data, "dataset"):
        data = data.dataset
    if isinstance(data, ConcatDataset):
        for one in data.datasets:
            yield from _parts(one)
    else:
        yield data


def _names_of(data: Any) -> tuple[tuple[str, ...], bool, bool]:
    """The class names of a data set, if it has some, and whether they were found, and given to numbers."""
    if isinstance(data, ImageData):
        return data.classes, data.found, data.numbered
    if told := _told_names(data):
        return told, False, True
    return _folder_names(data), True, False


def _check_alike(parts: Sequence[Sequence[str]]) -> None:
    """Refuse parts of which one has a class name at another number: a sum of folders keeps the numbers of each."""
    seen: dict[str, list[int]] = {}
    for names in parts:
        here: dict[str, list[int]] = {}
        for number, one in enumerate(names):
            here.setdefault(one, []).append(number)
        if other := next((one for one, own in here.items() if seen.get(one, own) != own), None):
            got = f"{other!r} as {seen[other][0]} and as {here[other][0]}"
            raise InputError.expected("data", "number a class alike in all its parts", got)
        seen |= here


def _told_names(data: Any) -> tuple[str, ...]:
    """The names of classes that a data set of Hugging Face's has beside their numbers."""
    features = getattr(data, "features", None)
    if not isinstance(features, Mapping):  # what others call features
        return ()
    found = [getattr(features[key], "names", None) for key in LABELS if key in features]
    names = found[0] if len(found) == 1 else None
    return tuple(names) if isinstance(names, list) and all(isinstance(one, str) for one in names) else ()


def _folder_names(data: Any) -> tuple[str, ...]:
    """The names that a data set like torchvision's ImageFolder numbered, unless it numbers them again on the way."""
    numbered = getattr(data, "class_to_idx", None)
    if not isinstance(numbered, Mapping) or getattr(data, "target_transform", None) is not None:
        return ()
    return names_by_number({number: name for name, number in numbered.items()})
