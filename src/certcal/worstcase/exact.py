"""The certified calibration error, exactly: a dynamic program over runs of bins that err the same way.

Paper: Sec. 3.2–3.3 states the problem, Eq. (4) and (6), and approximates it; the exact solution is ours, docs/exact.md.

With a sign per bin, N·CCE = max_s Σ_n max over reachable (m, z) of s_m (c_n − z), and for fixed signs every input
chooses for itself. A correct input wants the lowest reachable bin that is under-confident (+), an incorrect one the
highest that is over-confident (−); where that leads depends only on its first and last bin and on the maximal run of
equal signs it stands in. So inputs are counted by (correctness, first bin, last bin) and a run's worth is a table.
"""

from dataclasses import replace

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.metrics import BandedBins, Bins
from certcal.settings import Population
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase.problem import FreeInput, Kind, Score, Solution, WorstCaseProblem
from certcal.worstcase.reach import ReachTables, block_length, send, tabulate

PLUS, MINUS = 0, 1  # positions of the two signs in tables


def certified_calibration_error(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    uncertified: int = 0,
) -> Solution:
    """The largest expected calibration error of any confidences within the bounds: the certified calibration error.

    Exact for any increasing edges, in time linear in the number of inputs. Where the supremum lies on the open end of a
    bin, the witness stops one float short of it and its plain ECE agrees with the value to about 1e-12.

    Paper: Def. 3.4, Eq. (4); the solution is ours, docs/exact.md.   Errs: high (rounding goes up).

    Args:
        lower, upper: certified bounds of each confidence, shape (n,). Bounds, such as those of `confidence_bounds`,
            may stand in for `lower`, `upper` and `correct`.
        correct: whether each (certified) prediction is right, shape (n,), booleans or 0 and 1.
        population: with bounds, "certified" leaves out inputs that are not certified, as the paper does; "all" counts
            them as `uncertified`.
        n_bins: number of equal-width bins.
        edges: bin edges rising from 0 to 1, instead of equal widths.
        uncertified: how many further inputs have no certificate. The adversary chooses their correctness and
            confidence; they count in the denominator.

    >>> solution = certified_calibration_error([0.1, 0.5], [0.6, 0.9], [1, 0], n_bins=3)
    >>> round(solution.value, 6), solution.confidence.tolist(), solution.bins.tolist()
    (0.9, [0.1, 0.9], [0, 2])
    """
    problem = WorstCaseProblem.checked(
        lower, upper, correct, population=population, n_bins=n_bins, edges=edges, uncertified=uncertified
    )
    return solve_exact(problem)


def solve_exact(problem: WorstCaseProblem) -> Solution:
    """The worst case of a problem, with signs, bins and witness."""
    tables, _ = tabulate(problem)
    signs, total = optimise(tables, problem.bins, problem.free_earning if problem.uncertified else None)
    confidence, bins = send(problem, signs)
    inputs, block = len(problem.lower), block_length(problem.bins)
    # What uncertified inputs earn is added in pairs: below 64 roundings of each.
    additions = min(inputs, block) + inputs // block + (64 if problem.restricts else 0)
    rounding = rounding_bound(additions, inputs, problem.bins)
    found = Solution(
        value=min(total / problem.size + rounding, 1.0),
        kind=Kind.UPPER if problem.restricts else Kind.EXACT,
        confidence=confidence,
        bins=bins,
        signs=signs,
        free=restricted_input(problem, signs),
        stats={"inputs": inputs, "uncertified": problem.uncertified, "rounding": rounding},
    )
    return in_whole_bins(found, problem.bins)


def optimise(
    tables: ReachTables, bins: Bins, free: Score | None = None, weights: tuple[float, float] = (1.0, 1.0)
) -> tuple[IntArray, float]:
    """The best signs, shape (b,), and N·CCE. `free(φ)` is what all uncertified inputs earn where a free one earns φ.

    `weights` of gaps of sign + and −; one of them is 0 for errors of one side.
    """
    worth = run_worth(tables, bins, weights)
    if free is None:
        return best_signs(worth[None])
    # A free input earns on a side that counts: in the first + bin, or in the last − bin.
    options = with_free_inputs(worth, bins, free)[np.flatnonzero(weights)]
    return best_signs(options)


def with_free_inputs(worth: FloatArray, bins: Bins, free: Score) -> FloatArray:
    """What runs earn when free inputs go to the first + bin or, in the second option, to the last − bin.

    A free input scores φ = max(1 − bottom of the first +, end of the last −). The first term depends on the first run
    alone, the second on the last run alone, and as `free` rises with φ, the larger is found by trying each. Shape
    (2, 2, b, b).
    """
    options = np.stack([worth, worth])
    options[0, PLUS, 0, :] += free(1.0 - bins.bottoms[:1])
    options[0, MINUS, 0, :] += free(1.0 - bins.bottom_after)
    options[1, PLUS, :, -1] += free(bins.end_before)
    options[1, MINUS, :, -1] += free(bins.ends[-1:])
    return options


def run_worth(tables: ReachTables, bins: Bins, weights: tuple[float, float] = (1.0, 1.0)) -> FloatArray:
    """What a maximal run of equal signs over bins a … b earns, shape (2, b, b) for (sign, a, b).

    A correct input belongs to the run that holds its first bin, an incorrect one to the run that holds its last bin.
    `weights` say what the gaps of + and of − bins count; 0 leaves them out of the error.
    """
    wrong, right = map(RunSums, tables.count)
    wrong_lower, right_lower = map(RunSums, tables.lower)
    wrong_upper, right_upper = map(RunSums, tables.upper)
    left_end, right_end = bins.end_before[:, None], bins.bottom_after[None, :]
    of_plus, of_minus = weights
    plus = (
        of_plus * (right.first_inside - right_lower.first_inside)  # correct: z = l
        + of_minus * left_end * wrong.comes_from_left  # incorrect, escapes to the − bin left of the run: z ↑ its end
        - of_plus * (wrong_lower.last_inside - wrong_lower.comes_from_left)  # incorrect, cannot escape: z = l
    )
    goes_on = right.first_inside - right.stays
    minus = (
        of_minus * wrong_upper.last_inside  # incorrect: z = u
        + of_plus * (1.0 - right_end) * goes_on  # correct, escapes to the + bin on the right: z = its bottom
        + of_minus * (right_upper.stays - right.stays)  # correct, cannot escape: z = u
    )
    return np.stack([plus, minus])


