"""`fit_score_map`: the map of each draw's score, before the mean over the noise, with the least certified score.

The certified score of a step function h is a convex function of its steps, so its minimum is found exactly. Proof:
docs/recalibration.md, "Inside the expectation".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from certcal.certificates import Method, RunnerUp, TailLimits, confidence_bounds_at
from certcal.errors import InputError
from certcal.metrics import Bins
from certcal.recalibration.data import NothingToFitError, check_teaches, check_weights
from certcal.recalibration.fitting import recalibrate_bounds
from certcal.recalibration.maps import AnyMap, IdentityMap, RecalibrationMap, facts_of, temperature_facts
from certcal.recalibration.score_maps import FullMap, ScoreMap
from certcal.recalibration.simplex import ROWS, as_steps, gram, least_on_simplex, on_grid
from certcal.scalars import check_choice, one_or_more
from certcal.settings import CLEAN_WEIGHT, PREDICTION_SHARE, TERMS, Objective, OnFailure, checks
from certcal.smoothing import Evidence, cell_middles, threshold_grid
from certcal.types import ArrayLike, BoolArray, FloatArray
from certcal.worstcase import WorstCaseProblem, choose_few_bins, slopes, solve_exact

_STEPS = 60  # of the descent on the certified calibration error
_ERRORS = 2**16  # grid of its errors: their products with tails are exact sums of up to 2^17 inputs


def fit_score_map(
    evidence: Evidence,
    *,
    radii: Iterable[float] | float,
    alpha: float,
    clean_weight: float = CLEAN_WEIGHT,
    weights: ArrayLike | None = None,
    objective: str = Objective.BRIER,
    method: str = Method.CDF_CP,
    split_alpha: bool = True,
    prediction_share: float = PREDICTION_SHARE,
    runner_up: str = RunnerUp.COMPLEMENT,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    on_failure: str = OnFailure.RAISE,
) -> ScoreMap:
    """The non-decreasing map h of each draw's score for which the mean of h has the least certified score.

    The confidence it certifies is E h(score), not h(E score). Minimises (1 − λ) Σ_r w_r · certified at r + λ · clean,
    as `recalibrate_bounds` does for a map of the mean: exactly for the Brier score, by descent from there for the
    certified calibration error. Report scores on other inputs than these.

    Paper: —; docs/recalibration.md.

    Args:
        evidence: of the inputs to fit on.
        radii: at which inputs count that are certified there.
        alpha, method, split_alpha, prediction_share, runner_up: as for `confidence_bounds`; method "cdf" or "cdf-cp".
        clean_weight: λ in [0, 1].
        weights: w_r ≥ 0 per radius, equal by default.
        objective: "brier", or "calibration" for the certified calibration error.
        n_bins, edges: bins of the calibration error.
        on_failure: "raise", or "identity" to get the map closest to none, with the reason in its `about`.

    Raises: InputError if an argument is wrong, or there are fewer than 20 certified inputs, or all are right or wrong.
    """
    goal = check_choice("objective", objective, (Objective.BRIER, Objective.CALIBRATION))
    check_choice("on_failure", on_failure, tuple(OnFailure))
    data = ScoreData.of(
        evidence,
        radii=radii,
        clean_weight=clean_weight,
        weights=weights,
        n_bins=n_bins,
        edges=edges,
        alpha=alpha,
        method=method,
        split_alpha=split_alpha,
        prediction_share=prediction_share,
        runner_up=runner_up,
    )
    about: dict[str, Any] = {"objective": str(goal), "clean_weight": data.clean_weight}
    about |= temperature_facts(evidence.temperature) | facts_of(evidence)
    about |= {"radii": [radius for radius, _ in data.used], "weights": [weight for _, weight in data.used]}
    taught = [evidence.correct[data.limits.certified(radius)] for radius, _ in data.used]
    try:
        for (radius, _), right in zip(data.used, taught, strict=True):
            check_teaches("evidence", f"inputs certified at R = {radius:g}", "label", right)
    except NothingToFitError as error:
        if on_failure == OnFailure.RAISE:
            raise
        return ScoreMap(cell_middles(), about={"reason": str(error)} | temperature_facts(evidence.temperature))
    steps = least_on_simplex(data.quadratic())
    if goal == Objective.CALIBRATION:
        steps = _descend(data, steps)
    about |= {"certified": [len(right) for right in taught], "wrong": [int((~right).sum()) for right in taught]}
    levels = np.clip(np.cumsum(steps[:-1]), 0.0, 1.0)
    return ScoreMap(np.maximum.accumulate(levels), about=about)


def fit_inside(
    evidence: Evidence, *, outside: str | None = None, reaching: float | None = None, **options: Any
) -> AnyMap:
    """A map of scores, alone or before a map of the mean of kind `outside` that is fitted to what the first one gives.

    Options as for `fit_score_map`; with on_failure "identity" the map that changes nothing stands in for both. With
    `reaching` the map of scores is not fitted: it is 1 from that score on, so that its mean is the share of such draws.
    """
    if reaching is not None and (outside is None or "objective" in options):
        wanted = "come with a map of the mean after it, and without another of scores"
        raise InputError.expected("reaching", wanted, repr(reaching))
    others = {name: value for name, value in options.items() if name != "objective"}  # of the map of scores
    if reaching is None:
        inside = fit_score_map(evidence, **options)
    else:
        inside = share_reaching(reaching)
        inside = replace(inside, about=facts_of(evidence) | temperature_facts(evidence.temperature))
    if "reason" in inside.about:
        return IdentityMap(about=inside.about)
    if outside is None:
        return inside
    mean = fit_outside(evidence, inside, outside, others)
    if reaching is None:
        return FullMap(inside, mean, about=inside.about)
    return mean if "reason" in mean.about else FullMap(inside, mean, about={**mean.about, **inside.about})


def share_reaching(score: float) -> ScoreMap:
    """The map of scores that is 1 from the first threshold of the grid on that is at least this score, and 0 below."""
    checks.inner_share("reaching", score)
    return ScoreMap((threshold_grid()[:-1] >= score).astype(np.float64))


def fit_outside(evidence: Evidence, inside: ScoreMap | None, kind: str, options: Mapping[str, Any]) -> RecalibrationMap:
    """The map of the mean of scores, or of what a map of scores makes of them.

    Options as for `confidence_bounds_at` and, those that it does not have, `recalibrate_bounds`.
    """
    given = {name: options[name] for name in ("radii", *TERMS) if name in options}
    bounds = confidence_bounds_at(evidence, score_map=inside, **given)
    fitting = {name: value for name, value in options.items() if name not in given}
    return recalibrate_bounds(bounds, method=kind, **fitting)


@dataclass(frozen=True, eq=False)
class ScoreData:
    """What score maps are fitted to. A map is its start and steps and what is left to 1, v ≥ 0 with Σ v = 1."""

    limits: TailLimits
    used: list[tuple[float, float]]  # radii and their weights
    clean_weight: float  # λ
    bins: Bins

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        *,
        radii: Iterable[float] | float,
        clean_weight: float = CLEAN_WEIGHT,
        weights: ArrayLike | None = None,
        n_bins: int = 15,
        edges: ArrayLike | None = None,
        **terms: Any,
    ) -> "ScoreData":
        """What `fit_score_map` fits to; its arguments."""
        distances = tuple(one_or_more("radii", radii))
        share, shares = checks.share("clean_weight", clean_weight), check_weights(weights, len(distances))
        used = [(radius, float(weight)) for radius, weight in zip(distances, shares, strict=True) if weight > 0]
        return cls(TailLimits(evidence, **terms), used, share, choose_few_bins(n_bins, edges))

    def quadratic(self) -> FloatArray:
        """H with vᵀ H v = (1 − λ) Σ_r w_r · certified Brier at r + λ · clean Brier, shape (257, 257).

        Since Σ v = 1 an input's error is x·v − c = (x − c)·v, where x = (1, tails, 0): H sums the squares of x − c.
        """
        total = np.zeros((257, 257))
        for radius, weight in self.used:
            rows = self.limits.certified(radius)
            scale = (1 - self.clean_weight) * weight / max(int(rows.sum()), 1)
            if scale:
                for x, right in self.worst_rows(radius, rows):
                    total += scale * gram(x - right[:, None])
        if self.clean_weight:
            tails, right = self.clean_rows()
            total += self.clean_weight / len(tails) * gram(tails - right[:, None])
        return total

    def worst_rows(self, radius: float, rows: BoolArray) -> Iterator[tuple[FloatArray, BoolArray]]:
        """Lower limits of correct and upper limits of incorrect inputs, and which are correct."""
        right, start = self.limits.evidence.correct[rows], 0
        for lower, upper in self.limits.at(radius, rows):
            own = right[start : start + len(lower)]
            start += len(lower)
            yield _padded(np.where(own[:, None], lower, upper)), own

    def clean_rows(self) -> tuple[FloatArray, BoolArray]:
        """The shares of draws that reach each threshold, and which inputs are correct."""
        evidence = self.limits.evidence
        return _padded(evidence.reached / evidence.draws[:, None]), evidence.correct


def _descend(data: ScoreData, start: FloatArray) -> FloatArray:
    """The best point of a descent on (1 − λ) Σ_r w_r · certified calibration error + λ · clean Brier score.

    Steps are multiplied by (1 − t) / (1 + t), about exp(−2t), which keeps v on the simplex, with t that falls as 1/√k.
    The loss jumps where bounds cross edges of bins and may have several minima, so the start is never left for a worse
    point.
    """
    loss = _CalibrationLoss(data)
    # A little of the map that changes nothing lets steps grow that are zero at the start.
    point = as_steps(0.98 * start + 0.02 * steps_of(cell_middles()))
    seen = [(loss.at(start)[0], start)]
    for step in range(_STEPS):
        value, gradient = loss.at(point)
        seen.append((value, point))
        slope = gradient - (point * gradient).sum()
        t = slope / (4 * np.abs(slope).max() * np.sqrt(step + 1.0) + 1e-300)
        point = as_steps(point * ((1 - t) / (1 + t)))
    return min(seen, key=lambda pair: pair[0])[1]


class _CalibrationLoss:
    """(1 − λ) Σ_r w_r · certified calibration error + λ · clean Brier score, as a function of the steps.

    Limits are rounded to a grid on which sums are exact: a descent that jumps would else end elsewhere on each machine.
    """

    def __init__(self, data: ScoreData) -> None:
        self.bins, self.clean_weight = data.bins, data.clean_weight
        self.parts: list[tuple[float, FloatArray, FloatArray, BoolArray]] = []
        for radius, weight in data.used:
            rows = data.limits.certified(radius)
            lower, upper = (np.concatenate(side) for side in zip(*data.limits.at(radius, rows), strict=True))
            right = data.limits.evidence.correct[rows]
            weight *= 1 - data.clean_weight
            self.parts.append((weight, on_grid(_padded(lower)), on_grid(_padded(upper)), right))
        tails, self.right = data.clean_rows()
        self.tails = on_grid(tails)

    def at(self, steps: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its gradient: at the worst signs every input stands at a bound or at an edge (Danskin)."""
        value, gradient = 0.0, np.zeros(len(steps))
        for weight, lower, upper, right in self.parts:
            low = np.clip(lower @ steps / ROWS, 0.0, 1.0)
            problem = WorstCaseProblem(low, np.clip(upper @ steps / ROWS, low, 1.0), right, self.bins)
            worst = solve_exact(problem)
            at_lower, at_upper, sign = slopes(problem, worst)
            value += weight * worst.value
            gradient -= weight / len(low) * (((sign * at_lower) @ lower + (sign * at_upper) @ upper) / ROWS)
        error = self.tails @ steps / ROWS - self.right
        value += self.clean_weight * float(np.square(error).mean())
        away = np.rint(error * _ERRORS) @ self.tails / (_ERRORS * ROWS)
        return value, gradient + self.clean_weight * 2 / len(error) * away


def steps_of(levels: FloatArray) -> FloatArray:
    """Start, steps and what is left to 1 of a step function."""
    return np.concatenate([levels[:1], np.diff(levels), 1.0 - levels[-1:]])


def _padded(tails: FloatArray) -> FloatArray:
    """(1, tails, 0): h is its start, its steps where the score reaches them, and nothing of what is left to 1."""
    return np.hstack([np.ones((len(tails), 1)), tails, np.zeros((len(tails), 1))])
