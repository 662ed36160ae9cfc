"""Temperature and beta maps fitted to a certified score or to the certified calibration error itself."""

from collections.abc import Callable, Sequence

import numpy as np

from certcal.metrics import log_losses
from certcal.recalibration.data import FittingData
from certcal.recalibration.maps import BetaMap, RecalibrationMap, TemperatureMap
from certcal.settings import Objective
from certcal.types import FloatArray
from certcal.worstcase import WorstCaseProblem, solve_exact

_LOG_TEMPERATURE = 4.0  # temperatures from e⁻⁴ to e⁴
_LIMITS = ((0.0, 50.0), (0.0, 50.0), (-50.0, 50.0))  # of a, b and c


Loss = Callable[[RecalibrationMap], float]


def loss_of(data: FittingData, objective: Objective) -> Loss:
    """The number that a map is fitted to minimise: (1 − λ) · certified + λ · clean."""
    x, right, weight = data.worst_points()

    def proper(recalibration: RecalibrationMap) -> float:
        z = recalibration.transform(x)
        losses = log_losses(z, right) if objective is Objective.LOG else np.square(right - z)
        return float((weight * losses).sum())

    def calibration(recalibration: RecalibrationMap) -> float:
        certified = [solve_exact(_mapped(problem, recalibration)).value for problem in data.problems]
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


def _mapped(problem: WorstCaseProblem, recalibration: RecalibrationMap) -> WorstCaseProblem:
    lower, upper = recalibration.bounds(problem.lower, problem.upper)
    return WorstCaseProblem(lower, upper, problem.correct, problem.bins, problem.uncertified)
