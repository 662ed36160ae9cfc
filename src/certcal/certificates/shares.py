"""How an input's two certificates, of its class (C1) and of its confidence (C2), share one error probability."""

from fractions import Fraction
from math import nextafter

from certcal.scalars import check_flag, check_level


def shares_of_alpha(alpha: float, *, split_alpha: bool, prediction_share: float) -> tuple[float, float]:
    """The error probabilities of C1 and of C2: both hold with probability at least 1 minus their sum.

    Paper: App. A.1 gives alpha to each, which is `split_alpha=False`.   Errs: low (their exact sum is at most alpha).

    >>> shares_of_alpha(0.25, split_alpha=True, prediction_share=0.25)
    (0.0625, 0.1875)
    """
    level, share = check_level("alpha", alpha), check_level("prediction_share", prediction_share)
    if not check_flag("split_alpha", split_alpha):
        return level, level
    first = level * share
    rest = level - first
    while Fraction(first) + Fraction(rest) > Fraction(level):
        rest = nextafter(rest, 0.0)
    return first, rest
