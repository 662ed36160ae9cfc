"""The worst calibration error over binnings that move with the attack. Proofs: docs/any_binning.md.

Over every partition into at most M intervals, chosen after the attack, it bounds every binning: equal width, equal
count with moving bins, or any other. With equal counts, the k-th smallest confidence stays between the k-th smallest l
and the k-th smallest u. So does the cut there, and the program over cuts, held to these windows, gives an upper bound.
For a few inputs a mixed-integer program is exact.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import CertcalError, InputError
from certcal.metrics import Bins, adaptive_calibration_error, equal_count_edges
from certcal.scalars import check_choice, check_integer
from certcal.settings import MAX_BINS, Population
from certcal.types import ArrayLike, FloatArray
from certcal.worstcase.closed_form import brier_confidences
from certcal.worstcase.cuts import RunProgram, Windows, best_runs
from certcal.worstcase.exact import free_input, solve_exact
from certcal.worstcase.failing import most_to_gain
from certcal.worstcase.problem import Kind, Solution, Status, WorstCaseProblem
from certcal.worstcase.reach import send

MOST_INPUTS = 2**15  # seconds; beyond it bounds are rounded outward to a grid
_GRID = 2.0**11
MOST_BINARIES = 400  # inputs × bins that the mixed-integer program takes: seconds to minutes


def any_binning_calibration_error(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    uncertified: int = 0,
    failures: int = 0,
) -> Solution:
    """The largest calibration error of any confidences within the bounds over every binning into at most `n_bins`.

    The partition is chosen after the attack, so no choice of bins tells a worse story. Exact, in seconds; beyond 32 768
    inputs bounds are rounded outward to steps of 2⁻¹¹ and the value is an upper bound. With `failures` it is an upper
    bound that allows for certificates that fail. In `stats`, `edges` are the worst bins, `attained` the witness's error
    in them, and `without_bins` the mean of |c − far end|, which bounds every number of bins.

    Paper: App. L names bins that move as future work; docs/any_binning.md.   Errs: high (rounding goes up).

    >>> solution = any_binning_calibration_error([0.1, 0.5], [0.6, 0.9], [1, 0], n_bins=2)
    >>> round(solution.value, 6), solution.confidence.tolist()
    (0.9, [0.1, 0.9])
    """
    size = check_integer("n_bins", n_bins, minimum=1, maximum=MAX_BINS)
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    return _said_of_bands(solve_cuts(problem, size, problem.failed(failures)), problem)


def _said_of_bands(found: Solution, problem: WorstCaseProblem) -> Solution:
    """Where a map confines confidences to bands: a bound over all of the intervals, and no attained error."""
    if problem.everywhere is problem:
        return found
    unknown = {name: float("nan") for name in ("attained", "gap") if name in found.stats}
    return replace(found, kind=Kind.UPPER, status=Status.BOUNDED, stats={**found.stats, **unknown})


def solve_cuts(problem: WorstCaseProblem, size: int, failures: int, windows: Windows | None = None) -> Solution:
    """The worst case over at most `size` bins, whose cuts lie in the windows if there are any."""
    free, inputs = problem.uncertified + failures, len(problem.lower)
    coarse, solved = inputs > MOST_INPUTS, problem
    if coarse:
        low, high = np.floor(problem.lower * _GRID) / _GRID, np.ceil(problem.upper * _GRID) / _GRID
        solved = replace(problem, lower=low, upper=high)
    program = RunProgram(solved, windows, free=free)
    ways = ((free, 0), (0, free)) if free else ((0, 0),)
    best = max(
        (best_runs(program, size, free_first=first, free_last=last, windows=windows) for first, last in ways),
        key=lambda found: found.total,
    )
    rounding = 1.0 / program.unit + 2.0**-51  # docs/any_binning.md
    far = without_bins(problem, failures)
    total = float(best.total) + most_to_gain(problem, failures)
    # Every input goes where the runs send it, which attains this calibration error in these bins.
    bins, signs = Bins.from_edges(np.concatenate([[0.0], best.cuts, [1.0]])), best.signs.astype(np.int32)
    confidence, place = send(replace(problem, bins=bins), signs)
    gaps = np.bincount(place, problem.correct - confidence, minlength=len(bins))
    at = free_input(bins, signs, problem.uncertified)
    if at is not None:
        gaps[at.bin] += at.count * (at.correct - at.confidence)
    stats: dict[str, Any] = {"inputs": inputs, "uncertified": problem.uncertified, "rounding": rounding}
    stats |= {"without_bins": far, "edges": bins.edges, "failures": failures}
    stats["attained"] = float(np.abs(gaps).sum() / problem.size)
    upper = coarse or failures or windows is not None or problem.restricts
    value = min(total / problem.size + 2.0**-51, far, 1.0)
    return Solution(value, Kind.UPPER if upper else Kind.EXACT, confidence, place, signs, at, stats=stats)


def without_bins(problem: WorstCaseProblem, failures: int = 0) -> float:
    """The mean of |c − far end of the interval|: what no number of bins can exceed.

    An uncertified input counts as far from its correctness as it can be, `bounds.farthest`, and 1 if nothing is known.
    """
    gaps = np.abs(problem.correct - brier_confidences(problem))
    if failures:
        gaps = np.sort(gaps)[failures:]
    free = float(problem.after_failures(failures).free_earning(np.ones(1))[0])
    total = (float(gaps.sum()) + free) * (1 + 2.0**-46) + failures  # pairwise sums: below 64 roundings
    return min(float(np.nextafter(total / problem.size, 2.0)), 1.0)


def equal_count_calibration_error(
    lower: ArrayLike | ConfidenceIntervals,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    uncertified: int = 0,
    failures: int = 0,
    method: str = "bound",
) -> Solution:
    """The largest calibration error with equally filled bins that are cut anew after the attack.

    With method "bound" an upper bound, valid however equal confidences are shared among bins; the confidences are a
    feasible attack, `stats["attained"]` is its `adaptive_calibration_error` and `stats["gap"]` how far the bound is
    above it. With method "milp" the exact value for inputs × bins up to 400, ties shared as the adversary likes.

    Paper: App. L names it as future work; docs/any_binning.md.   Errs: high.

    >>> bounds = [0.1, 0.5, 0.6, 0.7], [0.6, 0.9, 0.8, 0.9], [1, 0, 1, 0]
    >>> bound = equal_count_calibration_error(*bounds, n_bins=2)
    >>> exact = equal_count_calibration_error(*bounds, n_bins=2, method="milp")
    >>> round(bound.stats["attained"], 6), round(exact.value, 4), round(bound.value, 4)
    (0.775, 0.775, 0.775)
    """
    size = check_integer("n_bins", n_bins, minimum=1, maximum=MAX_BINS)
    check_choice("method", method, ("bound", "milp"))
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    problem.check_few_free()
    failed = problem.failed(failures)
    if method == "milp":
        return _said_of_bands(_by_milp(problem, size, failed), problem)
    free = problem.uncertified + failed
    # One float wider: then a cut can part inputs at the very same confidence, as codes that cut a sorted list do.
    low, high = np.nextafter(problem.lower, 0.0), np.nextafter(problem.upper, 1.0)
    ranks = np.ceil(np.arange(1, size) * problem.size / size).astype(np.intp) - 1
    sorted_low = np.sort(np.append(low, np.zeros(free)))
    sorted_high = np.sort(np.append(high, np.ones(free)))
    # Failed inputs are among `low` as well: dropping any of them leaves no rank lower than this, and none higher.
    windows = Windows(sorted_low[ranks], np.nextafter(sorted_high[ranks + failed], 2.0))
    found = solve_cuts(replace(problem, lower=low, upper=high), size, failed, windows)
    value, attained, witness = found.value, float("nan"), found.confidence
    if not free:
        attained, witness = _best_attack(problem, witness, size)
        value = max(value, attained)
    stats = {**found.stats, "attained": attained, "gap": value - attained}
    found = replace(found, value=value, confidence=witness, bins=None, signs=None, stats=stats)
    return _said_of_bands(found, problem)


def _best_attack(problem: WorstCaseProblem, found: FloatArray, size: int) -> tuple[float, FloatArray]:
    """The worst of a few feasible attacks: that of the program, the far ends, and that of bins frozen at the middle."""
    middle = (problem.lower + problem.upper) / 2
    frozen = replace(problem, bins=Bins.from_edges(equal_count_edges(middle, n_bins=min(size, MAX_BINS))))
    attacks = [
        np.clip(found, problem.lower, problem.upper),
        brier_confidences(problem),
        solve_exact(frozen).confidence,
    ]
    errors = [adaptive_calibration_error(z, problem.correct, n_bins=size) for z in attacks]
    return max(zip(errors, attacks, strict=True), key=lambda pair: pair[0])


def _by_milp(problem: WorstCaseProblem, size: int, failures: int) -> Solution:
    """Which bin each input is in, where in it, and the signs of the bins, by HiGHS.

    a_nm: input n is in bin m; y_nm = a_nm z_n; q_m: the cuts; s_m: the sign of bin m; t_m: its gap.
    """
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    inputs = len(problem.lower)
    if problem.uncertified or failures:
        raise InputError.expected("method", "be 'bound' with uncertified inputs or failures", "'milp'")
    if inputs * size > MOST_BINARIES:
        raise InputError.expected("method", f"be 'bound' beyond {MOST_BINARIES} inputs × bins", f"{inputs * size}")
    # How many of n distinct confidences `adaptive_calibration_error` puts into each bin.
    cuts = np.clip(np.ceil(np.arange(1, size) * inputs / size - 0.5).astype(np.intp), 1, max(inputs - 1, 1))
    counts = np.diff(np.unique(np.concatenate([[0], cuts, [inputs]])))
    bins = len(counts)
    pairs, big = inputs * bins, 2.0 * inputs
    one, same, own = np.ones((inputs, 1)), sparse.eye_array(pairs), sparse.eye_array(bins)
    by_input, by_bin = sparse.kron(sparse.eye_array(inputs), np.ones((1, bins))), sparse.kron(one.T, own)
    ends = problem.lower, problem.upper, problem.correct.astype(float)
    low, high, right = (sparse.diags_array(np.repeat(value, bins)) for value in ends)
    z = sparse.kron(sparse.eye_array(inputs), np.ones((bins, bins)))  # of each input, Σ_m y, for each of its bins
    first, last = (sparse.kron(one, sparse.eye_array(bins, bins + 1, k=shift)) for shift in (0, 1))
    rows: list[tuple[list[Any], Any, Any]] = [  # of a, y, q, s and t; what each sum is at least and at most
        ([by_input, None, None, None, None], 1.0, 1.0),  # every input in one bin
        ([by_bin, None, None, None, None], counts, counts),
        ([-low, same, None, None, None], 0.0, np.inf),  # l a ≤ y ≤ u a
        ([-high, same, None, None, None], -np.inf, 0.0),
        ([-same, z, -first, None, None], -1.0, np.inf),  # in bin m: q_m ≤ z ≤ q_{m+1}
        ([same, z, -last, None, None], -np.inf, 1.0),
        ([-by_bin @ right, by_bin, None, big * own, own], -np.inf, big),  # t ≤ gap if s = 1
        ([by_bin @ right, -by_bin, None, -big * own, own], -np.inf, 0.0),  # t ≤ −gap if s = 0
    ]
    least, most = (np.concatenate([np.broadcast_to(row[side], row[0][0].shape[0]) for row in rows]) for side in (1, 2))
    sizes = [pairs, pairs, bins + 1, bins, bins]
    for presolve in (True, False):  # on degenerate intervals HiGHS may fail one way and not the other
        result = milp(
            np.repeat([0.0, 0.0, 0.0, 0.0, -1.0], sizes),
            constraints=LinearConstraint(sparse.block_array([row for row, _, _ in rows]), least, most),
            integrality=np.repeat([1, 0, 0, 1, 0], sizes),
            bounds=Bounds(0.0, np.repeat([1.0, 1.0, 1.0, 1.0, inputs], sizes)),
            options={"mip_rel_gap": 0.0, "presolve": presolve},
        )
        if result.success:
            break
    else:
        raise CertcalError(f"The mixed-integer program was not solved: {result.message}")
    a, y = result.x[: 2 * pairs].reshape(2, inputs, bins)
    place, witness = a.argmax(axis=1), np.clip(y.sum(axis=1), problem.lower, problem.upper)
    value = float(-result.mip_dual_bound if result.mip_dual_bound is not None else -result.fun) / inputs
    attained = float(np.abs(np.bincount(place, problem.correct - witness, minlength=bins)).sum() / inputs)
    # HiGHS holds its constraints to about 1e-6.
    stats = {"inputs": inputs, "attained": attained, "gap": value - attained, "tolerance": 1e-5}
    return Solution(min(value, 1.0), Kind.EXACT, witness, bins=place.astype(np.int16), stats=stats)
