"""`recalibrate`: from certified bounds to the map that makes the certified score least."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation import sample_of
from certcal.recalibration.data import FittingData, NothingToFitError, as_intervals, data_from_arrays, data_from_bounds
from certcal.recalibration.maps import IdentityMap, IsotonicMap, RecalibrationMap, temperature_facts
from certcal.recalibration.parametric import fit_beta, fit_temperature, loss_of
from certcal.scalars import check_choice
from certcal.settings import CLEAN_WEIGHT, MapKind, Objective, OnFailure
from certcal.types import ArrayLike, FloatArray


def recalibrate(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    clean_weight: float | None = None,
    method: str = MapKind.ISOTONIC,
    objective: str = Objective.BRIER,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    on_failure: str = OnFailure.RAISE,
) -> RecalibrationMap:
    """The non-decreasing map of the confidence with the least certified score on these inputs.

    Such a map leaves predictions alone and turns bounds [l, u] into [g(l), g(u)]. So its certified Brier score is its
    plain Brier score on the points (l, 1) of correct and (u, 0) of incorrect inputs, and isotonic regression on them is
    the exact minimiser; with `clean_weight` λ it minimises (1 − λ) · certified + λ · clean. Report scores on other
    inputs than these: `held_out_scores` does both. Of bounds, the certified inputs count; of arrays give only these.

    Paper: —; docs/recalibration.md, from Thm. 3.3.

    Args:
        lower, upper, correct: certified bounds of each confidence and whether the prediction is right, shape (n,); or
            bounds, such as those of `confidence_bounds`, in place of all three and of `confidence`.
        confidence: clean confidences, shape (n,); needed if clean_weight > 0.
        clean_weight: λ in [0, 1]; by default 0.5 with `confidence` or bounds, as everywhere, and 0 without.
        method: "isotonic", "temperature" or "beta".
        objective: "brier", "log" or "calibration" (the exact certified calibration error; not for isotonic maps). The
            isotonic map is the same for the Brier and the log score.
        n_bins, edges: bins of the calibration error.
        on_failure: "raise", or "identity" to get the map that changes nothing, with the reason in its `about`.

    Raises: InputError if an argument is wrong, or there are fewer than 20 inputs, or all are right or all wrong.

    >>> from certcal import certified_brier_score
    >>> lower, upper = [0.1, 0.5, 0.6] * 10, [0.5, 0.9, 1.0] * 10
    >>> g = recalibrate(lower, upper, [0, 1, 1] * 10)
    >>> certified = [g.bounds(lower, upper), (lower, upper)]
    >>> [round(certified_brier_score(*bounds, [0, 1, 1] * 10).value, 4) for bounds in certified]
    [0.1667, 0.22]
    """
    options = {"method": method, "objective": objective, "on_failure": on_failure}
    if isinstance(lower, ConfidenceIntervals):
        if not (upper is None and correct is None and confidence is None):
            raise InputError.expected("upper", "be left out, with all other arrays, where bounds are given", "more")
        share = CLEAN_WEIGHT if clean_weight is None else clean_weight
        return recalibrate_bounds(lower, clean_weight=share, n_bins=n_bins, edges=edges, **options)
    usual = 0.0 if confidence is None else CLEAN_WEIGHT
    share = usual if clean_weight is None else clean_weight
    found = _fit(
        lambda: data_from_arrays(lower, upper, correct, confidence, share, n_bins=n_bins, edges=edges), **options
    )
    seen = {} if confidence is None else sample_of(np.asarray(confidence, dtype=np.float64))
    return replace(found, about=dict(found.about) | seen)  # type: ignore[type-var]


def recalibrate_bounds(
    bounds: ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    weights: ArrayLike | None = None,
    clean_weight: float = CLEAN_WEIGHT,
    method: str = MapKind.ISOTONIC,
    objective: str = Objective.BRIER,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    on_failure: str = OnFailure.RAISE,
) -> RecalibrationMap:
    """The map with the least certified score over several radii at once, from the certificates of the same inputs.

    Minimises (1 − λ) Σ_r w_r · certified at r + λ · clean. At each radius the inputs certified there count, clean all
    inputs do.

    Paper: —; docs/recalibration.md.

    Args:
        bounds: from `confidence_bounds_at`, or of one radius.
        weights: w_r ≥ 0 per radius, equal by default; they are divided by their sum.
        clean_weight, method, objective, n_bins, edges, on_failure: as for `recalibrate`.
    """
    several = as_intervals(bounds)
    found = _fit(
        lambda: data_from_bounds(several, weights, clean_weight, n_bins=n_bins, edges=edges),
        method=method,
        objective=objective,
        on_failure=on_failure,
    )
    about = dict(found.about) | temperature_facts(several[0].temperature) | sample_of(several[0])
    return replace(found, about=about)  # type: ignore[type-var]


def _fit(gather: Callable[[], FittingData], *, method: str, objective: str, on_failure: str) -> RecalibrationMap:
    kind = MapKind(check_choice("method", method, tuple(MapKind)))
    goal = Objective(check_choice("objective", objective, tuple(Objective)))
    check_choice("on_failure", on_failure, tuple(OnFailure))
    if kind is MapKind.ISOTONIC and goal is Objective.CALIBRATION:
        raise InputError.expected("objective", "be 'brier' or 'log' for isotonic maps", f"{objective!r}")
    try:
        data = gather()
    except NothingToFitError as error:
        if on_failure == OnFailure.RAISE:
            raise
        return IdentityMap(about={"reason": str(error)})
    fitted = _best_map(data, kind, goal)
    about = {
        "objective": str(goal),
        "clean_weight": data.clean_weight,
        "certified": [problem.size for problem in data.problems],  # inputs fitted to, and of them wrong
        "wrong": [int((~problem.correct).sum()) for problem in data.problems],
    }
    return replace(fitted, about=about | data.about)  # type: ignore[type-var]


def _best_map(data: FittingData, kind: MapKind, goal: Objective) -> RecalibrationMap:
    if kind is MapKind.ISOTONIC:
        x, right, weight = data.worst_points()
        return IsotonicMap(*isotonic_fit(x, right.astype(np.float64), weight))
    loss = loss_of(data, goal)
    if kind is MapKind.TEMPERATURE:
        return fit_temperature(loss)
    return fit_beta(loss, loss_of(data, Objective.BRIER) if goal is Objective.CALIBRATION else loss)


def isotonic_fit(x: FloatArray, target: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """argmin over non-decreasing g of Σ weight (target − g(x))², as knots and values of its flat blocks.

    SciPy pools adjacent violators: blocks whose means do not rise become one. The same g minimises every other proper
    score of 0/1 targets, such as the log score. Between blocks any non-decreasing g is optimal; the straight line is
    taken.
    """
    from scipy.optimize import isotonic_regression

    knots, place = np.unique(x, return_inverse=True)  # equal x have equal g
    mass = np.bincount(place, weight, minlength=len(knots))
    total = np.bincount(place, weight * target, minlength=len(knots))
    first = isotonic_regression(total / mass, weights=mass).blocks[:-1]
    level = np.clip(np.add.reduceat(total, first) / np.add.reduceat(mass, first), 0.0, 1.0)
    last = np.append(first[1:] - 1, len(knots) - 1)
    ends = np.stack([first, last], axis=1).ravel()
    keep = np.append(True, np.diff(ends) > 0)  # a block of one knot has one end
    # Block means rise in exact arithmetic; rounding may put two next to each other the wrong way.
    return knots[ends[keep]], np.maximum.accumulate(np.repeat(level, 2)[keep])