class RunSums:
    """Sums over inputs by where their first and last bins stand to a run a … b, shape (b, b) for (a, b) each."""

    def __init__(self, table: FloatArray) -> None:
        # corner[x, y] = Σ over first bin < x and last bin < y.
        self._corner = np.zeros((table.shape[0] + 1, table.shape[1] + 1))
        self._corner[1:, 1:] = table.cumsum(axis=0).cumsum(axis=1)
        self._both = self._corner.diagonal()

    @property
    def first_inside(self) -> FloatArray:
        """Those whose first bin is in the run."""
        return self._corner[None, 1:, -1] - self._corner[:-1, -1, None]

    @property
    def last_inside(self) -> FloatArray:
        """Those whose last bin is in the run."""
        return self._corner[-1, None, 1:] - self._corner[-1, :-1, None]

    @property
    def stays(self) -> FloatArray:
        """Those whose first bin is in the run, and the last not beyond it."""
        return self._both[None, 1:] - self._corner[:-1, 1:]

    @property
    def comes_from_left(self) -> FloatArray:
        """Those whose last bin is in the run, and the first before it."""
        return self._corner[:-1, 1:] - self._both[:-1, None]


def best_signs(earned: FloatArray, smallest: FloatArray | None = None) -> tuple[IntArray, float]:
    """The signs whose alternating runs earn most in any of the options, shape (b,), and what they earn.

    `earned` (options, 2, b, b) is what runs earn, `smallest` (2, b, b, drops + 1) what dropping the inputs that score
    least takes from them. best[…, sign, b, k] is the most that bins 0 … b − 1 can earn with k dropped when the run
    ending there has that sign; the run before it has the other sign.
    """
    worth = earned[..., None] if smallest is None else earned[..., None] - smallest
    size, drops = worth.shape[2], worth.shape[4] - 1
    best = np.full((len(worth), 2, size + 1, drops + 1), -np.inf)
    best[:, :, 0, 0] = 0.0
    for stop in range(1, size + 1):
        before, run = best[:, ::-1, :stop], worth[:, :, :stop, stop - 1]
        best[:, :, stop] = (before + run[..., :1]).max(axis=2)
        for own in range(1, drops + 1):
            reached = (before[..., : drops + 1 - own] + run[..., own, None]).max(axis=2)
            np.maximum(best[:, :, stop, own:], reached, out=best[:, :, stop, own:])
    option, sign = divmod(int(best[:, :, size, drops].argmax()), 2)
    total = float(best[option, sign, size, drops])
    signs, stop, left = np.empty(size, dtype=np.int32), size, drops
    while stop > 0:  # run by run from the last
        ways = best[option, 1 - sign, :stop, left::-1] + worth[option, sign, :stop, stop - 1, : left + 1]
        begin, own = divmod(int(ways.argmax()), left + 1)
        signs[begin:stop] = 1 if sign == PLUS else -1
        stop, left, sign = begin, left - own, 1 - sign
    return signs, total


def rounding_bound(additions: int, inputs: int, bins: Bins) -> float:
    """How far below the true CCE rounding can have left the computed one; derived in docs/exact.md.

    A bound l or u passes through at most `additions` sums on its way into the tables. A run's worth takes six of the
    prefix sums over bins, each the result of 2 M additions, and at most min(M, N) runs hold an input.
    """
    size = len(bins)
    return (additions + 12 * size * min(size, inputs) + 32 * size + 16) * 2.0**-53


def free_input(bins: Bins, signs: IntArray, count: int) -> FreeInput | None:
    """Where inputs without certificate go against these signs; None if there are none."""
    if count == 0:
        return None
    plus, minus = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    if len(minus) == 0 or (len(plus) > 0 and 1.0 - bins.bottoms[plus[0]] >= bins.ends[minus[-1]]):
        return FreeInput(count, float(bins.bottoms[plus[0]]), correct=True, bin=int(plus[0]))
    last = int(minus[-1])
    return FreeInput(count, float(bins.tops[last]), correct=False, bin=last)


def restricted_input(problem: WorstCaseProblem, signs: IntArray) -> FreeInput | None:
    """The uncertified inputs against these signs, at the confidence that earns what they earn on average."""
    free = free_input(problem.bins, signs, problem.uncertified)
    if free is None or not problem.restricts:
        return free
    alone = np.array([1.0 - problem.bins.bottoms[free.bin] if free.correct else problem.bins.ends[free.bin]])
    earned = float(problem.free_earning(alone)[0]) / free.count
    return replace(free, confidence=1.0 - earned if free.correct else earned)


def in_whole_bins(found: Solution, bins: Bins) -> Solution:
    """The solution with the numbers and signs of the whole bins, where confidences are confined to some of them."""
    if not isinstance(bins, BandedBins):
        return found
    assert found.bins is not None
    assert found.signs is not None
    signs = np.zeros(len(bins.whole), dtype=np.int32)
    signs[bins.number] = found.signs
    free = None if found.free is None else replace(found.free, bin=int(bins.number[found.free.bin]))
    return replace(found, bins=bins.number[found.bins], signs=signs, free=free)
