"""Checks of single values, without NumPy, so that settings and `certcal --help` load in no time."""

import difflib
import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from certcal.errors import InputError, kind_of, with_article

P = ParamSpec("P")
R = TypeVar("R")
Test = Callable[[Any], bool]
MOST_VALUES = 1000  # of a list; each radius is a line of the table and a view of the page


def check_integer(name: str, value: object, *, minimum: int, maximum: int | None = None) -> int:
    """A whole number between `minimum` and `maximum`; booleans and floats are refused."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < minimum:
        raise InputError.expected(name, f"be an integer ≥ {minimum}", _no_number(value))
    if maximum is not None and int(value) > maximum:
        raise InputError.expected(name, f"be an integer ≤ {maximum}", _brief(value))
    return int(value)


def check_flag(name: str, value: object) -> bool:
    """True or False, not something that merely counts as either."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):  # the latter are NumPy's
        raise InputError.expected(name, "be True or False", _brief(value))
    return bool(value)


def check_number(
    name: str, value: object, requirement: str, holds: Callable[[float], bool] = lambda number: True
) -> float:
    """A finite real number for which `holds`; `requirement` says the same in words."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError.expected(name, requirement, _no_number(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and holds(number)):
        raise InputError.expected(name, requirement, _brief(value))
    return number


def check_level(name: str, value: object) -> float:
    """An error probability strictly between 0 and 1."""
    return check_number(name, value, "lie in the open interval (0, 1)", lambda level: 0.0 < level < 1.0)


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """A hint at the names that come closest to a wrong one; empty if none does."""
    names = {str(name).lower(): str(name) for name in known}
    close = difflib.get_close_matches(str(value).lower(), names, n=2)
    return f" (did you mean {' or '.join(repr(names[one]) for one in close)}?)" if close else ""


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of a few names."""
    if not isinstance(value, str) or value not in choices:
        named = ", ".join(repr(str(choice)) for choice in choices)
        raise InputError.expected(name, f"be one of {named}", f"{value!r}{did_you_mean(value, choices)}")
    return str(value)


def exactly(value: float) -> str:
    """Every digit of a radius, a budget or a count, or 3/255 where it is so many steps of a byte.

    What is said of R is proven at that R, not at a rounded one.

    >>> exactly(0.25), exactly(8 / 255), exactly(2.0)
    ('0.25', '8/255', '2')
    """
    short = f"{value:.6g}"
    if not math.isfinite(value):
        return short
    if value == int(value):
        return str(int(value))
    if float(short) == value:
        return short
    steps = round(value * 255)
    return f"{steps}/255" if 0 < steps <= 64 and steps / 255 == value else repr(float(value))


def one_or_more(name: str, value: object, *, most: int = MOST_VALUES) -> tuple[Any, ...]:
    """A single setting as a tuple of one, several as a tuple; none are refused, and more than a page can show."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number in NumPy's or torch's clothes
        value = value.item()
    if getattr(value, "__len__", None) is not None and len(value) > most:  # type: ignore[arg-type]
        raise InputError.expected(name, f"hold at most {most} values", len(value))  # type: ignore[arg-type]
    values = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    if not values:
        raise InputError.expected(name, "hold at least one value", "none")
    return values


def _brief(value: object) -> str:
    """A value as it was written, but never a page of it."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "an integer of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _no_number(value: object) -> str:
    """A value that is none of the numbers that are wanted; of text it is said, as it may look like one."""
    return f"the text {_brief(value)}, which is no number" if isinstance(value, str) else _brief(value)


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses arguments of other kinds than it declares: records of ours, lists of them, paths.

    Numbers and arrays have checks of their own, which say more.
    """
    signature, wanted = inspect.signature(function), functools.cache(lambda: dict(_wanted(function)))

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs).arguments
        for name, (described, tests) in wanted().items():
            if name in given and not any(fits(given[name]) for fits in tests):
                raise InputError.expected(name, f"be {described}", kind_of(given[name]))
        return function(*args, **kwargs)

    return checked


def _wanted(function: Callable[..., Any]) -> Iterator[tuple[str, tuple[str, list[Test]]]]:
    """By parameter, what it should be, and tests of which something that is passes one."""
    for name, own in inspect.get_annotations(function).items():
        try:
            hint = eval(own, function.__globals__) if isinstance(own, str) else own
        except NameError:  # known to type checkers only
            continue
        options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        found = [one for one in (_fitting(option, options) for option in options) if one is not None]
        if name != "return" and len(found) == len(options):
            named = " or ".join(dict.fromkeys(described for described, _ in found if described))
            yield name, (named, [fits for _, fits in found])


def _fitting(hint: Any, options: tuple[Any, ...]) -> tuple[str, Test] | None:
    """What one of the options is called, and whether something is one; None where other checks say more."""
    kind, inner = get_origin(hint) or hint, get_args(hint)[:1]
    if kind is NoneType and len(options) > 1:
        return "", lambda value: value is None
    if any((get_origin(one) or one) in (os.PathLike, Path) for one in options):
        return "a path", lambda value: isinstance(value, str | os.PathLike)
    if kind is int:
        return "a whole number", lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if kind is bool:
        return "True or False", lambda value: type(value).__name__ in ("bool", "bool_")
    if kind is Mapping:
        return "a table", lambda value: isinstance(value, Mapping)
    if kind is Callable:
        return "a function", callable
    if kind in (Sequence, Iterable) and (inner == (str,) or _is_ours(*inner)):
        described = "texts" if inner == (str,) else inner[0].__name__
        return (
            f"a list of {described}",
            lambda value: isinstance(value, list | tuple) and all(isinstance(one, inner) for one in value),
        )
    return (with_article(kind.__name__), lambda value: isinstance(value, kind)) if _is_ours(kind) else None


def _is_ours(kind: Any) -> bool:
    return (
        isinstance(kind, type)
        and kind.__module__.startswith(("certcal.", "torch.nn."))
        and not getattr(kind, "_is_protocol", False)
    )
