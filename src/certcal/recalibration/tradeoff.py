"""The Pareto curve of clean against certified scores, as arrays."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.inputs import one_or_more
from certcal.recalibration.data import check_share
from certcal.recalibration.heldout import held_out_scores
from certcal.recalibration.scores import Scores
from certcal.types import FloatArray


@dataclass(frozen=True, eq=False)
class TradeOff:
    """The Pareto curve of clean against certified scores over λ, means over splits of inputs not fitted on."""

    radius: float
    clean_weight: FloatArray  # (k,) λ
    certified_ece: FloatArray  # (k,) and so on, as in `Scores`
    certified_brier: FloatArray
    ece: FloatArray
    brier: FloatArray
    brier_all: FloatArray
    auroc: FloatArray
    refinement: FloatArray
    levels: FloatArray
    identity: Scores  # without a map


def trade_off(
    bounds: ConfidenceIntervals,
    *,
    clean_weights: Iterable[float] = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0),
    **options: Any,
) -> TradeOff:
    """How clean and certified scores at one radius trade against each other as clean points gain weight.

    Paper: —; docs/recalibration.md.

    Args:
        bounds: certificates at one radius.
        clean_weights: the λ to try.
        options: as for `held_out_scores`; every λ sees the same splits.
    """
    if not isinstance(bounds, ConfidenceIntervals):
        raise InputError.expected("bounds", "be the certificates at one radius", type(bounds).__name__)
    shares = [check_share(share) for share in one_or_more("clean_weights", clean_weights)]
    pairs = [held_out_scores(bounds, clean_weight=share, **options).mean(bounds.radius) for share in shares]
    columns = {f.name: np.array([getattr(after, f.name) for _, after in pairs]) for f in fields(Scores)}
    return TradeOff(bounds.radius, np.array(shares), identity=pairs[0][0], **columns)
