"""Checks of one value: each takes the name of a setting and its value, and gives the value or refuses it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from certcal.errors import InputError
from certcal.scalars import check_choice, check_flag, check_integer, check_level, check_number

Check = Callable[[str, Any], Any]
# The exact solution counts inputs by pairs of bins; beyond this its tables would outgrow the inputs.
MAX_BINS = 1024
MAX_SEED = 2**63 - 1
# 64-bit integers hold the sums of scores of 2^23 draws; docs/evidence.md.
MAX_DRAWS, MAX_CHUNK = 8_000_000, 8_000
MAX_CLASSES = 100_000
MIN_SIGMA = 2.0**-15  # 32 steps of the finest grid of the noise, whose law would not be near enough to a normal below
MAX_SIGMA = 1e5  # the grid of the noise is finer than 1 up to 3e5
MAX_SIDE = 16_384  # pixels
MOST = 10**9  # of anything else that is counted


def whole(minimum: int | None = None, maximum: int | None = None) -> Check:
    least = -(2**63) if minimum is None else minimum
    return lambda name, value: check_integer(name, value, minimum=least, maximum=maximum)


def number(requirement: str, holds: Callable[[float], bool] = lambda value: True) -> Check:
    """A finite number for which `holds`; `requirement` says the same in words."""
    return lambda name, value: check_number(name, value, requirement, holds)


def one_of(choices: Iterable[str]) -> Check:
    allowed = tuple(choices)
    return lambda name, value: check_choice(name, value, allowed)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError.expected(name, "be a text", repr(value))
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError.expected(name, "be a text that UTF-8 can hold", ascii(value)) from error
    return value


def table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError.expected(name, "be a table", repr(value))
    return dict(value)


def each_once(name: str, values: Iterable[object]) -> None:
    """Refuse a value that is named twice."""
    seen: list[object] = []
    for value in values:
        if value in seen:
            raise InputError.expected(name, "name each value once", f"{value} twice")
        seen.append(value)


level = check_level
level_or_0 = number("lie in the open interval (0, 1)", lambda value: 0 <= value < 1)
flag = check_flag
sigma = number(f"lie between {MIN_SIGMA:.2g} and {MAX_SIGMA:g}", lambda value: MIN_SIGMA <= value <= MAX_SIGMA)
positive = number("be a finite number > 0", lambda value: value > 0)
radius = number("be finite and ≥ 0", lambda value: value >= 0)
not_negative = number("be a finite number ≥ 0", lambda value: value >= 0)
share = number("lie in [0, 1]", lambda value: 0 <= value <= 1)
inner_share = number("lie in the open interval (0, 1)", lambda value: 0 < value < 1)
factor = number("lie in (0, 1e4]", lambda value: 0 < value <= 1e4)
at_least_1 = whole(1, MOST)
at_least_0 = whole(0, MOST)
up_to_a_million = whole(1, 10**6)
draws = whole(1, MAX_DRAWS)
chunk = whole(1, MAX_CHUNK)
classes = whole(1, MAX_CLASSES)
side = whole(1, MAX_SIDE)
seed = whole(0, MAX_SEED)
bins = whole(1, MAX_BINS)

BY_TYPE: dict[type, Check] = {bool: flag, int: whole(), float: number("be a number"), str: text, dict: table}
