"""Declare a setting once: its type, default, help, check and option.

A record is a frozen dataclass of settings. From it follow the check in Python, the TOML reader and writer, the options
of the command line with their help, and the tables of docs/command_line.md. Libraries that do parts of this
(pydantic-settings, msgspec, cattrs, cyclopts, jsonargparse, tyro) would each be a further dependency of every
installation, and none does all of it on top of Typer.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import MISSING, dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from certcal.scalars import MOST_VALUES, one_or_more
from certcal.settings.checks import BY_TYPE, Check, one_of

DERIVED = "--"  # the option is called like the field


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is declared of a field, and what follows from its type and default."""

    help: str  # what it is, in a sentence; choices and the default are added to it
    check: Check | None = None  # refuses wrong values; of a list, wrong entries
    choices: tuple[str, ...] = ()  # that the help names
    option: str | None = DERIVED  # on the command line; None: only a file has it
    metavar: str | None = None  # what the help calls its value
    panel: str = ""  # under which heading the help shows it; by default that of the record
    shown: str | None = None  # the default in words, where the value does not say it
    most: int = MOST_VALUES  # how many values a list may have

    name: str = ""
    kind: type = str  # of the value, or of each entry of a list
    many: bool = False  # a list, written with commas on the command line
    optional: bool = False  # None is allowed
    default: Any = None  # MISSING if it must be given

    def checked(self, value: Any) -> Any:
        """The value, or its refusal in one sentence."""
        if value is None and self.optional:
            return None
        check = self.check or BY_TYPE[self.kind]
        if not self.many:
            return check(self.name, value)
        if self.default == () and isinstance(value, tuple | list) and not value:
            return ()
        return tuple(check(self.name, one) for one in one_or_more(self.name, value, most=self.most))

    def describe(self) -> str:
        told = self.help.removesuffix(".")
        if self.choices:
            *first, last = self.choices
            told += f": some of {', '.join(self.choices)}" if self.many else f": {', '.join(first)} or {last}"
        default = self.shown or _written(self.default)
        return f"{told} (default: {default})." if default else f"{told}."


def setting(
    default: Any,
    help: str,
    *,
    check: Check | None = None,
    choices: Iterable[str] = (),
    unsaid: Iterable[str] = (),
    was: str | None = None,
    **about: Any,
) -> Any:
    """A field of a record, with what else `Setting` says of it.

    Args:
        default: its value if none is given; `...` if it must be given.
        help: what it is.
        check: by default any value of the field's type passes.
        choices: the names that are allowed, such as an enum.
        unsaid: those of them that files have and nobody types.
        was: its key in the files of earlier versions.
        about: option, metavar, panel, shown and most.
    """
    allowed = tuple(map(str, choices))
    said = tuple(one for one in allowed if one not in {*map(str, unsaid)})
    own = Setting(help=help, check=one_of(allowed) if allowed else check, choices=said, **about)
    metadata = {"setting": own, "was": was}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=MISSING if default is ... else default, metadata=metadata)


class Record:
    """A frozen dataclass of settings, each checked when it is made."""

    panel: ClassVar[str] = "Options"

    def __init_subclass__(cls, *, panel: str | None = None) -> None:
        super().__init_subclass__()
        if panel is not None:
            cls.panel = panel

    def __post_init__(self) -> None:
        for one in declared(type(self)):
            object.__setattr__(self, one.name, one.checked(getattr(self, one.name)))
        self.check_together()

    def check_together(self) -> None:
        """Refuse what only several settings together make wrong."""


def declared(record: type[Record]) -> tuple[Setting, ...]:
    """The settings of a record, in order."""
    return _declared(record)  # type: ignore[arg-type]


@cache
def _declared(record: type[Record]) -> tuple[Setting, ...]:
    hints = get_type_hints(record)
    return tuple(_setting(record, one, hints[one.name]) for one in dataclasses.fields(record))  # type: ignore[arg-type]


def _setting(record: type[Record], own: "dataclasses.Field[Any]", hint: Any) -> Setting:
    inner = [one for one in get_args(hint) if one is not NoneType] if isinstance(hint, UnionType) else [hint]
    many = get_origin(inner[0]) is tuple
    said: Setting = own.metadata["setting"]
    return dataclasses.replace(
        said,
        option=f"--{own.name.replace('_', '-')}" if said.option == DERIVED else said.option,
        panel=said.panel or record.panel,
        name=own.name,
        kind=get_args(inner[0])[0] if many else get_origin(inner[0]) or inner[0],
        many=many,
        optional=isinstance(hint, UnionType),
        default={} if own.default_factory is not MISSING else own.default,
    )


def _written(value: Any) -> str:
    """A default as one would write it on the command line; empty where there is nothing to say."""
    if value is MISSING or value is None or isinstance(value, bool | dict):
        return ""
    if isinstance(value, tuple):
        return ",".join(_written(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
