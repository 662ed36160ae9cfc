"""Whole numbers whose law is that of rounded normals, from 64 random bits each and without a rounding.

A normal of deviation s, rounded, is drawn as ±(w·J + T). J is one of 2^15 knots, chosen by Walker's alias method from
weights that are multiples of 2^-46. T is the sum of two uniform numbers below w, centred, so that the law is the line
through the weights of neighbouring knots. All of it is whole numbers: the law is known exactly, and every machine draws
the same. docs/noise.md says how far it is from the law of a rounded normal, and proves it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import torch
from torch import Tensor

from certcal.models.grid import LARGEST_NORMAL

KNOT_BITS = 15
KNOTS = 2**KNOT_BITS
CHOICE_BITS = 31  # of a word: signed 32-bit arithmetic then compares without overflow
WEIGHT = 2**CHOICE_BITS * KNOTS  # what the weights add up to


@dataclass(frozen=True, eq=False)
class Knots:
    """The alias table of one deviation: knot i stays if its choice is at most `last`, and else moves to its alias."""

    bits: int  # knots lie w = 2^bits apart
    last: Tensor  # (2^15,) int32: the largest 31-bit choice that stays, -1 where none does
    place: Tensor  # (2^16,) int32: w·J + 1 - w for the knots themselves, then for their aliases

    @cached_property
    def packed(self) -> Tensor:
        """Both in one word, (2^15,) int64: `last` in the upper half, how far the alias lies in the lower."""
        jump = self.place[KNOTS:] - self.place[:KNOTS]
        return self.last.long() << 32 | jump.long() & 0xFFFFFFFF

    def draw(self, words: Tensor, out: Tensor, scratch: Tensor) -> None:
        """Fill `out`, (rows, elements) float32, from two 32-bit words for each element: words[:, 0] and words[:, 1].

        Words may have more columns than there are elements. The first is the choice. Bits of the second, from the
        lowest: 15 for the knot, twice `bits` for the spread about it; the highest is the sign.

        Args:
            scratch: (2, rows, elements) int32, overwritten. `out` is room for a third number.
        """
        below = 2**self.bits - 1
        choice, place = words[:, :, : out.shape[1]].unbind(1)  # their rows lie apart: they are read but once and twice
        part, value = scratch.unbind()
        spare, index, found = out.view(torch.int32), part.view(-1), value.view(-1)
        torch.bitwise_and(place, KNOTS - 1, out=part)
        torch.index_select(self.last, 0, index, out=found)
        moves = value.lt_(torch.bitwise_and(choice, 2**CHOICE_BITS - 1, out=spare))  # 1, else 0
        part.add_(moves, alpha=KNOTS)
        torch.index_select(self.place, 0, index, out=found)
        torch.bitwise_right_shift(place, KNOT_BITS, out=part)  # the sign stays the highest bit
        spread = torch.bitwise_and(part, below * (below + 2), out=spare)
        value.add_(spread).add_(spread.bitwise_right_shift_(self.bits), alpha=-below)  # a + w·b − (w − 1)·b = a + b
        # The sign is a bit of the float. A zero may get it: added to an input, −0 is 0.
        out.copy_(value).view(torch.int32).bitwise_xor_(part.bitwise_and_(-(2**31)))


@cache
def knots(deviation: float, device: torch.device | None = None) -> Knots:
    """The table for normals of a deviation of at least 32 and at most 2^22 / 8 whole numbers."""
    if device is not None:
        table = knots(deviation)
        return Knots(table.bits, table.last.to(device), table.place.to(device))
    bits = spacing_bits(deviation)
    stays, alias = alias_table(knot_weights(deviation, bits))
    last = torch.tensor(stays).sub_(1).to(torch.int32)
    place = torch.tensor([range(KNOTS), alias]).view(-1) * 2**bits + 1 - 2**bits
    return Knots(bits, last, place.to(torch.int32))


def spacing_bits(deviation: float) -> int:
    """The least b for which knots 2^b apart reach 8 deviations."""
    return int((int(LARGEST_NORMAL * deviation) - 1) // KNOTS).bit_length()


def knot_weights(deviation: float, bits: int) -> list[int]:
    """The weights of the knots 0 … 2^15 - 1 times w, both signs together, in units of 2^-46: a sampled Gaussian.

    T adds (w² - 1) / 6 to the variance, and rounding a normal 1 / 12.
    """
    width = 2**bits
    variance = Fraction(deviation) ** 2 + Fraction(1, 12) - Fraction(width**2 - 1, 6)
    density = list(_gaussian(Fraction(width**2) / (2 * variance)))
    total = 2 * sum(density) - density[0]
    weights = [(4 * WEIGHT * own // total + 1) // 2 for own in density]
    return [WEIGHT - sum(weights[1:]), *weights[1:]]


def alias_table(weights: list[int]) -> tuple[list[int], list[int]]:
    """How many of the 2^31 choices stay at each knot, and where the others go, so that the weights are met exactly."""
    room = 2**CHOICE_BITS
    stays, alias = list(weights), list(range(KNOTS))
    small = [knot for knot in range(KNOTS) if weights[knot] < room]
    large = [knot for knot in range(KNOTS) if weights[knot] >= room]
    while small:
        knot, donor = small.pop(), large[-1]
        alias[knot] = donor
        stays[donor] -= room - stays[knot]
        if stays[donor] < room:
            small.append(large.pop())
    return stays, alias


def _gaussian(rate: Fraction) -> Iterator[int]:
    """2^160 · exp(-rate · j²) for j = 0 … 2^15 - 1: exp((j + 1)²) over exp(j²) grows by one factor each time."""
    one = 2**160
    ratio = _exp(rate, one)
    density, growth = one, ratio * ratio // one
    for _ in range(KNOTS):
        yield density
        density, ratio = density * ratio // one, ratio * growth // one


def _exp(rate: Fraction, one: int) -> int:
    """one · exp(-rate) for a rate below 1, by its series."""
    term = total = one
    for k in range(1, 100):
        term = -term * rate.numerator // (rate.denominator * k)
        total += term
    return total
