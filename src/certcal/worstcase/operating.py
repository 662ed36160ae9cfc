"""Operating points: accept an input if its confidence reaches a threshold. Proofs: docs/operating.md.

Under attack a right input is sure to be accepted if l ≥ τ, a wrong one can be accepted if u ≥ τ, an uncertified one can
be wrong and accepted. Accuracy rises with the first and falls with the others, so these counts are its worst case. They
follow from the certificates alone, so one event serves all thresholds: τ may be chosen after looking.
"""

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.inputs import as_probabilities, check_same_length
from certcal.settings import Population, checks
from certcal.types import ArrayLike, BoolArray, FloatArray, IntArray
from certcal.worstcase.operating_points import OperatingCurve, OperatingPoint
from certcal.worstcase.problem import WorstCaseProblem


class NoThresholdError(InputError):
    """No threshold guarantees as much as was asked for."""

    best: OperatingPoint | None = None  # the point that guarantees the largest accuracy; None if nobody is sure


def operating_curve(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    population: str = Population.CERTIFIED,
    uncertified: int = 0,
    failures: int = 0,
) -> OperatingCurve:
    """Coverage and accuracy at each threshold: least ones under attack, and those without.

    With `failures` from `allowed_failures`, all points of the curve hold together with probability at least 1 − delta.

    Paper: —; docs/operating.md.   Errs: exact counts, shares rounded to the nearest float.

    Args:
        lower, upper, correct, population, uncertified: as for `certified_calibration_error`.
        thresholds: in [0, 1], in any order; by default 0, 0.01, …, 1.
        confidence: clean confidences of the inputs, for arrays; bounds bring their own.
        failures: how many certificates may fail.

    >>> curve = operating_curve([0.7, 0.2, 0.6], [0.9, 0.6, 0.8], [1, 1, 0], thresholds=[0.5, 0.65, 0.85])
    >>> curve.coverage.round(3).tolist(), curve.accuracy.tolist()
    ([0.667, 0.333, 0.0], [0.5, 0.5, 1.0])
    """
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    points = np.linspace(0.0, 1.0, 101).round(2) if thresholds is None else as_probabilities("thresholds", thresholds)
    return _curve(problem, points, lower, confidence, population, failures)


def certified_operating_point(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    threshold: float,
    confidence: ArrayLike | None = None,
    population: str = Population.CERTIFIED,
    uncertified: int = 0,
    failures: int = 0,
) -> OperatingPoint:
    """How many inputs are sure to be accepted at a threshold, and the least accuracy among those accepted.

    An input is accepted if its confidence is at least `threshold`. Exact: an attack attains the accuracy. Uncertified
    inputs count as wrong and accepted. See `operating_curve` for many thresholds; what holds there for all of them
    together includes this one, also if it was chosen after looking.

    Paper: —; docs/operating.md.

    >>> print(certified_operating_point([0.7, 0.2, 0.6], [0.9, 0.6, 0.8], [1, 1, 0], threshold=0.5))
    Accept from 0.5: whatever the attack, at least 66.6 % of the 3 inputs are accepted, and at least 50.0 % of \
those accepted are right.
    """
    at = np.array([checks.share("threshold", threshold)])
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    return _curve(problem, at, lower, confidence, population, failures)[0]


