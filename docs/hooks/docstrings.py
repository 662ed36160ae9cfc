"""Docstrings as our source writes them, made ready for the API pages: comments behind fields, and bare doctests."""

import io
import re
import tokenize
from textwrap import dedent
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class OurStyle(griffe.Extension):
    """Fences doctests, and gives a class that does not list its attributes a list, made of the comments behind them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        fields = [member for member in cls.attributes.values() if is_field(member)]
        if cls.docstring is None or "Attributes:" in cls.docstring.value or not any(map(comment, fields)):
            return
        lines = [f"    {field.name}: {value(field)}{comment(field) or '…'}" for field in fields]
        cls.docstring.value += "\n\nAttributes:\n" + "\n".join(lines)


def is_field(member: griffe.Attribute) -> bool:
    return not member.name.startswith("_") and "property" not in member.labels and member.lineno is not None


def value(field: griffe.Attribute) -> str:
    """The value of a choice; fields of records have types instead, and defaults in the signature."""
    return f"`{field.value}`, " if field.annotation is None else ""


def comment(field: griffe.Attribute) -> str:
    """The comment behind a field as Markdown, in which only `code` is marked: α_z is no emphasis."""
    tokens = tokenize.generate_tokens(io.StringIO(dedent("\n".join(field.lines)) + "\n").readline)
    text = next((token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT), "")
    return re.sub(r"`[^`]*`|[_*\[\]]", lambda found: found[0] if found[0][0] == "`" else f"\\{found[0]}", text)
