"""The radii at which the inputs of a run teach a map."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.recalibration import MIN_INPUTS, PARTS, AnyMap, recalibrate_bounds, split_inputs, unless_one_decides
from certcal.scalars import exactly
from certcal.settings import OnFailure, RecalibrateSettings

Indices = NDArray[np.intp]
ENOUGH = 3  # wrong (or right) predictions that mostly teach a map, of which two have to
SMALLER = 0.4, 0.3, 0.2, 0.1  # shares to hold out that may leave enough to fit on


def radii_that_teach(
    bounds: list[ConfidenceIntervals], asked: RecalibrateSettings, *, n_bins: int
) -> list[ConfidenceIntervals]:
    """The certificates that maps are fitted to.

    Those of all radii that were asked for; or else of the largest at which the fitting part of the kept split teaches a
    map that does not hang on one input. The choice does not look at the inputs held out of that split: the report on
    them is of a map fixed without them. Only a refusal counts the whole run.
    """
    fitting: dict[str, Any] = {"weights": asked.radius_weights, "n_bins": n_bins}
    falling = sorted(bounds, key=lambda one: -one.radius)
    choices = [bounds] if asked.radii is not None else [[one] for one in falling]
    own = _first_that_teaches(choices, _parts(len(bounds[0]), asked), asked, fitting)
    if own is None:
        raise InputError(_refusal(bounds, asked, _smaller_holdout(choices, asked, fitting)))
    return choices[own]


def _parts(inputs: int, asked: RecalibrateSettings) -> list[Indices]:
    """The inputs that the kept map is fitted on, and the parts of them that have to teach one too."""
    part = split_inputs(inputs, **asked.splits)[0][0]
    if not asked.automatic:
        return [part]
    return [part, *(part[rest] for rest, _ in split_inputs(len(part), folds=PARTS, repeats=1, seed=asked.seed))]


def _smaller_holdout(
    choices: list[list[ConfidenceIntervals]], asked: RecalibrateSettings, fitting: dict[str, Any]
) -> float | None:
    """The largest smaller share held out that leaves enough to learn from; None if there is none."""
    for share in () if asked.folds is not None else SMALLER:
        fewer = replace(asked, holdout=share)
        if (
            share < asked.holdout
            and _first_that_teaches(choices, _parts(len(choices[0][0]), fewer), fewer, fitting) is not None
        ):
            return share
    return None


def _refusal(bounds: list[ConfidenceIntervals], asked: RecalibrateSettings, smaller: float | None) -> str:
    """What is missing, at the radius that decides, to fit on and in the whole run; and what would help."""
    part = _parts(len(bounds[0]), asked)[0]

    def fewest(one: ConfidenceIntervals) -> tuple[int, int, int]:
        return min(_counts(one.select(part))[:2]), min(_counts(one)[:2]), _counts(one)[2]

    # All radii that are asked for have to teach; else one of them is enough, and the best comes closest.
    one = (max if asked.radii is None else min)(bounds, key=fewest)
    (wrong, right, count), (_, _, total) = fit, whole = _counts(one.select(part)), _counts(one)
    kind, place = ("wrong", 0) if wrong <= right else ("right", 1)
    shown = f"{fit[place]} of {count} certified inputs to fit on {'is' if fit[place] == 1 else 'are'} {kind}"
    halves = ", also in each three quarters of them, on which maps are compared" if asked.automatic else ""
    nearer = " or a smaller radius" if min(own.radius for own in bounds) > 0 else ""
    if smaller is None:
        vain = "It" if asked.folds is not None else "Holding out fewer does not help: it"
        more = _about(whole[place], len(bounds[0]), asked)
        advice = f"{vain} takes more inputs{more} (certcal certify RUN --limit N){nearer}."
    else:
        advice = f"Hold out fewer: --holdout {smaller:g} leaves enough to fit on."
    return (
        f"No map can be learned: it takes {MIN_INPUTS} certified inputs to fit on, two right and two wrong ones among "
        f"them{halves}. At R = {exactly(one.radius)}, {shown}, and {whole[place]} of {total} in the whole run. "
        f"{advice} Or keep the confidences as they are: --on-failure identity."
    )


def _about(few: int, inputs: int, asked: RecalibrateSettings) -> str:
    """How many inputs would have enough of the few, at this rate, to two digits."""
    if not few:
        return " or harder ones"
    held = 1 / asked.folds if asked.folds is not None else asked.holdout
    count = math.ceil(ENOUGH * (PARTS if asked.automatic else 1) / (1 - held) * inputs / few)
    step = 10 ** max(len(str(count)) - 2, 0)
    return f", about {math.ceil(count / step) * step:,} at this rate"


def _counts(own: ConfidenceIntervals) -> tuple[int, int, int]:
    """How many of the certified inputs are wrong, how many right, and how many there are."""
    right, total = int((own.certified & own.correct).sum()), int(own.certified.sum())
    return total - right, right, total


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
