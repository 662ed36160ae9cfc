"""A recipe: what one training run is made of, read from TOML and from what is given beside it."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.settings import (
    DataSettings,
    MachineSettings,
    ModelSettings,
    ObjectiveSettings,
    Sections,
    TrainSettings,
    ValidationSettings,
    build_sections,
    merged,
    read_toml,
    toml_text,
)


@dataclass(frozen=True, kw_only=True)
class TrainRecipe:
    """One training run. `model.weights` are those it starts from."""

    model: ModelSettings
    data: DataSettings
    objective: ObjectiveSettings
    train: TrainSettings
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    machine: MachineSettings = field(default_factory=MachineSettings, metadata={"was": "engine"})


def load_recipe(path: Path | None, changes: Sections) -> TrainRecipe:
    """The recipe of a TOML file (or none), changed by what is given beside it: {section: {key: value}}."""
    read = {} if path is None else read_toml(path)
    if "sweep" in read:
        raise InputError(f"{path} has a [sweep] section: run it with `certcal sweep`.")
    return build_sections(TrainRecipe, merged(read, changes), str(path or "options"))


def parse_changes(assignments: list[str]) -> Sections:
    """Settings written as section.key=value, the value as in TOML or a bare word.

    >>> parse_changes(["train.epochs=5", "model.name=lenet"])
    {'train': {'epochs': 5}, 'model': {'name': 'lenet'}}
    """
    changes: Sections = {}
    for text in assignments:
        path, equals, value = text.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (section and dot and key and equals):
            raise InputError.expected("set", "be section.key=value", repr(text))
        changes.setdefault(section, {})[key] = _parsed(value.strip())
    return changes


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def recipe_text(recipe: TrainRecipe) -> str:
    """A recipe as TOML."""
    return toml_text(recipe, head="What this was trained with; `certcal train --recipe` takes it back.")
