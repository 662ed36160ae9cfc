"""How alpha is shared: by an input's two certificates, and by all looks at the draws there may ever be.

Of looks, nine tenths go evenly to those that were planned before the first draw, each with the exact limits for its
number of draws. The last tenth covers every other number of draws, all of them at once. Proof: docs/certificates.md.
"""

from collections.abc import Callable
from fractions import Fraction
from math import nextafter

import numpy as np

from certcal.means import anytime_limits
from certcal.proportions import clopper_pearson_upper
from certcal.scalars import check_flag, check_level
from certcal.smoothing import Counts, Evidence, EvidenceHeader
from certcal.types import BoolArray, FloatArray

# What all pay in case somebody draws on: at alpha = 0.001 the limits of 255 thresholds are 0.5 % wider than with 1.
PLANNED_SHARE = 0.9

Limits = Callable[[BoolArray, float], tuple[FloatArray, FloatArray] | FloatArray]


def by_look(header: EvidenceHeader, draws: Counts, alpha: float, *, planned: Limits, any_time: Limits) -> FloatArray:
    """Limits that together, over all looks there may ever be, fail with probability at most alpha for each entry.

    `planned(rows, level)` gives those of entries at a planned look, for that number of draws; `any_time(rows, level)`
    those of the others, which must hold after every number of draws at once. Entries run along the last axis.
    """
    at = header.planned(draws)
    levels = PLANNED_SHARE * alpha / header.looks, (1 - PLANNED_SHARE) * alpha
    if at.all():
        return np.asarray(planned(at, levels[0]))
    parts = [(~at, np.asarray(any_time(~at, levels[1])))]
    parts += [(at, np.asarray(planned(at, levels[0])))] if at.any() else []
    found = np.empty((*parts[0][1].shape[:-1], len(draws)))
    for rows, limits in parts:
        found[..., rows] = limits
    return found


def upper_limits_by_look(evidence: Evidence, counts: Counts, alpha: float) -> FloatArray:
    """Upper limits of the probabilities of what was counted among each input's draws, shape (n,).

    Each is at least its probability under Gaussian noise, at all looks together, with probability at least 1 - alpha.

    Errs: high.
    """
    n = evidence.draws
    found = by_look(
        evidence.header,
        n,
        alpha,
        planned=lambda at, level: clopper_pearson_upper(counts[at], n[at], alpha=level),
        any_time=lambda at, level: anytime_limits(counts[at], n[at], alpha=level)[1],
    )
    return np.minimum(found + evidence.header.slip, 1.0)


def share_of_delta(evidence: Evidence) -> float:
    """The part of delta for a claim about the population, whose bound is for numbers of draws fixed beforehand.

    Nine tenths are shared by the planned looks. Where all inputs have the same other number of draws, m chunks, a tenth
    / (m (m + 1)), which adds up over all m. Nothing where they differ: who chose the numbers may have seen the draws.
    """
    if evidence.header.planned(evidence.draws).all():
        return PLANNED_SHARE / evidence.header.looks
    most = int(evidence.draws.max(initial=0))
    if (evidence.draws != most).any():
        return 0.0
    chunks = -(-most // evidence.header.chunk)
    return (1 - PLANNED_SHARE) / (chunks * (chunks + 1))


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
