"""Operating points: accept an input if its confidence reaches a threshold. Proofs: docs/operating.md.

Under attack a right input is sure to be accepted if l ≥ τ, a wrong one can be accepted if u ≥ τ, an uncertified one can
be wrong and accepted. Accuracy rises with the first and falls with the others, so these counts are its worst case. They
follow from the certificates alone, so one event serves all thresholds: τ may be chosen after looking.
"""

from dataclasses import dataclass, field

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.inputs import as_probabilities, check_same_length
from certcal.scalars import check_integer, check_number
from certcal.settings import Population
from certcal.types import ArrayLike, BoolArray, FloatArray, IntArray
from certcal.worstcase.problem import WorstCaseProblem


@dataclass(frozen=True)
class OperatingPoint:
    """What is sure at one threshold, whatever the attack."""

    threshold: float
    coverage: float  # share of the inputs that are sure to be accepted
    accuracy: float  # least share of right ones among those accepted; NaN if no input can be accepted
    accepted: int  # inputs that this least share is of
    right: int  # right ones among them
    inputs: int
    failures: int = 0  # certificates that may fail
    clean_coverage: float = np.nan  # without attack, where the confidences are known
    clean_accuracy: float = np.nan
    whose: str = ""  # "certified " where inputs without a certificate are left out

    @property
    def risk(self) -> float:
        """The largest share of wrong ones among those accepted."""
        return np.nan if np.isnan(self.accuracy) else (self.accepted - self.right) / max(self.accepted, 1)

    def __str__(self) -> str:
        """The point in words, rounded to the safe side."""
        # Every digit where fewer would name a threshold below the one that is meant.
        short = f"{self.threshold:g}"
        head = f"Accept from {short if float(short) == self.threshold else repr(self.threshold)}: "
        if np.isnan(self.accuracy):
            return f"{head}no input can reach this threshold, so nothing is accepted."
        clean, inputs = "", f"of the {self.inputs:,} {self.whose}inputs"
        if not np.isnan(self.clean_accuracy):
            clean = f" (without attack {_percent(self.clean_coverage)} and {_percent(self.clean_accuracy)})"
        if self.coverage == self.accuracy == 0.0:
            return (
                f"{head}whatever the attack, nothing is guaranteed: neither how many {inputs} are accepted, "
                f"nor how many of those accepted are right{clean}."
            )
        return (
            f"{head}whatever the attack, at least {_percent(self.coverage)} {inputs} are accepted, and at least "
            f"{_percent(self.accuracy)} of those accepted are right{clean}."
        )


@dataclass(frozen=True, eq=False)
class OperatingCurve:
    """Operating points at many thresholds: risk against coverage, without attack and at its worst."""

    threshold: FloatArray  # (t,)
    certain: IntArray  # (t,) inputs that are sure to be accepted
    right: IntArray  # (t,) right ones among `accepted`
    accepted: IntArray  # (t,) inputs that are accepted where accuracy is least
    reachable: BoolArray  # (t,) whether any input can be accepted
    inputs: int
    failures: int = 0
    clean_accepted: IntArray | None = None  # (t,) without attack
    clean_right: IntArray | None = None
    whose: str = ""  # as of a point
    coverage: FloatArray = field(init=False)
    accuracy: FloatArray = field(init=False)
    clean_coverage: FloatArray = field(init=False)
    clean_accuracy: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        unknown = np.full(len(self.threshold), np.nan)
        # Where nobody wrong can be accepted and nobody right must be, whoever is accepted is right.
        least = np.where(self.accepted > 0, self.right / np.maximum(self.accepted, 1), 1.0)
        shown = {"coverage": self.certain / self.inputs, "accuracy": np.where(self.reachable, least, np.nan)}
        if self.clean_accepted is None or self.clean_right is None:
            shown |= {"clean_coverage": unknown, "clean_accuracy": unknown}
        else:
            share = self.clean_right / np.maximum(self.clean_accepted, 1)
            shown["clean_coverage"] = self.clean_accepted / self.inputs
            shown["clean_accuracy"] = np.where(self.clean_accepted > 0, share, np.nan)
        for name, values in shown.items():
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.threshold)

    @property
    def risk(self) -> FloatArray:
        """The largest share of wrong ones among those accepted, shape (t,)."""
        # 1 − accuracy would round twice.
        return np.where(self.reachable, (self.accepted - self.right) / np.maximum(self.accepted, 1), np.nan)

    def __getitem__(self, position: int) -> OperatingPoint:
        return OperatingPoint(
            threshold=float(self.threshold[position]),
            coverage=float(self.coverage[position]),
            accuracy=float(self.accuracy[position]),
            accepted=int(self.accepted[position]),
            right=int(self.right[position]),
            inputs=self.inputs,
            failures=self.failures,
            clean_coverage=float(self.clean_coverage[position]),
            clean_accuracy=float(self.clean_accuracy[position]),
            whose=self.whose,
        )


