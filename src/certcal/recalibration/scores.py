"""Scores of certificates before or after a map: certified, clean, and how sharp the confidences are."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.evaluation import row_at
from certcal.types import ArrayLike, FloatArray


@dataclass(frozen=True)
class Scores:
    """Scores at one radius: certified and clean ones of the inputs certified there, and clean ones of all inputs."""

    certified_ece: float  # NaN, like the next three, if nobody is certified
    certified_brier: float
    ece: float
    brier: float
    brier_all: float  # clean, all inputs
    auroc: float  # of all inputs, like the next two
    refinement: float
    levels: float


NAMES = tuple(f.name for f in fields(Scores))


def score_bounds(bounds: ConfidenceIntervals, *, n_bins: int = 15, edges: ArrayLike | None = None) -> Scores:
    """The scores of certificates, before or after a map."""
    row = row_at(bounds, n_bins=n_bins, edges=edges, metrics=NAMES)
    return Scores(**{name: getattr(row, name) for name in NAMES})


def summary(scores: list[Scores], function: Callable[[FloatArray], Any]) -> Scores:
    """A function, such as the mean, of the values of each score; NaN entries are left out."""

    def over(name: str) -> float:
        values = np.array([getattr(own, name) for own in scores], dtype=np.float64)
        known = values[~np.isnan(values)]
        return float(function(known)) if len(known) else float("nan")

    return Scores(**{name: over(name) for name in NAMES})
