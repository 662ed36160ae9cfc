"""Choosing among trained models as the paper does: first certified accuracy, within a margin, then calibration."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from certcal.errors import InputError
from certcal.inputs import as_vector, check_same_length
from certcal.scalars import guarded
from certcal.settings import checks
from certcal.types import ArrayLike, BoolArray

MARGIN = 0.03


@dataclass(frozen=True)
class Outcome:
    """What a trained model came to at one radius."""

    method: str  # how it was trained
    model: str  # which one
    radius: float
    certified_accuracy: float
    certified_ece: float  # NaN where no input is certified
    certified_brier: float
    baseline: str = ""  # that it was fine-tuned from; its own name for a baseline
    settings: str = field(default="", compare=False)  # what distinguishes it, in words


@dataclass(frozen=True)
class Selection:
    """The best of each method at one radius."""

    radius: float
    best_accuracy: float  # of any model
    least_accuracy: float  # that is within the margin of it
    within: int  # models from the one to the other
    ece: dict[str, Outcome]  # per method, the least certified calibration error of these
    brier: dict[str, Outcome]  # per method, the least certified Brier score of these


@guarded
def select(outcomes: Sequence[Outcome], *, radius: float, margin: float = MARGIN) -> Selection:
    """Per method the best certified calibration among all models within a margin of the best certified accuracy.

    Paper: Sec. 5: within 3 points of the highest certified accuracy that any model has at that radius. The
    models are chosen on the inputs they are reported on, as there; the best of many errs low.

    Raises: InputError if no model has an outcome at the radius.

    >>> made = [Outcome("AT", "a", 0.5, 0.60, 0.4, 0.3), Outcome("ACT", "b", 0.5, 0.58, 0.3, 0.2),
    ...         Outcome("ACT", "c", 0.5, 0.50, 0.1, 0.1)]
    >>> select(made, radius=0.5).ece["ACT"].model
    'b'
    """
    checks.not_negative("margin", margin)
    checks.not_negative("radius", radius)
    here = [one for one in outcomes if one.radius == radius]
    if not here:
        raise InputError.expected("outcomes", f"hold models evaluated at R = {radius:g}", f"{len(outcomes)} others")
    best = max(one.certified_accuracy for one in here)
    # 0.60 - 0.57 is more than 0.03 in floating point; a point at the margin is within it.
    kept = [one for one in here if best - one.certified_accuracy <= margin + 1e-12]
    least = max(round(best - margin, 12), 0.0)
    return Selection(radius, best, least, len(kept), _least(kept, "certified_ece"), _least(kept, "certified_brier"))


def _least(outcomes: list[Outcome], score: str) -> dict[str, Outcome]:
    least: dict[str, Outcome] = {}
    for one in outcomes:
        value = getattr(one, score)
        if not np.isnan(value) and (one.method not in least or value < getattr(least[one.method], score)):
            least[one.method] = one
    return least


def pareto_front(accuracy: ArrayLike, error: ArrayLike) -> BoolArray:
    """Which models no other one beats: none is at least as accurate with at most its error and better in one of them.

    Paper: App. I.

    >>> pareto_front([0.6, 0.5, 0.5], [0.4, 0.3, 0.35]).tolist()
    [True, True, False]
    """
    high, low = (as_vector(name, own, allow_empty=True) for name, own in (("accuracy", accuracy), ("error", error)))
    check_same_length("error", low, "accuracy", high)
    order = np.lexsort((low, -high))  # falling accuracy, then rising error
    front = np.zeros(len(high), dtype=np.bool_)
    least, at = np.inf, np.nan
    for place in order:
        # Later ones are no more accurate: to stay they need a smaller error, or to equal the one before in both.
        if low[place] < least or (low[place] == least and high[place] == at):
            front[place], least, at = True, low[place], high[place]
    return front
