"""`recalibrate`: from certified bounds to the map that makes the certified score least."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.evaluation import sample_of
from certcal.metrics import log_losses
from certcal.recalibration.data import FittingData, NothingToFitError, as_intervals, data_from_arrays, data_from_bounds
from certcal.recalibration.maps import (
    BetaMap,
    IdentityMap,
    IsotonicMap,
    RecalibrationMap,
    TemperatureMap,
    temperature_facts,
)
from certcal.recalibration.steps import fit_steps
from certcal.scalars import check_choice
from certcal.settings import MapKind, Objective, OnFailure, usual_weight
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase import solve_exact

_LOG_TEMPERATURE = 4.0  # temperatures from e⁻⁴ to e⁴
_LIMITS = ((0.0, 50.0), (0.0, 50.0), (-50.0, 50.0))  # of a, b and c
Loss = Callable[[RecalibrationMap], float]


def recalibrate(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    clean_weight: float | None = None,
    method: str = MapKind.ISOTONIC,
    objective: str | None = None,
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
        clean_weight: λ in [0, 1]; by default 0.5 with `confidence` or bounds, 0.9 for steps, and 0 without.
        method: "isotonic", "temperature", "beta" or "steps".
        objective: "brier", "log" or "calibration" (the exact certified calibration error; not for isotonic maps, and
            the only one for steps); by default "brier", and "calibration" for steps. The isotonic map is the same for
            the Brier and the log score.
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
    options: dict[str, Any] = {"method": method, "objective": objective, "on_failure": on_failure}
    usual = usual_weight(method) if isinstance(lower, ConfidenceIntervals) or confidence is not None else 0.0
    share = usual if clean_weight is None else clean_weight
    if isinstance(lower, ConfidenceIntervals):
        if not (upper is None and correct is None and confidence is None):
            raise InputError.expected("upper", "be left out, with all other arrays, where bounds are given", "more")
        return recalibrate_bounds(lower, clean_weight=share, n_bins=n_bins, edges=edges, **options)
    found = _fit(
        lambda: data_from_arrays(lower, upper, correct, confidence, share, n_bins=n_bins, edges=edges), **options
    )
    return found if confidence is None else found.told(sample_of(np.asarray(confidence, dtype=np.float64)))


def recalibrate_bounds(
    bounds: ConfidenceIntervals | Sequence[ConfidenceIntervals],
    *,
    weights: ArrayLike | None = None,
    clean_weight: float | None = None,
    method: str = MapKind.ISOTONIC,
    objective: str | None = None,
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
    share = usual_weight(method) if clean_weight is None else clean_weight
    found = _fit(
        lambda: data_from_bounds(several, weights, share, n_bins=n_bins, edges=edges),
        method=method,
        objective=objective,
        on_failure=on_failure,
    )
    own = several[0]
    return found.told(temperature_facts(own.temperature) | dict(own.origin or {}) | sample_of(own))


def _fit(gather: Callable[[], FittingData], *, method: str, objective: str | None, on_failure: str) -> RecalibrationMap:
    kind = MapKind(check_choice("method", method, tuple(MapKind)))
    usual = Objective.CALIBRATION if kind is MapKind.STEPS else Objective.BRIER
    goal = Objective(check_choice("objective", usual if objective is None else objective, tuple(Objective)))
    check_choice("on_failure", on_failure, tuple(OnFailure))
    if kind is MapKind.ISOTONIC and goal is Objective.CALIBRATION:
        raise InputError.expected("objective", "be 'brier' or 'log' for isotonic maps", f"{objective!r}")
    if kind is MapKind.STEPS and goal is not Objective.CALIBRATION:
        raise InputError.expected("objective", "be 'calibration' for maps of steps", f"{objective!r}")
    try:
        data = gather()
    except NothingToFitError as error:
        if on_failure == OnFailure.RAISE:
            raise
        return IdentityMap(about={"reason": str(error)})
    fitted: RecalibrationMap
    if kind is MapKind.ISOTONIC:
        x, right, weight = data.worst_points()
        fitted = IsotonicMap(*isotonic_fit(x, right.astype(np.float64), weight))
    elif kind is MapKind.STEPS:
        fitted = fit_steps(data)
    elif kind is MapKind.TEMPERATURE:
        fitted = fit_temperature(loss_of(data, goal))
    else:
        loss = loss_of(data, goal)
        fitted = fit_beta(loss, loss_of(data, Objective.BRIER) if goal is Objective.CALIBRATION else loss)
    about = {
        "objective": str(goal),
        "clean_weight": data.clean_weight,
        "certified": [problem.size for problem in data.problems],  # inputs fitted to, and of them wrong
        "wrong": [int((~problem.correct).sum()) for problem in data.problems],
    }
    return fitted.told(about | data.about)


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


def loss_of(data: FittingData, objective: Objective) -> Loss:
    """The number that a map is fitted to minimise: (1 − λ) · certified + λ · clean."""
    x, right, weight = data.worst_points()

    def proper(recalibration: RecalibrationMap) -> float:
        z = recalibration.transform(x)
        losses = log_losses(z, right) if objective is Objective.LOG else np.square(right - z)
        return float((weight * losses).sum())

    def calibration(recalibration: RecalibrationMap) -> float:
        certified = []
        for problem in data.problems:
            lower, upper = recalibration.bounds(problem.lower, problem.upper)
            certified.append(solve_exact(replace(problem, lower=lower, upper=upper)).value)
        loss = float((data.weights * certified).sum())
        if data.clean_weight:
            loss += data.clean_weight * float(np.square(data.correct - recalibration.transform(data.confidence)).mean())
        return loss

    return calibration if objective is Objective.CALIBRATION else proper


def fit_temperature(loss: Loss) -> TemperatureMap:
    """The temperature with the least loss: the best of a fine grid, then refined between its neighbours."""

    def at(log_temperature: float) -> float:
        return loss(TemperatureMap(float(np.exp(log_temperature))))

    # The calibration error jumps where confidences cross edges, so no derivative or unimodality is relied on; the grid
    # holds 0, the identity, so the map found is no worse than that.
    centre, width = 0.0, _LOG_TEMPERATURE
    for _ in range(4):
        grid = np.clip(centre + width * np.linspace(-1, 1, 41), -_LOG_TEMPERATURE, _LOG_TEMPERATURE)
        centre = float(min(grid, key=at))
        width /= 10
    return TemperatureMap(float(np.exp(centre)))


def fit_beta(loss: Loss, smooth: Loss) -> BetaMap:
    """The beta map with the least loss found by descents from the identity and the best temperature.

    A loss that jumps, other than `smooth`, is descended from the smooth optimum too.
    """
    inverse = 1.0 / fit_temperature(loss).temperature
    starts = [BetaMap(1.0, 1.0, 0.0), _beta((inverse, inverse, 0.0))]
    if loss is not smooth:
        starts.append(fit_beta(smooth, smooth))
    return min([*starts, *(_descend(loss, start, smooth=loss is smooth) for start in starts)], key=loss)


def _descend(loss: Loss, start: BetaMap, *, smooth: bool) -> BetaMap:
    from scipy.optimize import minimize

    # Derivatives by differences magnify the last bits, by which machines differ, to the third digit of a parameter.
    options = {"xatol": 1e-4, "fatol": 1e-9, "maxfev": 600} if smooth else {"xatol": 1e-3, "fatol": 1e-5, "maxfev": 400}
    point = [start.a, start.b, start.c]
    result = minimize(lambda point: loss(_beta(point)), point, method="Nelder-Mead", bounds=_LIMITS, options=options)
    return _beta(result.x)


def _beta(point: Sequence[float] | FloatArray) -> BetaMap:
    """The map with these parameters, kept within their limits."""
    a, b, c = (float(np.clip(value, *limits)) for value, limits in zip(point, _LIMITS, strict=True))
    return BetaMap(a, b, c)
