"""Dataclasses from TOML and back, strict about names and types: a misspelt key is an error, not a default."""

import difflib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from certcal.errors import InputError

T = TypeVar("T")
Sections = dict[str, dict[str, Any]]  # {section: {key: value}}
MAX_BYTES = 2**22  # of a file of settings, which may name 100,000 classes
OPTIONS = {  # for what a section must have
    "model": "--model", "data": "--data", "certify": "--sigma", "objective": "--objective", "train": "--sigma",
}  # fmt: skip
_hints = cache(get_type_hints)  # found once per record: studies are many records
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table"}


def read_toml(path: Path | None) -> dict[str, Any]:
    """What a TOML file holds; nothing, if there is none."""
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)  # a device such as /dev/zero has no size and no end
        if len(text) > MAX_BYTES:
            raise InputError.expected("config", f"be a file of at most {MAX_BYTES:,} bytes", str(path))
        return tomllib.loads(text.decode("utf-8"))
    except OSError as error:
        raise InputError.expected("config", "be a TOML file that can be read", f"{path} ({error.strerror})") from error
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, an integer or a nesting beyond Python's limits
        raise InputError.expected("config", "be a TOML file", f"{path}: {error}") from error


def build(kind: type[T], values: Mapping[str, Any], source: str, *, where: str = "") -> T:
    """A dataclass of the given values, each checked against its field's type; tables become dataclasses."""
    checked = check(kind, values, source, where=where)
    kind = _chosen(kind, checked)
    hints, known = _hints(kind), fields(kind)  # type: ignore[arg-type]
    missing = [_path(where, one.name) for one in known if is_needed(one) and one.name not in checked]
    if missing:
        raise InputError(f"Missing settings in {source}: {', '.join(missing)}.")
    for name, value in checked.items():
        if is_dataclass(hints[name]):
            checked[name] = build(hints[name], value, source, where=_path(where, name))
        elif get_origin(hints[name]) is tuple and is_dataclass(inner := get_args(hints[name])[0]):
            parts = enumerate(value, 1)
            make: Any = inner
            checked[name] = tuple(build(make, part, source, where=f"{_path(where, name)}.{n}") for n, part in parts)
    return kind(**checked)


def build_sections(kind: type[T], values: Sections, source: str) -> T:
    """A record of records, after unknown, missing and wrong settings were refused by name."""
    first = {section.name: _first_needed(section.type) for section in fields(kind) if is_needed(section)}  # type: ignore[arg-type]
    values = {section: {} for section in first} | values
    check(kind, values, source)
    missing = [section for section, key in first.items() if key not in values[section]]
    if missing:
        named = ", ".join(f"{section}.{first[section]}" for section in missing)
        known = ", ".join(OPTIONS[section] for section in missing if section in OPTIONS)
        raise InputError(f"Missing {named}: give what is missing in a TOML file{known and f' or with {known}'}.")
    return build(kind, values, source)


def _first_needed(section: Any) -> str:
    """The setting without which a section is none, such as the name of a model."""
    return next(one.name for one in fields(section) if is_needed(one))


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Sections of settings, those of the second over those of the first."""
    result = dict(first)
    for section, values in second.items():
        if values == {}:
            continue
        own = result.get(section, {})
        both = isinstance(own, dict) and isinstance(values, dict)
        result[section] = own | values if both else values
    return result


def check(kind: type, values: Mapping[str, Any], source: str, *, where: str = "") -> dict[str, Any]:
    """The values of a dataclass's fields, after unknown names and wrong types were refused; some may be missing."""
    kind = _chosen(kind, values)
    hints = _hints(kind)  # type: ignore[arg-type]
    known = [one.name for one in fields(kind)]
    renamed = {one.metadata["was"]: one.name for one in fields(kind) if one.metadata.get("was")}
    checked: dict[str, Any] = {}
    for given, value in values.items():
        name = renamed.get(given, given)
        if name not in known:
            others = _elsewhere(kind, name)
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
            hint = f"it belongs to {', '.join(others)}" if others else hint
            raise InputError(f"Unknown setting {_path(where, name)} in {source} ({hint}).")
        read = _value(hints[name], value, source, _path(where, name))
        # Under both names, as where a file of an earlier version is changed.
        checked[name] = checked[name] | read if name in checked and isinstance(read, dict) else read
    return checked


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


def is_needed(one: "Field[Any]") -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def toml_text(settings: object, *, head: str) -> str:
    """A dataclass of dataclasses as TOML with one table each; what is None is left out."""
    lines = [f"# {head}"]
    for one in fields(settings):  # type: ignore[arg-type]
        lines += ["", f"[{one.name}]", *_lines(getattr(settings, one.name))]
    return "\n".join(lines) + "\n"


def _chosen(kind: type[T], values: Mapping[str, Any]) -> type[T]:
    """The record that the values' `name` chooses, where a record has several kinds."""
    kinds: Mapping[str, type[T]] = getattr(kind, "kinds", {})
    name = values.get("name")
    return kinds.get(name, kind) if isinstance(name, str) else kind


def _elsewhere(kind: type, name: str) -> list[str]:
    """The other kinds of a record that have a setting."""
    kinds: Mapping[str, Any] = getattr(kind, "kinds", {})
    return [other for other, own in kinds.items() if name in {one.name for one in fields(own)}]


def toml_list(name: str, records: Iterable[object], *, head: str) -> str:
    """Records as a TOML list of tables of that name."""
    tables = ["\n".join([f"[[{name}]]", *_lines(one)]) for one in records]
    return "\n\n".join([f"# {head}", *tables]) + "\n"


def _lines(section: object) -> list[str]:
    values = {one.name: getattr(section, one.name) for one in fields(section)}  # type: ignore[arg-type]
    return [f"{name} = {_text(value)}" for name, value in values.items() if value is not None and value != {}]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(key)} = {_text(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    # JSON's strings, numbers and booleans are TOML's too, but for the DEL character, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(hint: Any, value: Any, source: str, name: str) -> Any:
    options = [one for one in (get_args(hint) if isinstance(hint, UnionType) else (hint,)) if one is not NoneType]
    wanted = options[0]
    if value is None and isinstance(hint, UnionType):
        return None
    if is_dataclass(wanted) and isinstance(value, Mapping):
        return check(wanted, value, source, where=name)  # type: ignore[arg-type]
    if get_origin(wanted) is tuple and isinstance(value, list | tuple):
        inner = get_args(wanted)[0]
        return tuple(_value(inner, item, source, name) for item in value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if get_origin(wanted) is dict and isinstance(value, Mapping):
        return dict(value)
    fits = isinstance(wanted, type) and not is_dataclass(wanted) and isinstance(value, wanted)
    if not fits or (wanted in (int, float) and isinstance(value, bool)):
        raise InputError.expected(name, f"be {_describe(wanted)}", f"{value!r} in {source}")
    return value


def _describe(wanted: Any) -> str:
    if get_origin(wanted) is tuple:
        return f"a list, each entry {_NAMES.get(get_args(wanted)[0], 'a table')}"
    return "a table" if is_dataclass(wanted) else _NAMES.get(get_origin(wanted) or wanted, "a value")


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
