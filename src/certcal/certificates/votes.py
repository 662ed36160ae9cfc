"""Certificates of deterministic ensembles, of whose votes only so many can change.

Proof: docs/certificates.md, "Certificates from elsewhere".
"""

import numpy as np

from certcal.certificates.intervals import UNSAID, ConfidenceIntervals, Stated
from certcal.certificates.radius import rival_votes
from certcal.errors import InputError
from certcal.inputs import as_class_numbers, as_counts
from certcal.settings import Domain, Norm
from certcal.types import ArrayLike

EXACT = 2.0**53  # below this, float64 holds all whole numbers


def intervals_from_votes(
    votes: ArrayLike,
    labels: ArrayLike,
    *,
    changed: ArrayLike | int,
    radius: float = UNSAID,
    norm: str = Norm.DECLARED,
    domain: str = Domain.EVERYWHERE,
    index: ArrayLike | None = None,
) -> ConfidenceIntervals:
    """Certificates of a deterministic ensemble, of whose votes at most `changed` can change within R.

    The confidence is the share of votes for A, which moves by at most changed / n; A stays while no other class can
    catch up. So it is for ℓ1 smoothing by splitting noise, for ablations of patches, and for members that see parts.

    Paper: —; docs/certificates.md, with Levine and Feizi (2021) for ℓ1 and (2020) for patches.
    Errs: outward, and towards not certified: a tie does not certify.

    Args:
        votes: of every class, shape (n, k).
        labels: true classes, shape (n,).
        changed: how many votes can change, at most; one number, or one per input.
        radius, norm, domain: within what, measured how, and where inputs may be moved to.
        index: positions of the inputs in their data set.

    >>> made = intervals_from_votes([[80, 20], [55, 45]], [0, 0], changed=10)
    >>> made.lower.round(4).tolist(), made.upper.round(4).tolist(), made.certified.tolist()
    ([0.7, 0.45], [0.9, 0.65], [True, False])
    """
    table = as_counts("votes", votes)
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise InputError.expected("votes", "have shape (inputs, classes ≥ 2)", f"shape {table.shape}")
    n, total = len(table), table.sum(axis=1)
    if not total.all():
        raise InputError.expected("votes", "hold a vote for every input", f"none in row {int(np.argmin(total))}")
    change = as_counts("changed", changed)
    if change.shape not in ((), (n,)):
        raise InputError.expected("changed", f"be one number, or one for each of {n} inputs", f"shape {change.shape}")
    for name, counts in (("votes", total), ("changed", change)):
        if counts.max() >= EXACT:
            raise InputError.expected(name, "be fewer than 2^53 for an input, to be exact", f"{counts.max():g}")
    own = table.argmax(axis=1)
    won = table[np.arange(n), own]
    share = won / total
    # Whole numbers are exact here; a quotient is off by half a unit. One of 0 or all votes is exact.
    low, high = np.maximum(won - change, 0.0), np.minimum(won + change, total)
    lower = np.where(low > 0, np.nextafter(low / total, 0.0), 0.0)
    upper = np.where(high < total, np.nextafter(high / total, 1.0), 1.0)
    return Stated("votes", radius, norm, 0.0, domain).intervals(
        lower,
        upper,
        labels=as_class_numbers("labels", labels, inputs=n, classes=table.shape[1]),
        predicted=own.astype(np.int64),
        certified=np.asarray(won - change > rival_votes(table, own) + change),
        confidence=np.clip(share, lower, upper),
        index=index,
    )
