"""What a run is made of: the data and the model that settings name, and the device it runs on."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from certcal.errors import InputError
from certcal.settings import DataSettings, ModelSettings

if TYPE_CHECKING:
    from torch import nn

    from certcal.data import ImageData


def load_data(settings: DataSettings) -> "ImageData":
    """The inputs that the settings name."""
    from certcal.data import load_dataset

    given = {key: value for key, value in vars(settings).items() if value is not None}
    with _saying({"name": "data"}):
        return load_dataset(given.pop("name"), **given)


def load_model(settings: ModelSettings, data: "ImageData", *, sigma: float | None = None) -> "nn.Module":
    """The model that the settings name, for inputs like these under noise of that deviation, with its weights."""
    from certcal.models import Tempered, Unscale, build_model, load_checkpoint

    if (settings.mean is None) != (settings.std is None):
        raise InputError.expected("mean and std", "be given together", "mean alone" if settings.mean else "std alone")
    find_factory(settings.name)
    with _saying({"name": "model", "path": "weights"}, hint=_about_labels(data)):
        model: nn.Module = build_model(
            settings.name,
            classes=settings.classes or len(data.classes),
            shape=data.shape,
            sigma=sigma,
            normalize=None if settings.mean is None or settings.std is None else (settings.mean, settings.std),
            trust=True,  # `check_factories` has asked
            **settings.options,
        )
        _check_order(model, data.classes)
        model = model if settings.weights is None else load_checkpoint(model, settings.weights)
        model = model if data.scale is None else Unscale(data.scale.mean, data.scale.std, model)
        return model if settings.temperature is None else Tempered(model, settings.temperature)


def find_factory(name: str) -> None:
    """Let a factory be imported from the working folder; nothing else is."""
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last: what lies there must not stand in for what others import


def _check_order(network: "nn.Module", classes: Sequence[str]) -> None:
    """Refuse a network that says it has the data's classes in another order, as Hugging Face's configurations do."""
    configs: list[Any] = [getattr(part, "config", None) for part in network.children()]
    named: dict[int, str] = next((one.id2label for one in configs if getattr(one, "id2label", None)), {})
    own = [str(named[key]) for key in sorted(named)]
    if own != list(classes) and sorted(own) == sorted(classes):
        place = next(at for at, (one, other) in enumerate(zip(own, classes, strict=True)) if one != other)
        wanted = f"have the data's classes in their order, {classes[place]!r} at {place}"
        raise InputError.expected("model", wanted, f"{own[place]!r} there")


def _about_labels(data: "ImageData") -> str:
    """A hint where a model may not fit because labels count from 1."""
    least, most = int(data.labels.min()), int(data.labels.max())
    if least != 1 or data.classes[0] != "0":
        return ""
    return f" The labels are {least} to {most}, and classes count from 0: subtract 1 from them?"


@contextmanager
def _saying(names: dict[str, str], *, hint: str = "") -> Iterator[None]:
    """Errors that call arguments by the names they have in the settings, and end in a hint."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for old, new in names.items():
            text = text.replace(f"Expected `{old}` to", f"Expected `{new}` to")
        raise InputError(text + hint) from error


def training_part(data: DataSettings) -> DataSettings:
    """The data with its training split, where it is known by name and no split is given."""
    from certcal.data import dataset_splits

    if data.split is not None:
        return data
    try:
        dataset_splits(data.name)
    except InputError:  # a file or folder, which is whole
        return data
    return replace(data, split="train")


def weights_digest(model: ModelSettings) -> str | None:
    """A digest of the weights that training starts from, whatever file they are in, as far as it can be read."""
    from certcal.models import checkpoint_digest

    try:
        return None if model.weights is None else f"tensors:{checkpoint_digest(model.weights)}"
    except (InputError, OSError):
        return None
