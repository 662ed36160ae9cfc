"""What a run is made of: the data and the model that settings name, and the device it runs on."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from certcal.data import ImageData, check_names, dataset_splits, load_dataset, names_of_model
from certcal.errors import InputError, renaming, several
from certcal.files import expanded
from certcal.models import (
    Tempered,
    Unscale,
    build_model,
    checkpoint_digest,
    class_names,
    count_classes,
    held_still,
    load_checkpoint,
    model_fingerprint,
)
from certcal.runs.folder import RunFolder
from certcal.settings import DataSettings, ModelSettings

MOST_NAMES = 2**21  # bytes of a file of class names: config.toml keeps them, each with quotes, and has a limit too


def load_data(settings: DataSettings, model: ModelSettings | None = None) -> ImageData:
    """The inputs that the settings name; class names that are found in them are numbered as the model says, if it does.

    Its names are known of a Hugging Face folder, and of weights that were trained in a run folder.
    """
    given = {key: value for key, value in vars(settings).items() if value is not None}
    names = given.pop("class_names", None)
    with renaming({"name": "data", "classes": "class_names"}):
        data = load_dataset(given.pop("name"), classes=names and listed_names(names), **given)
    own = model_classes(model) if data.found and model is not None else ()
    twice = {one for one, count in Counter(own).items() if count > 1}  # Hugging Face's ImageNet has two cranes
    own = tuple(f"{one} ({number})" if one in twice else one for number, one in enumerate(own))
    return data.in_order(own) if set(data.classes) <= set(own) else data


def listed_names(given: Sequence[str]) -> tuple[str, ...]:
    """Class names as they are given, or the lines of the text file that a single one names.

    A received folder may name a pipe or a device, which has no end: only files of moderate size are read.
    """
    if len(given) != 1:
        return tuple(given)
    got = repr(given[0])
    try:
        path = expanded("class_names", given[0])
        if path.is_file() and path.stat().st_size <= MOST_NAMES:
            lines = path.read_text(encoding="utf-8-sig").splitlines()  # editors of Windows begin with a mark
            names = tuple(line.strip() for line in lines if line.strip())
            if len(names) >= 2:
                return names
            got += f", which has {several(len(names), 'name')}"
    except UnicodeDecodeError:
        got += ", which is no UTF-8"
    except (InputError, OSError, ValueError):
        pass
    wanted = f"be two names or more, with commas, or a text file of at most {MOST_NAMES:,} bytes with one a line"
    raise InputError.expected("class_names", wanted, got)


def model_classes(settings: ModelSettings) -> tuple[str, ...]:
    """The names of a model's classes in its order, as its folder tells, before it is built; none if it does not."""
    if names := training_facts(settings).get("classes"):
        return tuple(map(str, names))
    if not settings.name.startswith("hf:"):
        return ()
    try:
        folder = expanded("model", settings.name.removeprefix("hf:"))
        return names_of_model(json.loads((folder / "config.json").read_text(encoding="utf-8"))["id2label"])
    except (InputError, OSError, ValueError, LookupError, TypeError):
        return ()  # what is wrong with the folder is said where the model is built


def training_facts(settings: ModelSettings) -> dict[str, Any]:
    """What the folder of the weights tells of their training; nothing, if they were not trained in a run folder."""
    if settings.weights is None:
        return {}
    try:
        return RunFolder(Path(settings.weights).expanduser().parent).sources().get("train", {})
    except (InputError, RuntimeError):
        return {}


def load_model(
    settings: ModelSettings, data: ImageData, *, sigma: float | None = None, fresh: bool = False
) -> nn.Module:
    """The model that the settings name, for inputs like these under noise of that deviation, with its weights.

    A fresh one is to be trained on the data.
    """
    if (settings.mean is None) != (settings.std is None):
        raise InputError.expected("mean and std", "be given together", "mean alone" if settings.mean else "std alone")
    find_factory(settings.name)
    with renaming({"name": "model", "path": "weights"}, hint=partial(_about_labels, data)):
        model: nn.Module = build_model(
            settings.name,
            classes=settings.classes or len(data.classes),
            shape=data.shape,
            sigma=sigma,
            normalize=None if settings.mean is None or settings.std is None else (settings.mean, settings.std),
            trust=True,  # `check_factories` has asked
            **settings.options,
        )
        model = model if settings.weights is None else load_checkpoint(model, settings.weights)
    _check_names(model, data, () if fresh else model_classes(settings), fresh=fresh)
    model = model if data.scale is None else Unscale(data.scale.mean, data.scale.std, model)
    return model if settings.temperature is None else Tempered(model, settings.temperature)


def check_fingerprint(model: nn.Module, known: str | None, requirement: str, settings: ModelSettings) -> str:
    """The fingerprint of a model, if it is the one that is known, or none is."""
    found = model_fingerprint(model)
    if known not in (None, found):
        got = f"others in {settings.weights or settings.name} (fingerprint {found[:12]}, not {known[:12]})"
        raise InputError.expected("weights", requirement, got)
    return found


def find_factory(name: str) -> None:
    """Let a factory be imported from the working folder; nothing else is."""
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last: what lies there must not stand in for what others import


def _check_names(model: nn.Module, data: ImageData, known: tuple[str, ...], *, fresh: bool) -> None:
    """Refuse data whose class names have other numbers than the model's, known from its folder or told by itself."""
    own = known or class_names(model)
    if not own and not data.found:
        return
    first = data.select(data.index.new_tensor([0])).inputs
    with held_still(model):
        outputs = count_classes(model, first)
    check_names(data.classes, outputs, found=data.found, own=own, fresh=fresh, numbered=data.numbered)


def _about_labels(data: ImageData, error: str) -> str:
    """A hint where a model has another number of classes: labels count from 1, or some classes are not among the data.

    Weights say so in the shape of their last layer.
    """
    shapes = re.search(r" of shape \((\d+)(,.*?)\), but got shape \(\d+(,.*?)\)", error)
    last = shapes is not None and (int(shapes[1]), shapes[2]) == (len(data.classes), shapes[3])
    if not last and not error.startswith("Expected `classes`"):
        return ""
    if data.found:
        return (
            f" (The {len(data.classes)} classes are the names that are in the data: --class-names takes the model's.)"
        )
    least, most = int(data.labels.min()), int(data.labels.max())
    if least != 1 or data.classes[0] != "0":
        return ""
    return f" The labels are {least} to {most}, and classes count from 0: subtract 1 from them?"


def training_part(data: DataSettings) -> DataSettings:
    """The data with its training split, where it is known by name and no split is given."""
    return replace(data, split="train") if data.split is None and has_splits(data) else data


def has_splits(data: DataSettings) -> bool:
    """Whether the data is known by name; a file or folder is whole where no split is given."""
    try:
        return bool(dataset_splits(data.name))
    except InputError:
        return False


def weights_digest(model: ModelSettings) -> str | None:
    """A digest of the weights that training starts from, whatever file they are in, as far as it can be read."""
    try:
        return None if model.weights is None else f"tensors:{checkpoint_digest(model.weights)}"
    except (InputError, OSError):
        return None
