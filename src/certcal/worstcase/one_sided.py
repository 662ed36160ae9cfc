"""Can an attack make it over-confident? Certified errors that say which way. Proofs: docs/one_sided.md."""

from dataclasses import replace

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.metrics import count_below, first_of_equals, first_sums
from certcal.settings import Population
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase.closed_form import worst_ranks
from certcal.worstcase.exact import free_input, in_whole_bins, optimise, rounding_bound
from certcal.worstcase.failing import most_to_gain
from certcal.worstcase.problem import Kind, Solution, WorstCaseProblem, once_per_problem
from certcal.worstcase.reach import send, tabulate

_END = 2.0  # a threshold above every confidence


def certified_overconfidence(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    uncertified: int = 0,
    failures: int = 0,
) -> Solution:
    """The largest over-confidence: Σ over bins of confidence − accuracy where it is positive, weighted by inputs.

    Exact; with `failures` an upper bound that allows for certificates that fail.

    Paper: —; docs/one_sided.md.   Errs: high (rounding goes up).

    >>> round(certified_overconfidence([0.1, 0.5], [0.6, 0.9], [1, 0], n_bins=3).value, 6)
    0.45
    """
    problem = WorstCaseProblem.checked(
        lower, upper, correct, population=population, n_bins=n_bins, edges=edges, uncertified=uncertified
    )
    return _solve_side(problem, (0.0, 1.0), failures)


def certified_underconfidence(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    uncertified: int = 0,
    failures: int = 0,
) -> Solution:
    """The largest under-confidence: Σ over bins of accuracy − confidence where it is positive, weighted by inputs.

    Exact; with `failures` an upper bound that allows for certificates that fail.

    Paper: —; docs/one_sided.md.   Errs: high (rounding goes up).

    >>> round(certified_underconfidence([0.1, 0.5], [0.6, 0.9], [1, 0], n_bins=3).value, 6)
    0.45
    """
    problem = WorstCaseProblem.checked(
        lower, upper, correct, population=population, n_bins=n_bins, edges=edges, uncertified=uncertified
    )
    return _solve_side(problem, (1.0, 0.0), failures)


def certified_largest_gap(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    uncertified: int = 0,
    failures: int = 0,
) -> Solution:
    """The largest weighted gap of a single bin: share of the inputs in it × |accuracy − confidence|.

    Exact; with `failures` an upper bound that allows for certificates that fail. `signs` holds the bin's, and 0 else.

    Paper: —; docs/one_sided.md.   Errs: high (rounding goes up).

    >>> round(certified_largest_gap([0.1, 0.5], [0.6, 0.9], [1, 0], n_bins=3).value, 6)
    0.45
    """
    problem = WorstCaseProblem.checked(
        lower, upper, correct, population=population, n_bins=n_bins, edges=edges, uncertified=uncertified
    )
    failed = problem.failed(failures)
    (count, low, high), place = vars(tabulate(problem)[0]).values(), problem.bins
    wrong, right = count
    own = np.arange(len(place))
    free = problem.uncertified + failed

    def passing(table: FloatArray) -> FloatArray:
        """Σ over first bin < m ≤ last bin, for each m."""
        reach = np.triu(table)
        return np.array([reach[:m, m:].sum() for m in own])

    plus = (right - low[1])[own].sum(axis=1) + (1.0 - place.bottoms) * (passing(right) + free) - low[0][own, own]
    beyond = passing(wrong) + wrong.sum(axis=1) - wrong.sum(axis=0)  # reach the bin and go on above it
    minus = high[0][:, own].sum(axis=0) + place.ends * (beyond + free) + (high[1] - right)[own, own]
    sign, bin_ = np.unravel_index(np.stack([plus, minus]).argmax(), (2, len(own)))
    total = float(max(plus.max(), minus.max()))
    confidence = _at_one_bin(problem, int(bin_), plus=sign == 0)
    signs = np.where(own == bin_, 1 if sign == 0 else -1, 0).astype(np.int32)
    at = float(place.bottoms[bin_] if sign == 0 else place.tops[bin_])
    found = replace(
        _finished(problem, total, failed, confidence),
        bins=place.assign(confidence),
        signs=signs,
        free=problem.free_input(at, correct=bool(sign == 0), bin=int(bin_)),
    )
    return in_whole_bins(found, place)


