"""One claim for the set whose sampling error is pooled over inputs. Proof: docs/guarantee.md, "Pooling".

The bounds of an input are convex functions of its score's distribution. Their tangents at a pilot's distribution are
means of one bounded function of the score, and in a sum over N inputs with m draws each the errors of these means
cancel: 1/√(N m) is left of it, instead of the 1/√m that every input pays for by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from certcal.certificates import (
    ConfidenceIntervals,
    StepFunction,
    as_levels,
    confidence_bounds,
    confidence_bounds_at,
    share_of_delta,
)
from certcal.errors import InputError
from certcal.metrics import Bins, sum_by_bin
from certcal.scalars import check_choice, check_integer, check_level, guarded
from certcal.settings import Population
from certcal.smoothing import Counts, Evidence
from certcal.types import ArrayLike, BoolArray, FloatArray
from certcal.worstcase.exact import optimise, rounding_bound
from certcal.worstcase.problem import WorstCaseProblem, choose_few_bins
from certcal.worstcase.reach import tabulate

# Of the draws, how many choose tangents, bins and who is pooled. The errors of the others cancel, so few of them do.
PILOT_SHARE = 0.75
_STEEPEST = 0.5  # the largest λ of the exponential inequality


@dataclass(frozen=True)
class PooledClaim:
    """An upper bound for the calibration error of a set of inputs under any attack within R, and what it is made of."""

    value: float
    radius: float
    delta: float
    inputs: int
    pooled: int  # inputs whose sampling error is pooled
    sampling: float  # what is added for it

    def __float__(self) -> float:
        return self.value


@guarded
def pooled_calibration_error(
    evidence: Evidence,
    *,
    radius: float,
    alpha: float,
    delta: float,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    score_map: StepFunction | None = None,
    seed: int = 0,
) -> PooledClaim:
    """An upper bound for the calibration error of these inputs under attack, with probability at least 1 − delta.

    The same claim as that of `jointly_certified_calibration_error` for the inputs that `confidence_bounds` certifies at
    `radius` and `alpha`, or for all. A random part of the draws decides tangents and bins, and the rest is summed;
    `seed` chooses the parts and must not depend on the draws; nor may the radius, edges or a score map: one that was
    fitted on these draws voids the claim.

    Paper: —; docs/guarantee.md.   Errs: high.
    Raises: InputError if inputs have different or unplanned numbers of draws.
    """
    counted = confidence_bounds(evidence, radius=radius, alpha=alpha, score_map=score_map).certified
    counted = counted | (check_choice("population", population, tuple(Population)) == Population.ALL)
    if not counted.any():
        raise InputError.expected("evidence", f"hold an input that is certified at R = {radius:g}", "none")
    (claim,) = pooled_claims(
        evidence, [(radius, counted)], delta=delta, n_bins=n_bins, edges=edges, score_map=score_map, seed=seed
    )
    assert claim is not None
    return claim


@guarded
def pooled_claims(
    evidence: Evidence,
    questions: Sequence[tuple[float, BoolArray]],
    *,
    delta: float,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    score_map: StepFunction | None = None,
    seed: int = 0,
) -> list[PooledClaim | None]:
    """One claim for each radius and the inputs that it counts; all hold together with probability at least 1 − delta.

    The pilot's limits serve all radii at once, so half of delta is for these. Each radius gets its part of the rest; a
    radius that counts nobody gets None.

    Paper: —; docs/guarantee.md.   Errs: high.
    """
    if not (
        isinstance(questions, Sequence)
        and questions
        and all(isinstance(own, tuple) and len(own) == 2 for own in questions)
    ):
        raise InputError.expected("questions", "be pairs of a radius and a mask of inputs", type(questions).__name__)
    masks = [np.asarray(counted) for _, counted in questions]
    for own in masks:
        if own.dtype != np.bool_ or own.shape != (len(evidence),):
            wanted = f"have masks of booleans, one for each of the {len(evidence)} inputs"
            raise InputError.expected("questions", wanted, f"{own.dtype} of shape {own.shape}")
    spent = check_level("delta", delta) * _share(evidence)
    level = -np.expm1(np.log1p(-spent / 2) / len(evidence))  # all pilots hold together with probability 1 − spent / 2
    pilot, rest = split_draws(evidence, seed=seed)
    bins, radii = choose_few_bins(n_bins, edges), [radius for radius, _ in questions]
    pilots = confidence_bounds_at(pilot, radii=radii, alpha=float(level), score_map=score_map)
    claims: list[PooledClaim | None] = []
    for first, counted in zip(pilots, masks, strict=True):
        if not counted.any():
            claims.append(None)
            continue
        sums = _Tangents(pilot, rest, evidence.header.shift(first.radius), score_map, first.certified)
        value, sampling = _worst_case(first, counted, bins, sums, spent / 2 / len(radii), evidence.header.slip)
        pooled, size = int(first.certified.sum()), int(counted.sum())
        claims.append(PooledClaim(value, first.radius, float(delta), size, pooled, sampling / size))
    return claims


def _worst_case(
    first: ConfidenceIntervals, counted: BoolArray, bins: Bins, sums: "_Tangents", delta: float, slip: float
) -> tuple[float, float]:
    """The largest mean of what counted inputs earn against any signs, and what is added to the sum for sampling."""
    pooled = first.certified
    outside = counted & ~pooled
    problem = WorstCaseProblem(
        first.lower[pooled],
        first.upper[pooled],
        first.correct[pooled],
        bins,
        int(outside.sum()),
        first.farthest[outside],
    )
    lower, upper, sampling = sums.adjusted(len(bins), delta)
    tables, cell = tabulate(problem)
    cells = 2 * len(bins) ** 2
    moved = replace(
        tables,
        lower=sum_by_bin(cell, lower, cells).reshape(tables.lower.shape),
        upper=sum_by_bin(cell, upper, cells).reshape(tables.upper.shape),
    )
    _, total = optimise(moved, bins, problem.free_earning if problem.uncertified else None)
    # Means of tangents are those under the noise as it is drawn, which is not quite normal; docs/noise.md.
    sampling += int(pooled.sum()) * sums.steepest * slip
    # A pooled input that is not counted earns at least −1, so leaving it out adds at most 1.
    total += sampling + int((pooled & ~counted).sum())
    rounding = rounding_bound(len(lower) + 64, max(len(lower), 1), bins) * (1 + sums.steepest)
    return min(max(total, 0.0) / int(counted.sum()) + rounding, 1.0), sampling


def split_draws(evidence: Evidence, *, seed: int) -> tuple[Evidence, Evidence]:
    """A pilot and the rest of every input's draws, parted at random: independent samples of the same scores.

    Votes are not kept draw by draw, so the class counts as chosen where its score exceeds 1/2, which it then is.
    """
    draws = int(evidence.draws[0])
    first = round(PILOT_SHARE * draws)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    taken = np.stack([rng.multivariate_hypergeometric(row, first, method="marginals") for row in evidence.histogram])
    return _with_histogram(evidence, taken), _with_histogram(evidence, evidence.histogram - taken)


def _with_histogram(evidence: Evidence, histogram: ArrayLike) -> Evidence:
    counts = np.asarray(histogram, dtype=np.int64)
    draws = counts.sum(axis=1)
    won = counts[:, int(np.searchsorted(evidence.thresholds, 0.5, side="right")) :].sum(axis=1)
    votes = np.zeros_like(evidence.votes)
    rows = np.arange(len(votes))
    votes[rows, (evidence.selected + 1) % votes.shape[1]] = draws - won
    votes[rows, evidence.selected] = won
    header = replace(evidence.header, stages=(int(draws[0]),), looks=1)
    return replace(evidence.with_histogram(counts), header=header, draws=draws, votes=votes)


class _Tangents:
    """Tangents of the bounds at the pilot's distributions, and what the other draws say of their means."""

    def __init__(
        self, pilot: Evidence, rest: Evidence, shift: float, score_map: StepFunction | None, rows: BoolArray
    ) -> None:
        grid = pilot.thresholds
        if score_map is None:
            start, low_steps, high_steps = (0.0, grid[1]), np.diff(grid)[:-1], np.diff(grid)[1:]
        else:
            levels = as_levels(score_map.levels)
            start, low_steps, high_steps = (levels[0], levels[0]), np.diff(levels), np.diff(levels)
        counts, others = pilot.histogram[rows], rest.histogram[rows]
        # Never 0 or 1, where the slope would be infinite.
        share = (pilot.reached[rows] + 0.5) / (pilot.draws[rows, None] + 1.0)
        self.draws = float(rest.draws[0])
        self.sides = [
            _Side(share, counts, others, -shift, low_steps, start[0]),
            _Side(share, counts, others, shift, high_steps, start[1]),
        ]
        self.steepest = max((side.steepest for side in self.sides), default=0.0)

    def adjusted(self, bins: int, delta: float) -> tuple[FloatArray, FloatArray, float]:
        """Values of both bounds that may be summed by the signs, and what to add to any such sum.

        For each of 2^bins sign vectors, with probability at least 1 − delta / 2^bins: the sum of the true bounds of the
        inputs that stand at them exceeds the sum of these by no more than the last number (outward).
        """
        if self.steepest == 0:  # a constant
            return self.sides[0].mean, self.sides[1].mean, 0.0
        tail = bins * np.log(2.0) - np.log(delta)
        spread = max(float(side.pilot_spread.sum()) for side in self.sides) / self.draws
        largest = self.steepest / self.draws
        rate = min(np.sqrt(2 * tail * largest**2 / max(spread, 1e-300)), _STEEPEST)
        curvature = (-np.log1p(-rate) - rate) / (rate * largest)
        low, high = (
            side.mean + sign * curvature * side.square / self.draws
            for sign, side in zip((-1, 1), self.sides, strict=True)
        )
        return low, high, float(largest / rate * tail)


