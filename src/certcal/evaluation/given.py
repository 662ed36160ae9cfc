"""Certificates that are given, not made from evidence: of the same inputs, with all that a claim needs."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.scalars import exactly, one_or_more


def as_given(
    bounds: Any, radii: Iterable[float] | float | None, alpha: float | None
) -> tuple[ConfidenceIntervals, ...]:
    """Certificates of the same inputs at each of their radii, or at those asked for, if nothing stays unsaid.

    `alpha` is for those that do not state theirs.
    """
    several = (bounds,) if isinstance(bounds, ConfidenceIntervals) else one_or_more("bounds", bounds)
    for own in several:
        if not isinstance(own, ConfidenceIntervals):
            wanted = "be evidence, or certificates from `confidence_bounds` or `certcal.certificates.intervals_from_…`"
            raise InputError.expected("evidence", wanted, type(own).__name__)
        for name in ("index", "label", "predicted"):
            if not np.array_equal(getattr(own, name), getattr(several[0], name)):
                raise InputError.expected("bounds", f"have the same {name} at every radius", "others")
        for name in ("alpha", "norm", "domain", "method", "split_alpha", "prediction_share"):
            first, here = getattr(several[0], name), getattr(own, name)
            if here != first and not (here != here and first != first):
                raise InputError.expected("bounds", f"have one {name}", f"{first} and {here}")
    stated = several[0].alpha
    if alpha is not None and not np.isnan(stated) and alpha != stated:
        raise InputError.expected("alpha", f"be left out, or be {stated:g}, which the bounds state", alpha)
    if alpha is None and np.isnan(stated):
        raise InputError.expected("alpha", "be stated: 0 if the bounds are proven", "none")
    if any(np.isnan(own.radius) for own in several):
        raise InputError.expected("radius", "be given for bounds that do not state it", "none")
    if any(np.isnan(own.confidence).any() for own in several):
        wanted = "be known at every input, for the values without an attack"
        got = "none: give its column, or rows at radius 0 whose bounds meet"
        raise InputError.expected("confidence", wanted, got)
    if radii is not None:
        by_radius = {own.radius: own for own in several}
        for radius in (asked := one_or_more("radii", radii)):
            if radius not in by_radius:
                there = ", ".join(map(exactly, by_radius))
                raise InputError.expected("radii", f"be some of those that the bounds have ({there})", exactly(radius))
        several = tuple(by_radius[radius] for radius in asked)
    return tuple(replace(own, alpha=float(stated if alpha is None else alpha)) for own in several)