def certified_ks_error(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    population: str = Population.CERTIFIED,
    uncertified: int = 0,
    failures: int = 0,
) -> Solution:
    """The largest Kolmogorov–Smirnov calibration error: |Σ over z < t of (c − z)| / N at the worst threshold t.

    Exact; with `failures` an upper bound that allows for certificates that fail. `stats["threshold"]` is t.

    Paper: —; docs/one_sided.md.   Errs: high (rounding goes up).

    >>> round(certified_ks_error([0.1, 0.5], [0.6, 0.9], [1, 0]).value, 6)
    0.45
    """
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    failed = problem.failed(failures)
    free, right, low, high = problem.uncertified + failed, problem.correct, problem.lower, problem.upper
    above, under, below, over, crossing = _sums_below(problem)
    under = under + free * (above > 0.0)
    over = over + (crossing + free) * np.minimum(below, 1.0)
    if under.max() >= over.max():
        at, total = float(above[under.argmax()]), float(under.max())
        confidence = np.where(right | (high < at), low, high)
        place = problem.free_input(0.0, correct=True, bin=0)
    else:
        at, total = float(below[over.argmax()]), float(over.max())
        confidence = np.where(~right & (low < at) & (high >= at), min(np.nextafter(at, 0.0), 1.0), high)
        place = problem.free_input(min(float(np.nextafter(at, 0.0)), 1.0), correct=False, bin=0)
    found = _finished(problem, total, failed, confidence)
    kind = found.kind if problem.everywhere is problem else Kind.UPPER  # an adversary in bands has fewer choices
    return replace(found, kind=kind, free=place, stats={**found.stats, "threshold": at})


def _solve_side(problem: WorstCaseProblem, weights: tuple[float, float], failures: int) -> Solution:
    """The program over runs of equal sign, where only the gaps of one sign count."""
    # As for the calibration error: those that fail may be certified or not, and as many of each never earn less.
    failed, problem = problem.failed(failures), problem.after_failures(failures)
    free = (lambda best: problem.free_earning(best) + failed * best) if problem.uncertified + failed else None
    signs, total = optimise(tabulate(problem)[0], problem.bins, free, weights)
    confidence, bins = send(problem, signs)
    found = _finished(problem, total, failed, confidence)
    # Uncertified inputs go to the side that counts, if a bin is on it.
    counted = np.where(signs > 0 if weights[0] else signs < 0, signs, 0)
    free_at = free_input(problem.bins, counted if counted.any() else signs, problem.uncertified)
    return in_whole_bins(replace(found, bins=bins, signs=signs, free=free_at), problem.bins)


def _finished(problem: WorstCaseProblem, total: float, failures: int, confidence: FloatArray) -> Solution:
    inputs = len(problem.lower)
    rounding = rounding_bound(4 * inputs + 64, inputs, problem.bins)
    return Solution(
        value=min(max((total + most_to_gain(problem, failures)) / problem.size + rounding, 0.0), 1.0),
        kind=Kind.UPPER if failures or problem.restricts else Kind.EXACT,
        confidence=confidence,
        stats={"inputs": inputs, "uncertified": problem.uncertified, "rounding": rounding, "failures": failures},
    )


def _at_one_bin(problem: WorstCaseProblem, bin_: int, *, plus: bool) -> FloatArray:
    """Everyone who helps the gap of one bin in it, everyone else out of it where that is possible."""
    bins, low, high = problem.bins, problem.lower, problem.upper
    reaches = (bins.assign(low) <= bin_) & (bin_ <= bins.assign(high))
    inside = np.maximum(low, bins.bottoms[bin_]) if plus else np.minimum(high, bins.tops[bin_])
    away = np.where(bins.assign(low) != bin_, low, high)  # outside the bin, unless the input reaches no other
    stuck = bins.assign(away) == bin_
    away = np.where(stuck, low if plus else high, away)
    return np.where(reaches & (problem.correct == plus), inside, away)


@once_per_problem
def _sums_below(problem: WorstCaseProblem) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, IntArray]:
    """Thresholds and what certified inputs earn below each, under- and over-confident; how many wrong ones cross it."""
    right, wrong = np.flatnonzero(problem.correct), np.flatnonzero(~problem.correct)
    order = wrong[np.argsort(problem.upper[wrong])]
    wrong_high, wrong_low, right_low = problem.upper[order], problem.lower[order], worst_ranks(problem).right
    right_high = np.sort(problem.upper[right])
    # Under-confident below t: right at l, wrong above t or at l. The sum falls only where t passes a wrong u.
    above, passed = _thresholds(wrong_high)
    under = first_sums(1.0 - right_low)[count_below(right_low, above)] - first_sums(wrong_low)[passed]
    # Over-confident below t: wrong just below t or at u, right above t or at u. It falls only where t passes a right u.
    below, passed = _thresholds(right_high)
    whole = count_below(wrong_high, below)
    over = first_sums(right_high - 1.0)[passed] + first_sums(wrong_high)[whole]
    return above, under, below, over, count_below(np.sort(wrong_low), below) - whole


def _thresholds(ends: FloatArray) -> tuple[FloatArray, IntArray]:
    """The distinct ends and one beyond them, and how many are below each; ends rise."""
    first = first_of_equals(ends)
    return np.append(ends[first], _END), np.append(first, len(ends))