def operating_curve(
    lower: ArrayLike | ConfidenceIntervals,
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
    clean, known = _clean(problem, lower, correct, confidence, population)
    count = check_integer("failures", failures, minimum=0)
    return _curve(problem, points, count, clean, known, _whose(lower, population))


def certified_operating_point(
    lower: ArrayLike | ConfidenceIntervals,
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
    at = check_number("threshold", threshold, "lie in [0, 1]", lambda number: 0.0 <= number <= 1.0)
    return operating_curve(
        lower,
        upper,
        correct,
        thresholds=[at],
        confidence=confidence,
        population=population,
        uncertified=uncertified,
        failures=failures,
    )[0]


def certified_threshold(
    lower: ArrayLike | ConfidenceIntervals,
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

    Raises: InputError if no threshold guarantees as much, with the most that one does.

    >>> certified_threshold([0.7, 0.2, 0.6], [0.9, 0.6, 0.65], [1, 1, 0], accuracy=0.9).threshold
    0.6500000000000001
    """
    if (accuracy is None) == (risk is None):
        raise InputError.expected(
            "accuracy", "be given, or `risk` in its place", "both" if risk is not None else "none"
        )
    name, given = ("accuracy", accuracy) if risk is None else ("risk", risk)
    asked = check_number(name, given, "lie in [0, 1]", lambda number: 0.0 <= number <= 1.0)
    problem = WorstCaseProblem.checked(lower, upper, correct, population=population, uncertified=uncertified)
    count = check_integer("failures", failures, minimum=0)
    clean, known = _clean(problem, lower, correct, confidence, population)
    # On (v, w] between neighbouring values nothing changes, so w stands for all of it.
    ends = np.unique(np.where(problem.correct, problem.lower, problem.upper))
    curve = _curve(problem, ends, count, None, None)
    enough = (curve.right > 0) & ((curve.accuracy >= asked) if risk is None else (curve.risk <= asked))
    if not curve.right.any():
        raise InputError.expected(name, "be asked of bounds with an input that is sure to be right", "none")
    if not enough.any():
        # Rounded to the side where the number in the message will do.
        accuracies, risks = curve.accuracy[curve.right > 0], curve.risk[curve.right > 0]
        most, least = np.floor(accuracies.max() * 1e6) / 1e6, np.ceil(risks.min() * 1e6) / 1e6
        wanted = f"be at most {most:.6f}" if risk is None else f"be at least {least:.6f}"
        raise InputError.expected(name, f"{wanted}, the best that a threshold guarantees here", asked)
    first = int(enough.argmax())
    smallest = float(np.nextafter(ends[first - 1], 2.0)) if first else 0.0
    return _curve(problem, np.array([smallest]), count, clean, known, _whose(lower, population))[0]


def _whose(given: ArrayLike | ConfidenceIntervals, population: str) -> str:
    """Which inputs a sentence is about: of bounds, uncertified ones may have been left out."""
    return "certified " if isinstance(given, ConfidenceIntervals) and population == Population.CERTIFIED else ""


def _clean(
    problem: WorstCaseProblem,
    given: ArrayLike | ConfidenceIntervals,
    correct: ArrayLike | None,
    confidence: ArrayLike | None,
    population: str,
) -> tuple[FloatArray | None, BoolArray | None]:
    """Clean confidences and correctness of the inputs, where they are known."""
    if isinstance(given, ConfidenceIntervals):
        if confidence is not None:
            raise InputError.expected("confidence", "be left out with bounds, which bring their own", "both")
        seen = given.certified | (population == Population.ALL)
        return given.confidence[seen], given.correct[seen]
    if confidence is None:
        return None, None
    if problem.uncertified:
        wanted = "be left out with `uncertified` inputs, whose confidences are not given"
        raise InputError.expected("confidence", wanted, "both")
    clean = as_probabilities("confidence", confidence)
    check_same_length("confidence", clean, "lower", problem.lower)
    return clean, problem.correct


def _curve(
    problem: WorstCaseProblem,
    thresholds: FloatArray,
    failures: int,
    clean: FloatArray | None,
    known: BoolArray | None,
    whose: str = "",
) -> OperatingCurve:
    """The counts at each threshold; a failed certificate turns a right input into a wrong one that is accepted.

    Failing one that counts as right is best for the adversary: (A − 1) / (A + B) ≤ A / (A + B + 1).
    """
    right, size = problem.correct, problem.size
    failed = min(failures, len(problem.lower))
    sure = _reaching(problem.lower[right], thresholds)
    wrong = _reaching(problem.upper[~right], thresholds) + problem.uncertified
    possible = wrong + _reaching(problem.upper[right], thresholds)
    accepted = sure + wrong + np.clip(failed - sure, 0, size - sure - wrong)
    return OperatingCurve(
        threshold=thresholds,
        # Nobody is below a threshold of 0, whatever the certificates say.
        certain=np.where(thresholds > 0, np.maximum(_reaching(problem.lower, thresholds) - failed, 0), size),
        right=np.maximum(sure - failed, 0),
        accepted=accepted,
        reachable=possible + failed > 0,
        inputs=size,
        failures=failed,
        clean_accepted=None if clean is None else _reaching(clean, thresholds),
        clean_right=None if clean is None else _reaching(clean[known], thresholds),
        whose=whose,
    )


def _reaching(values: FloatArray, thresholds: FloatArray) -> IntArray:
    """How many values are at least each threshold, shape (t,)."""
    if len(thresholds) == 1:
        return np.array([int((values >= thresholds[0]).sum())])
    return len(values) - np.searchsorted(np.sort(values), thresholds, side="left")


def _percent(share: float) -> str:
    """A share as it may be promised: rounded down."""
    return f"{np.floor(share * 1000 + 1e-9) / 10:.1f} %"
