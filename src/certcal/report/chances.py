"""Chances and other small numbers in words, rounded to the careful side."""

import math
from decimal import ROUND_CEILING, Decimal

from certcal.evaluation import Rounding
from certcal.report.tables import number


def complement(level: float) -> str:
    """1 − level in percent, rounded down at the third digit that counts of the level."""
    if level < 1e-9:
        return f"1 − {small_chance(level)}"
    return f"{(100 * (1 - Decimal(small_chance(level)))).normalize():f} %"


def small_chance(level: float) -> str:
    """A probability with three digits that count, rounded up."""
    value = Decimal(repr(level))
    rounded = value.quantize(Decimal((0, (1,), value.adjusted() - 2)), rounding=ROUND_CEILING)
    return repr(float(rounded))


def small(value: float) -> str:
    """A small number with one digit that counts, rounded up."""
    return number(value, Rounding.UP, max(4, -math.floor(math.log10(value))))
