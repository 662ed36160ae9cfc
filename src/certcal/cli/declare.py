"""Verbs whose options are declared by records of settings."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from inspect import Parameter
from typing import Annotated, Any

import typer

from certcal.errors import InputError, renaming
from certcal.settings import Record, Sections, Setting, declared

Verb = Callable[..., None]
_NUMBERS: dict[type, str] = {int: "whole number", float: "number"}
_METAVARS: dict[type, str] = {int: "N", float: "X", str: "NAME"}


@dataclass(frozen=True)
class Part:
    """Some options of a record, or all of them under other words."""

    record: type[Record]
    only: tuple[str, ...] = ()  # fields; by default all that have an option
    panel: str | None = None  # of the help; by default the one declared
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # fields with another option and help here

    def options(self) -> list[tuple[str, str, str, Setting]]:
        """Option, panel, help and declaration of each field."""
        found = []
        for one in declared(self.record):
            if one.option is not None and (not self.only or one.name in self.only):
                option, help = self.words.get(one.name, (one.option, one.describe()))
                found.append((option, self.panel or one.panel, help, one))
        return found


def takes(**sections: type[Record] | Part) -> Callable[[Verb], Verb]:
    """Give a verb the options of records, by section.

    The body's parameter `given` gets what was given of them: {section: {field: value}}. In the help its options stand
    where `given` stands; the body's other parameters are Typer's.
    """

    def decorate(body: Verb) -> Verb:
        parameters: list[Parameter] = []
        made: dict[str, tuple[str, Setting]] = {}
        for own in inspect.signature(body, eval_str=True).parameters.values():
            if own.name != "given":
                parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY))
                continue
            for section, part in sections.items():
                for option, panel, help, one in (part if isinstance(part, Part) else Part(part)).options():
                    name = option.removeprefix("--").partition("/")[0].replace("-", "_")
                    made[name] = section, one
                    parameters.append(_parameter(name, option, panel, help, one))

        @functools.wraps(body)
        def verb(**values: Any) -> None:
            given: Sections = {section: {} for section in sections}
            for name, (section, one) in made.items():
                value = values.pop(name)
                if value is not None:
                    given[section][one.name] = _read(f"--{name.replace('_', '-')}", value, one)
            words: dict[str, str] = {}  # by which errors may call settings, and their options
            for name, (section, one) in made.items():
                words |= dict.fromkeys((one.name, f"{section}.{one.name}", name), f"--{name.replace('_', '-')}")
            with renaming(words):
                body(given=given, **values)

        del verb.__wrapped__
        verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {one.name: one.annotation for one in parameters}
        return verb

    return decorate


def _parameter(name: str, option: str, panel: str, help: str, one: Setting) -> Parameter:
    kind = str if one.many or one.kind in _NUMBERS else one.kind
    metavar = one.metavar or _METAVARS.get(one.kind)
    told = typer.Option(option, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, told])


def _read(name: str, value: Any, one: Setting) -> Any:
    """The value of an option; lists are written with commas, and their numbers may be fractions."""
    if not one.many:
        return _number(name, value, one.kind) if one.kind in _NUMBERS else _text(name, value)
    if one.kind is str:
        return tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        return tuple(_number(name, part, one.kind) for part in value.split(","))
    except InputError as error:
        raise InputError.expected(name, f"be {_NUMBERS[one.kind]}s separated by commas", repr(value)) from error


def _text(name: str, value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise InputError.expected(name, "name something, or be left out", repr(value))
    return value


def _number(name: str, text: str, kind: type) -> Any:
    """A number as people write it: 100000, 100_000, 1e5, 3/255."""
    try:
        if not math.isfinite(float(text.partition("/")[0])):  # 1e999999999 would be a billion digits
            raise ValueError(text)
        value = Fraction(text.strip())
        if kind is float:
            return float(value)
        if value.denominator == 1:
            return value.numerator
        raise ValueError(text)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise InputError.expected(name, f"be a {_NUMBERS[kind]}", repr(text)) from error
