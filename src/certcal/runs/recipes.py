"""What training is made of, as it stands in a TOML recipe, alone or with a sweep and the certification after it."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from certcal.errors import InputError
from certcal.runs.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings
from certcal.runs.toml import build, check, read_toml
from certcal.training import (
    OBJECTIVES,
    EngineSettings,
    ObjectiveSettings,
    SweepSettings,
    TrainSettings,
    ValidationSettings,
)

Sections = dict[str, dict[str, Any]]
Kind = TypeVar("Kind", bound="TrainRecipe")


@dataclass(frozen=True, kw_only=True)
class TrainRecipe:
    """One training run. `model.weights` are those it starts from."""

    model: ModelSettings
    data: DataSettings
    objective: ObjectiveSettings
    train: TrainSettings
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)


@dataclass(frozen=True, kw_only=True)
class SweepRecipe(TrainRecipe):
    """Many training runs, each certified on the inputs of `test`."""

    test: DataSettings
    certify: CertifySettings  # σ is that of the training
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)


def load_recipe(path: Path | None, changes: Sections, kind: type[Kind]) -> Kind:
    """The recipe of a TOML file (or none), changed by what is given beside it: {section: {key: value}}."""
    read = {} if path is None else read_toml(path)
    if kind is TrainRecipe and "sweep" in read:
        raise InputError(f"{path} has a [sweep] section: run it with `certcal sweep`.")
    return build_recipe(merged(read, changes), kind, str(path or "options"))


def build_recipe(values: Sections, kind: type[Kind], source: str) -> Kind:
    """A recipe of the given sections, after unknown, missing and wrong settings were refused by name."""
    needed = ("model", "data", "objective", "train") + (("test",) if kind is SweepRecipe else ())
    values = {section: {} for section in needed} | values
    if kind is SweepRecipe and isinstance(values["train"], dict):
        values = merged({"certify": {"sigma": values["train"].get("sigma", 1.0)}}, values)
    check(kind, values, source)
    keys = {"model": "name", "data": "name", "objective": "name", "train": "sigma", "test": "name"}
    options = {"model": "--model", "data": "--data", "objective": "--objective", "train": "--sigma"}
    missing = [section for section in needed if keys[section] not in values[section]]
    if missing:
        named = ", ".join(f"{section}.{keys[section]}" for section in missing)
        known = ", ".join(options[section] for section in missing if section in options)
        raise InputError(f"Missing {named}: give what is missing in a TOML file{known and f' or with {known}'}.")
    recipe = build(kind, values, source)
    if recipe.objective.name not in OBJECTIVES:
        raise InputError.expected("objective", f"be one of {', '.join(OBJECTIVES)}", repr(recipe.objective.name))
    return recipe


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Sections of settings, those of the second over those of the first."""
    result = dict(first)
    for section, values in second.items():
        own = result.get(section, {})
        both = isinstance(own, dict) and isinstance(values, dict)
        result[section] = own | values if both else values
    return result


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
