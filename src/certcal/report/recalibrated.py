"""What a recalibration did to inputs that no map was fitted on, as the page shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from certcal.recalibration import HeldOut, RecalibrationMap, Scores, TradeOff
from certcal.report.tables import Rounding, exactly, number, percent
from certcal.types import FloatArray

_DIGITS = 4  # of plotted values

# (field of `Scores`, label, in percent)
SCORES = (
    ("certified_ece", "certified ECE, certified inputs", True),
    ("certified_brier", "certified Brier score, certified inputs", False),
    ("ece", "ECE without an attack, certified inputs", True),
    ("brier_all", "Brier score without an attack, all inputs", False),
    ("auroc", "AUROC: telling right from wrong, all inputs", False),
    ("refinement", "refinement, what no map of bins removes, all inputs", False),
    ("levels", "distinct confidences, all inputs", False),
)


@dataclass(frozen=True)
class ScoreRow:
    """Means over splits of one score before and after, and standard deviations between splits."""

    key: str
    label: str
    before: str
    after: str
    spread: str  # of the value after


def score_rows(held: HeldOut, radius: float) -> list[ScoreRow]:
    """The table of held-out scores at one radius."""
    before, after = held.mean(radius)
    spread = held.spread(radius)
    return [
        ScoreRow(key, label, *(written(getattr(scores, key), key, share=share) for scores in (before, after, spread)))
        for key, label, share in SCORES
    ]


def written(value: float, key: str, *, share: bool) -> str:
    """A mean over splits, rounded to the nearest: unlike a certified value it bounds nothing."""
    if np.isnan(value):
        return "—"
    if key == "levels":
        return f"{value:.0f}"
    return percent(value, Rounding.NEAREST) if share else number(value, Rounding.NEAREST)


def recalibration_section(held: HeldOut, curve: TradeOff, radii: Sequence[float]) -> dict[str, Any]:
    """The recalibration part of `page_data`: the kept map, scores over splits, and the trade-off of both scores."""
    kept = held.maps[0]
    fitted, tested, splits = len(held.fit[0]), len(held.test[0]), len(held.fit)
    at = " and ".join(f"R = {exactly(radius)}" for radius in radii)
    lead = (
        f"The map (kind: {kept.kind}) was fitted for {at} on {fitted:,} inputs, and this page is about the {tested:,} "
        f"others. The table below repeats that over {splits} random {'splits' if splits > 1 else 'split'}: mean before "
        "and after, always on inputs held out of the fitting. Predictions are the same before and after."
    )
    if held.without_map:
        lead += f" {held.without_map} of {splits} splits had nothing to learn from and count as unchanged."
    return {
        "lead": lead,
        "warning": warning(*held.mean(max(radii))),
        "tables": [
            {"radius": exactly(radius), "rows": [vars(row) for row in score_rows(held, radius)]} for radius in radii
        ],
        "curve": {
            "radius": exactly(curve.radius),
            "clean_weight": curve.clean_weight.tolist(),
            **{name: _numbers(getattr(curve, name)) for name in ("certified_brier", "brier_all", "auroc", "levels")},
        },
        "identity": {
            name: _numbers(np.array([getattr(curve.identity, name)]))[0] for name in ("certified_brier", "brier_all")
        },
        "map": prepare_map(kept),
    }


def warning(before: Scores, after: Scores) -> str | None:
    """What has to be said of a map that no longer tells right from wrong."""
    if after.levels < 2:
        return (
            "The map is constant and no longer tells right from wrong: take a larger clean weight or a smaller radius."
        )
    if after.auroc < 0.5 + (before.auroc - 0.5) / 2:
        return "The map tells right from wrong far less well: look at the AUROC."
    return None


def prepare_map(recalibration: RecalibrationMap, *, points: int = 401) -> dict[str, list[float | None]]:
    """The map as points of its graph."""
    x = np.linspace(0, 1, points)
    return {"x": _numbers(x), "y": _numbers(recalibration.transform(x))}


def _numbers(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), _DIGITS) for value in values]
