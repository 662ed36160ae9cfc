"""The worst-case problem of a whole set of inputs, and what every solver of it returns. Paper: Sec. 3."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError
from certcal.inputs import as_certified
from certcal.metrics import Bins, choose_bins
from certcal.scalars import check_choice, check_integer, exactly
from certcal.settings import MAX_BINS, Population
from certcal.shown import ShownRows, by_row
from certcal.types import ArrayLike, BoolArray, FloatArray, IntArray

Score = Callable[[FloatArray], FloatArray]
Found = TypeVar("Found")
MOST_FREE = 2**24


class Kind(StrEnum):
    """How a solution's value relates to the true worst case over all confidences within the bounds."""

    EXACT = "exact"  # equals it, up to rounding: moved up by `stats["rounding"]`, so that it is never below
    LOWER = "lower"  # attained by the witness, so the worst case is at least this: not a certificate
    UPPER = "upper"  # the worst case is at most this


class Status(StrEnum):
    """How the solver ended, as the sentence a user reads."""

    SOLVED = "solved to global optimality"
    BOUNDED = "bounded from above; the confidences are a feasible point"
    EVALUATED = "evaluated at one feasible point"
    STOPPED = "stopped after the requested number of steps; the best feasible point is returned"


@dataclass(frozen=True, eq=False, repr=False)
class Solution(ShownRows):
    """A worst case over all confidences within their bounds.

    Attributes:
        value: the metric at the worst case, as found.
        kind: whether `value` is the exact worst case or a bound of it from one side.
        confidence: the witness, one worst-case confidence per input within its bounds, shape (n,). Keep it in float64:
            many of its values lie one float below a bin's edge, and rounding moves them across.
        bins: the bin each witness confidence falls into, shape (n,); None for scores without bins.
        signs: +1 where a bin is under-confident at the worst case (accuracy above confidence), −1 where it is
            over-confident, 0 where no confidence can be, shape (b,); means nothing for a bin left empty. None for
            scores without bins.
        free: what each uncertified input does at the worst case; None if there are none.
        status: how the solver ended.
        stats: counts, settings and diagnostics of the solver.
    """

    value: float
    kind: Kind
    confidence: FloatArray
    bins: IntArray | None = None
    signs: IntArray | None = None
    free: "FreeInput | None" = None
    status: Status = Status.SOLVED
    stats: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind is Kind.UPPER and self.status is Status.SOLVED:  # of what bounds the problem, not of itself
            object.__setattr__(self, "status", Status.BOUNDED)

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else repr(self)

    def as_dicts(self) -> list[dict[str, Any]]:
        """The worst-case confidence of each input, and the bin it falls into."""
        bins = {} if self.bins is None else {"bin": self.bins.tolist()}
        return by_row({"confidence": self.confidence.tolist()} | bins)

    def __repr__(self) -> str:
        inputs = f"{len(self.confidence)}" + (f"+{self.free.count} uncertified" if self.free else "")
        return f"Solution(value={self.value:.6g}, kind={self.kind}, inputs={inputs}, status={self.status!s})"


@dataclass(frozen=True)
class FreeInput:
    """The worst case of an input of which nothing is known: it may be right or wrong, at any confidence."""

    count: int
    confidence: float
    correct: bool
    bin: int