def certified_threshold(
    lower: ArrayLike | ConfidenceIntervals | WorstCaseProblem,
    upper: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    *,
    accuracy: float | None = None,
    risk: float | None = None,
    confidence: ArrayLike | None = None,
    population: str = Population.CERTIFIED,
    uncertified: int = 0,
    failures: int = 0,
) -> OperatingPoint:
    """The operating point with the smallest threshold that guarantees an accuracy among those accepted.

    Coverage falls as the threshold rises, so it is also the point of the largest sure coverage with at most a risk of 1
    − accuracy. It holds for its own threshold: at a larger one the accuracy may be lower again. The curve is constant
    between values of the bounds, and the smallest float of the piece is given; round it up, not down.

    Paper: —; docs/operating.md.

    Raises: NoThresholdError, an InputError, if no threshold guarantees as much; `best` is the point that does most.

    >>> certified_threshold([0.7, 0.2, 0.6], [0.9, 0.6, 0.65], [1, 1, 0], accuracy=0.9).threshold
    0.6500000000000001
    """
    if (accuracy is None) == (risk is None):
        raise InputError.expected(
            "accuracy", "be given, or `risk` in its place", "both" if risk is not None else "none"
        )
    name, given = ("accuracy", accuracy) if risk is None else ("risk", risk)
    asked = checks.share(name, given)
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    # Nothing changes on (v, w] between neighbouring values: the smallest float above v stands for all of it.
    ends = np.unique(np.where(problem.correct, problem.lower, problem.upper))
    pieces = np.append(0.0, np.nextafter(ends[:-1], 2.0))
    curve = _curve(problem, pieces, lower, confidence, population, failures)
    helpful = curve.right > 0
    if not helpful.any():
        raise NoThresholdError.expected(name, "be asked of bounds with an input that is sure to be right", "none")
    enough = helpful & ((curve.accuracy >= asked) if risk is None else (curve.risk <= asked))
    if not enough.any():
        best = curve[int(np.where(helpful, curve.accuracy, -1.0).argmax())]
        # Rounded to the side where the number in the message will do.
        most, least = np.floor(best.accuracy * 1e6) / 1e6, np.ceil(best.risk * 1e6) / 1e6
        wanted = f"be at most {most:.6f}" if risk is None else f"be at least {least:.6f}"
        error = NoThresholdError.expected(name, f"{wanted}, the best that a threshold guarantees here", asked)
        error.best = best
        raise error
    return curve[int(enough.argmax())]


def _curve(
    problem: WorstCaseProblem,
    thresholds: FloatArray,
    given: object,
    confidence: ArrayLike | None,
    population: str,
    failures: int,
) -> OperatingCurve:
    """The counts at each threshold; a failed certificate turns a right input into a wrong one that is accepted.

    Failing one that counts as right is best for the adversary: (A − 1) / (A + B) ≤ A / (A + B + 1).
    """
    without: dict[str, IntArray] = {}
    if (clean := _clean(problem, given, confidence, population)) is not None:
        own = _reaching(*clean, thresholds)
        without = {"clean_right": own, "clean_accepted": own + _reaching(clean[0], ~clean[1], thresholds)}
    right, size, failed = problem.correct, problem.size, problem.failed(failures)
    sure = _reaching(problem.lower, right, thresholds)
    certain = sure + _reaching(problem.lower, ~right, thresholds)
    wrong = _reaching(problem.upper, ~right, thresholds) + problem.uncertified
    possible = wrong + _reaching(problem.upper, right, thresholds)
    left_out = isinstance(given, ConfidenceIntervals) and population == Population.CERTIFIED
    return OperatingCurve(
        threshold=thresholds,
        # Nobody is below a threshold of 0, whatever the certificates say.
        certain=np.where(thresholds > 0, np.maximum(certain - failed, 0), size),
        right=np.maximum(sure - failed, 0),
        accepted=sure + wrong + np.clip(failed - sure, 0, size - sure - wrong),
        reachable=possible + failed > 0,
        inputs=size,
        failures=failed,
        whose="certified " if left_out else "",
        **without,
    )


def _clean(
    problem: WorstCaseProblem, given: object, confidence: ArrayLike | None, population: str
) -> tuple[FloatArray, BoolArray] | None:
    """Clean confidences and correctness of the inputs, where they are known."""
    if isinstance(given, ConfidenceIntervals):
        if confidence is not None:
            raise InputError.expected("confidence", "be left out with bounds, which bring their own", "both")
        seen = np.flatnonzero(given.certified | (population == Population.ALL))
        return given.confidence[seen], given.correct[seen]
    if confidence is None:
        return None
    if problem.uncertified:
        wanted = "be left out with `uncertified` inputs, whose confidences are not given"
        raise InputError.expected("confidence", wanted, "both")
    clean = as_probabilities("confidence", confidence)
    check_same_length("confidence", clean, "lower", problem.lower)
    return clean, problem.correct


def _reaching(values: FloatArray, who: BoolArray, thresholds: FloatArray) -> IntArray:
    """How many values, of some of the inputs, are at least each threshold, shape (t,)."""
    if len(thresholds) == 1:
        return np.array([np.count_nonzero((values >= thresholds[0]) & who)])
    own = np.sort(values[np.flatnonzero(who)])
    return len(own) - np.searchsorted(own, thresholds, side="left")
