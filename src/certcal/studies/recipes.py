"""The recipe of a sweep: a training run, the settings that vary, and the certification of what was trained."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from certcal.errors import InputError
from certcal.scalars import check_integer, guarded
from certcal.settings import (
    CertifySettings,
    DataSettings,
    EvaluateSettings,
    Sections,
    TrainRecipe,
    build_sections,
    merged,
    read_toml,
)


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """Which settings vary, and how many combinations are tried."""

    over: dict[str, Any] = field(default_factory=dict)  # "section.key" to the list of its values
    sample: int | None = None  # so many combinations at random, without repetition; None: all of them
    seed: int = 0  # of the sample


@dataclass(frozen=True, kw_only=True)
class SweepRecipe(TrainRecipe):
    """Many training runs, each certified on the inputs of `test`."""

    test: DataSettings
    certify: CertifySettings  # σ is that of the training
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)


def load_sweep(path: Path | None, changes: Sections) -> SweepRecipe:
    """The recipe of a TOML file (or none), changed by what is given beside it: {section: {key: value}}."""
    return build_sweep(merged(read_toml(path), changes), str(path or "options"))


def build_sweep(values: Sections, source: str) -> SweepRecipe:
    """A recipe of the given sections; certification takes the σ of the training unless another is given."""
    train = values.get("train", {})
    sigma = train.get("sigma", 1.0) if isinstance(train, dict) else 1.0
    return build_sections(SweepRecipe, merged({"certify": {"sigma": sigma}}, values), source)


@guarded
def numbered(settings: SweepSettings) -> dict[int, Sections]:
    """What each trial changes, by its number in the grid: every combination, or a sample, the same for the same seed.

    A larger sample of the same seed holds the smaller one, under the same numbers.

    Paper: App. I.
    Raises: InputError if a key has no section or no values, or the sample is larger than the grid.

    >>> numbered(SweepSettings(over={"objective.steps": [1, 4], "train.learning_rate": [0.01]}, sample=1))
    {2: {'objective': {'steps': 4}, 'train': {'learning_rate': 0.01}}}
    """
    for key, values in settings.over.items():
        section, dot, name = key.partition(".")
        if not (section and dot and name):
            raise InputError.expected("sweep.over", "name settings as section.key", repr(key))
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise InputError.expected(f"sweep.over.{key}", "be a list of at least one value", repr(values))
    combinations = itertools.product(*settings.over.values())
    grid = {place: _nested(dict(zip(settings.over, one, strict=True))) for place, one in enumerate(combinations, 1)}
    if settings.sample is None:
        return grid
    check_integer("sweep.sample", settings.sample, minimum=1)
    check_integer("sweep.seed", settings.seed, minimum=0)
    if settings.sample > len(grid):
        raise InputError.expected(
            "sweep.sample", f"be at most the number of combinations ({len(grid)})", settings.sample
        )
    # As for every shuffle here: NumPy promises the raw stream of a bit generator for ever.
    order = np.argsort(np.random.PCG64(settings.seed).random_raw(len(grid)), kind="stable")
    return {place + 1: grid[place + 1] for place in sorted(order[: settings.sample].tolist())}


def grid_size(settings: SweepSettings) -> int:
    """How many combinations there are."""
    return math.prod(len(values) for values in settings.over.values())


def describe(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """A trial in a few words.

    >>> describe({"objective": {"steps": 4}, "train": {"learning_rate": 0.01}})
    'steps 4, learning_rate 0.01'
    """
    return ", ".join(f"{key} {value}" for section in changes.values() for key, value in section.items())


def _nested(flat: Mapping[str, Any]) -> Sections:
    nested: Sections = {}
    for path, value in flat.items():
        section, _, key = path.partition(".")
        nested.setdefault(section, {})[key] = value
    return nested
