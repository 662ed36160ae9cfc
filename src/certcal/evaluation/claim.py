"""The guaranteed calibration error of the set by the best of three ways, each of which pays with its part of δ.

Proofs: docs/guarantee.md, "The best of three".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.evaluation.row import Row
from certcal.metrics import Bins
from certcal.settings import Claim, Population
from certcal.smoothing import Evidence
from certcal.types import BoolArray
from certcal.worstcase import allowed_failures, alpha_for_set, jointly_certified_calibration_error, pooled_claims

FAILURES, FOR_SET, POOLED = "failures", "alpha_for_set", "pooled"

Certify = Callable[[Mapping[str, Any]], Sequence[ConfidenceIntervals]]


def ways_of(claim: str, evidence: Evidence | None, *, mapped: bool) -> tuple[str, ...]:
    """By which ways the set's calibration error is bounded. Nothing that was drawn has a part in it.

    A pooled claim needs one planned number of draws, and no map: one that was fitted on these draws would void it.
    """
    if claim == Claim.FAILURES or evidence is None:
        return (FAILURES,)
    return (FAILURES, FOR_SET) if mapped or evidence.header.looks != 1 else (FAILURES, FOR_SET, POOLED)


def with_best_claim(
    rows: Sequence[Row],
    bounds: Sequence[ConfidenceIntervals],
    evidence: Evidence,
    certify: Certify,
    ways: Sequence[str],
    *,
    delta: float,
    population: Population,
    bins: Bins,
) -> list[Row]:
    """The rows with the least bound of their calibration error; all bounds of all ways hold together at 1 − delta.

    Each way has delta / len(ways). The rows have theirs from failed certificates at that level; `certify` gives bounds
    of the same inputs at the same radii for other terms.

    Paper: —; docs/guarantee.md.   Errs: high.
    """
    share = delta / len(ways)
    counted = [own.certified | (population is Population.ALL) for own in bounds]
    found: dict[str, Sequence[float]] = {FAILURES: [row.joint_ece for row in rows]}
    if FOR_SET in ways:
        found[FOR_SET] = _by_alpha_for_set(evidence, certify, counted, share, bins)
    if POOLED in ways and evidence.header.planned(evidence.draws).all() and len(set(evidence.draws.tolist())) == 1:
        questions = [(own.radius, some) for own, some in zip(bounds, counted, strict=True)]
        claims = pooled_claims(evidence, questions, delta=share, edges=bins.edges)
        found[POOLED] = [np.nan if one is None else one.value for one in claims]
    return [
        replace(row, joint_ece=min(own), claims=dict(zip(found, own, strict=True))) if row.inputs else row
        for row, own in zip(rows, zip(*found.values(), strict=True), strict=True)
    ]


def _by_alpha_for_set(
    evidence: Evidence, certify: Certify, counted: Sequence[BoolArray], delta: float, bins: Bins
) -> list[float]:
    """For the same inputs, from bounds at the α that suits the set; those not certified there count as uncertified."""
    planned = max(evidence.header.stages, default=int(evidence.draws.max()))
    several = certify({"alpha": alpha_for_set(len(evidence), draws=planned, delta=delta)})
    failures = allowed_failures(several[0], delta=delta)
    return [
        jointly_certified_calibration_error(
            own.select(some), population=Population.ALL, failures=failures, edges=bins.edges
        ).value
        if some.any()
        else np.nan
        for own, some in zip(several, counted, strict=True)
    ]
