"""The radii at which the inputs of a run teach a map."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.recalibration import MIN_INPUTS, PARTS, AnyMap, recalibrate_bounds, split_inputs, unless_one_decides
from certcal.scalars import exactly
from certcal.settings import OnFailure, RecalibrateSettings

Indices = NDArray[np.intp]


def radii_that_teach(
    bounds: list[ConfidenceIntervals], asked: RecalibrateSettings, *, n_bins: int
) -> list[ConfidenceIntervals]:
    """The certificates that maps are fitted to.

    Those of all radii that were asked for; or else of the largest at which the fitting part of the kept split teaches a
    map that does not hang on one input. Nothing here looks at the inputs held out of that split: the report on them is
    of a map fixed without them.
    """
    fitting: dict[str, Any] = {"weights": asked.radius_weights, "n_bins": n_bins}
    part = split_inputs(len(bounds[0]), **asked.splits)[0][0]
    parts = [part]
    if asked.automatic:  # maps are compared on parts of it
        parts += [part[rest] for rest, _ in split_inputs(len(part), folds=PARTS, repeats=1, seed=asked.seed)]
    falling = sorted(bounds, key=lambda one: -one.radius)
    choices = [bounds] if asked.radii is not None else [[one] for one in falling]
    own = _first_that_teaches(choices, parts, asked, fitting)
    if own is None:
        counts = ", ".join(
            f"{int((one.certified & ~one.correct).sum())} of {int(one.certified.sum())} at R = {exactly(one.radius)}"
            for one in (one.select(part) for one in reversed(falling))
        )
        halves = ", also in each three quarters of them, on which maps are compared" if asked.automatic else ""
        raise InputError(
            f"No map can be learned: it takes {MIN_INPUTS} certified inputs to fit on, two right and two wrong ones "
            f"among them{halves}. Of the {len(part)} inputs to fit on, certified and wrong are {counts}. It takes more "
            "inputs with wrong predictions among them: certify more (a larger --limit) or harder ones, or hold out "
            "fewer (--holdout 0.2); --on-failure identity keeps the confidences as they are."
        )
    return choices[own]


def _first_that_teaches(
    choices: list[list[ConfidenceIntervals]], parts: list[Indices], asked: RecalibrateSettings, fitting: dict[str, Any]
) -> int | None:
    """Which choice of radii every part teaches a map at, the first; if none does, one for the identity if allowed.

    One input may not decide if the first part, which is the whole, teaches one.
    """

    def taught(part: Indices, choice: list[ConfidenceIntervals]) -> AnyMap:
        own = [one.select(part) for one in choice]
        return recalibrate_bounds(own, clean_weight=asked.weight, on_failure=OnFailure.IDENTITY, **fitting)

    for place, choice in enumerate(choices):
        whole, *halves = (taught(part, choice) for part in parts)
        if all(found.kind != "identity" for found in (unless_one_decides(whole), *halves)):
            return place
    if asked.on_failure != OnFailure.IDENTITY:
        return None
    known = (n for n, choice in enumerate(choices) if all(one.certified[parts[0]].any() for one in choice))
    return next(known, 0)
