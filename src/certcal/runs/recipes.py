"""A recipe: what one training run is made of, read from TOML and from what is given beside it."""

import tomllib
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from certcal.errors import InputError
from certcal.settings import (
    DataSettings,
    MachineSettings,
    ModelSettings,
    ObjectiveSettings,
    Sections,
    TrainSettings,
    ValidationSettings,
    build,
    check,
    merged,
    read_toml,
    write_toml,
)

Kind = TypeVar("Kind", bound="TrainRecipe")
OPTIONS = {"model": "--model", "data": "--data", "objective": "--objective", "train": "--sigma"}


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
    return build_recipe(merged(read, changes), TrainRecipe, str(path or "options"))


def build_recipe(values: Sections, kind: type[Kind], source: str) -> Kind:
    """A recipe of the given sections, after unknown, missing and wrong settings were refused by name."""
    first = {section.name: _first_needed(section.type) for section in fields(kind) if _needed(section)}
    values = {section: {} for section in first} | values
    check(kind, values, source)
    missing = [section for section, key in first.items() if key not in values[section]]
    if missing:
        named = ", ".join(f"{section}.{first[section]}" for section in missing)
        known = ", ".join(OPTIONS[section] for section in missing if section in OPTIONS)
        raise InputError(f"Missing {named}: give what is missing in a TOML file{known and f' or with {known}'}.")
    return build(kind, values, source)


def _needed(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _first_needed(section: Any) -> str:
    """The setting without which a section is none, such as the name of a model."""
    return next(one.name for one in fields(section) if _needed(one))


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
    except tomllib.TOMLDecodeError:
        return text


def save_recipe(recipe: TrainRecipe, path: Path) -> None:
    """Write a recipe as TOML."""
    write_toml(recipe, path, head="What this was trained with; `certcal train --recipe` takes it back.")
