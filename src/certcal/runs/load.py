"""What a run is made of: the data and the model that settings name, and the device it runs on."""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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


def load_model(settings: ModelSettings, data: "ImageData") -> "nn.Module":
    """The model that the settings name, for inputs like these, with its weights."""
    from certcal.models import Tempered, build_model, load_checkpoint

    if (settings.mean is None) != (settings.std is None):
        raise InputError.expected("mean and std", "be given together", "mean alone" if settings.mean else "std alone")
    channels, size, _ = data.shape
    find_factory(settings.name)
    with _saying({"name": "model", "path": "weights"}):
        model = build_model(
            settings.name,
            classes=settings.classes or len(data.classes),
            channels=channels,
            size=size,
            normalize=None if settings.mean is None or settings.std is None else (settings.mean, settings.std),
            **settings.options,
        )
        model = model if settings.weights is None else load_checkpoint(model, settings.weights)
        return model if settings.temperature is None else Tempered(model, settings.temperature)


def find_factory(name: str) -> None:
    """Let a factory be imported from the working folder; nothing else is."""
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last: what lies there must not stand in for what others import


@contextmanager
def _saying(names: dict[str, str]) -> Iterator[None]:
    """Errors that call arguments by the names they have in the settings."""
    try:
        yield
    except InputError as error:
        text = str(error)
        for old, new in names.items():
            text = text.replace(f"Expected `{old}` to", f"Expected `{new}` to")
        raise InputError(text) from error


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
    """SHA-256 of the weights that training starts from, as far as a file can be read."""
    path = None if model.weights is None else Path(model.weights).expanduser()
    return None if path is None or not path.is_file() else hashlib.sha256(path.read_bytes()).hexdigest()