class _Side:
    """The tangent of one bound of each input: start + Σ_j step_j (G(p_j) + G'(p_j) (P_j − p_j)), G the shift."""

    def __init__(
        self, share: FloatArray, pilot: Counts, others: Counts, shift: float, steps: FloatArray, start: float
    ) -> None:
        quantile = scipy.special.ndtri(share)
        slope = np.exp(-shift * quantile - shift**2 / 2)  # G'
        # Lines that are off by the rounding of value and slope are moved outward by more than that.
        margin = np.copysign(1e-10, shift) * ((1.0 + slope) @ steps)  # −0.0 is the lower side, too
        constant = start + (scipy.special.ndtr(quantile + shift) - slope * share) @ steps + margin
        values = np.hstack([np.zeros((len(share), 1)), np.cumsum(slope * steps, axis=1)])  # of a score in each cell
        self.steepest = float(values[:, -1].max(initial=0.0))
        centre = _mean(values, pilot)
        self.pilot_spread = _mean(np.square(values - centre[:, None]), pilot)
        self.square = _mean(np.square(values - centre[:, None]), others)
        self.mean = constant + _mean(values, others)


def _mean(values: FloatArray, counts: Counts) -> FloatArray:
    return np.asarray((values * counts).sum(axis=1) / counts.sum(axis=1))


def _share(evidence: Evidence) -> float:
    draws = evidence.draws
    if len(draws) == 0 or (draws != draws[0]).any() or not evidence.header.planned(draws).all() or draws[0] < 2:
        wanted = "have the same planned number of draws, at least 2, for every input"
        raise InputError.expected("evidence", wanted, f"{draws.min(initial=0)} to {draws.max(initial=0)}")
    return share_of_delta(evidence)