@dataclass(frozen=True, eq=False)
class WorstCaseProblem:
    """Which confidences an adversary can reach: each input anywhere in [lower, upper], its correctness fixed by C1.

    Where a map leaves confidences only some bands, `bins` are `within` them, and what is between cannot be reached.

    `uncertified` further inputs have no certified class: their correctness is free, and so is their confidence, but for
    how far it can be from it.
    """

    lower: FloatArray  # (n,)
    upper: FloatArray  # (n,)
    correct: BoolArray  # (n,)
    bins: Bins
    uncertified: int = 0
    farthest: FloatArray | None = None  # (uncertified,) how far each can be from its correctness; None: 1

    @classmethod
    def of(
        cls,
        bounds: ConfidenceIntervals,
        *,
        population: str = Population.CERTIFIED,
        n_bins: int = 15,
        edges: ArrayLike | None = None,
    ) -> "WorstCaseProblem":
        """The problem of certificates: uncertified inputs are left out, or with population "all" they are free."""
        every = check_choice("population", population, tuple(Population)) == Population.ALL
        kept = int(bounds.certified.sum())
        if not kept and not (every and len(bounds)):
            raise InputError.expected(
                "bounds", f"hold an input that is certified at R = {exactly(bounds.radius)}", "none"
            )
        free, own = len(bounds) - kept if every else 0, np.flatnonzero(bounds.certified)
        far = None if bounds.other is None or not free else bounds.farthest[~bounds.certified]
        bins = choose_few_bins(n_bins, edges)
        if bounds.bands is not None:
            bins = bins.within(_checked_bands(bounds))
        return cls(bounds.lower[own], bounds.upper[own], bounds.correct[own], bins, free, far)

    @classmethod
    def checked(
        cls,
        lower: "ArrayLike | ConfidenceIntervals | WorstCaseProblem",
        upper: ArrayLike | None = None,
        correct: ArrayLike | None = None,
        *,
        population: str = Population.CERTIFIED,
        n_bins: int = 15,
        edges: ArrayLike | None = None,
        uncertified: int = 0,
    ) -> "WorstCaseProblem":
        """The problem that users describe with arrays or with bounds in place of all three, or an `InputError`.

        One that is made already stays as it is, with all that is `once_per_problem`, for several metrics of the same.
        """
        if isinstance(lower, WorstCaseProblem):
            return lower
        if isinstance(lower, ConfidenceIntervals):
            if upper is not None or correct is not None:
                raise InputError.expected("upper", "be left out, and `correct` too, with bounds as `lower`", "both")
            if uncertified != 0:
                wanted = "be left out with bounds, which know; population='all' counts them"
                raise InputError.expected("uncertified", wanted, uncertified)
            return cls.of(lower, population=population, n_bins=n_bins, edges=edges)
        if upper is None or correct is None:
            missing = "upper" if upper is None else "correct"
            raise InputError.expected(missing, "be given with `lower`, or bounds in place of all three", "None")
        if check_choice("population", population, tuple(Population)) == Population.ALL:
            wanted = "come with bounds; with arrays say how many inputs are `uncertified`"
            raise InputError.expected("population", wanted, repr(str(population)))
        free = check_integer("uncertified", uncertified, minimum=0, maximum=2**53)
        if (without := getattr(lower, "uncertified", 0)) and not free:
            got = f"those of {without} more (pass the bounds themselves, or lower[bounds.certified] and so on)"
            raise InputError.expected("lower", "be of certified inputs only", got)
        low, high, known = as_certified(lower, upper, correct, allow_empty=free > 0)
        return cls(low, high, known, choose_few_bins(n_bins, edges), free)

    @property
    def everywhere(self) -> "WorstCaseProblem":
        """The same problem with confidences anywhere in [lower, upper], also between the bands of a map with steps.

        Its worst case is at least as large.
        """
        return self if self.bins.whole is self.bins else replace(self, bins=self.bins.whole)

    def check_few_free(self) -> None:
        """Refuse more uncertified inputs than can be counted one by one."""
        if self.uncertified > MOST_FREE:
            raise InputError.expected("uncertified", f"be at most {MOST_FREE:,} here", self.uncertified)

    def free_earning(self, at_best: FloatArray, *, score: Score = np.asarray) -> FloatArray:
        """What the uncertified inputs earn together, at most, where an input of which nothing is known earns `at_best`.

        Σ score(min(at_best, farthest)) over them, for each entry.
        """
        known = np.empty(0) if self.farthest is None else self.farthest
        free = (self.uncertified - len(known)) * score(at_best)
        return np.asarray(free + score(np.minimum(at_best[:, None], known)).sum(axis=1))

    def after_failures(self, failures: int) -> "WorstCaseProblem":
        """The same problem with nothing known any more of those uncertified inputs that are most restricted."""
        if self.farthest is None or not len(self.farthest):
            return self
        far = np.sort(self.farthest)
        far[:failures] = 1.0
        return replace(self, farthest=far)

    def failed(self, failures: int) -> int:
        """How many certificates can fail where so many may, or an `InputError`."""
        return min(check_integer("failures", failures, minimum=0), len(self.lower))

    def free_input(self, confidence: float, *, correct: bool, bin: int) -> FreeInput | None:
        """The uncertified inputs, all of them there; None if there are none."""
        return FreeInput(self.uncertified, confidence, correct=correct, bin=bin) if self.uncertified else None

    @property
    def restricts(self) -> bool:
        """Whether something is known of uncertified inputs; the calibration error is then an upper bound."""
        return self.farthest is not None and bool((self.farthest < 1.0).any())

    @property
    def size(self) -> int:
        """How many inputs there are, with and without certificate."""
        return len(self.lower) + self.uncertified


def _checked_bands(bounds: ConfidenceIntervals) -> FloatArray:
    """The bands of bounds, which all of these must lie in: with others the worst case would be too small."""
    bands = np.asarray(bounds.bands, dtype=np.float64)
    right = bands.ndim == 2 and bands.shape[1:] == (2,) and len(bands) > 0
    if not (right and (np.diff(bands.ravel()) >= 0).all() and bands[0, 0] >= 0 and bands[-1, 1] <= 1):
        raise InputError.expected("bounds.bands", "hold the ends of bands that rise from 0 to 1", f"{bounds.bands!r}")
    for side in (bounds.lower, bounds.upper):
        place = np.searchsorted(bands[:, 0], side, side="right") - 1
        if not ((place >= 0) & (side <= bands[place, 1])).all():
            raise InputError.expected("bounds.bands", "hold all lower and upper bounds", "some outside of them")
    return bands


def once_per_problem(function: Callable[[WorstCaseProblem], Found]) -> Callable[[WorstCaseProblem], Found]:
    """What a function finds is kept with the problem: metrics of the same inputs ask for the same tables and sums."""

    @wraps(function)
    def found(problem: WorstCaseProblem) -> Found:
        own = f"_{function.__name__}"
        if own not in vars(problem):
            vars(problem)[own] = function(problem)
        result: Found = vars(problem)[own]
        return result

    return found


def choose_few_bins(n_bins: int, edges: ArrayLike | None) -> Bins:
    """Equal widths or the user's own edges, but no more bins than the exact solution can count pairs of."""
    bins = choose_bins(n_bins, edges)
    if len(bins) > MAX_BINS:
        raise InputError.expected("n_bins" if edges is None else "edges", f"give at most {MAX_BINS} bins", len(bins))
    return bins
