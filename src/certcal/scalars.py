"""Checks of single values, without NumPy, so that settings and `certcal --help` load in no time."""

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

from certcal.errors import InputError


def check_integer(name: str, value: object, *, minimum: int, maximum: int | None = None) -> int:
    """A whole number between `minimum` and `maximum`; booleans and floats are refused."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < minimum:
        raise InputError.expected(name, f"be an integer ≥ {minimum}", _brief(value))
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
        raise InputError.expected(name, requirement, _brief(value))
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


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of a few names."""
    if not isinstance(value, str) or value not in choices:
        raise InputError.expected(name, f"be one of {', '.join(repr(str(choice)) for choice in choices)}", repr(value))
    return str(value)


def one_or_more(name: str, value: object) -> tuple[Any, ...]:
    """A single setting as a tuple of one, several as a tuple; an empty collection is refused."""
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
