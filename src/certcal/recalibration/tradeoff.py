"""The Pareto curve of clean against certified scores, as arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.inputs import one_or_more
from certcal.recalibration.data import as_intervals, check_share
from certcal.recalibration.heldout import held_out_scores
from certcal.recalibration.scores import Scores
from certcal.settings import CLEAN_WEIGHTS
from certcal.types import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff:
    """The Pareto curve of clean against certified scores over λ, means over splits of inputs not fitted on."""

    radius: float
    clean_weight: FloatArray  # (k,) λ
    scores: tuple[Scores, ...]  # (k,) after the map
    identity: Scores  # without a map

    def of(self, name: str) -> FloatArray:
        """One of the `Scores` along the curve, shape (k,)."""
        return np.array([getattr(own, name) for own in self.scores])

    def __repr__(self) -> str:
        return f"TradeOff(R = {self.radius:g}, λ = {', '.join(f'{share:g}' for share in self.clean_weight)})"


def trade_off(
    bounds: ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    radius: float | None = None,
    clean_weights: Iterable[float] = CLEAN_WEIGHTS,
    **options: Any,
) -> TradeOff:
    """How clean and certified scores at a radius trade against each other as clean points gain weight.

    Paper: —; docs/recalibration.md.

    Args:
        bounds: certificates at one radius, or at several that maps are fitted to together.
        radius: at which scores are given; the largest of them by default.
        clean_weights: the λ to try.
        options: as for `held_out_scores`; every λ sees the same splits.
    """
    several = as_intervals(bounds)
    at = max(own.radius for own in several) if radius is None else radius
    shares = [check_share(share) for share in one_or_more("clean_weights", clean_weights)]
    pairs = [held_out_scores(several, clean_weight=share, **options).mean(at) for share in shares]
    return TradeOff(at, np.array(shares), tuple(after for _, after in pairs), identity=pairs[0][0])
