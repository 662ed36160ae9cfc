"""The worst-case problem: certified confidence bounds and correctness of a whole set of inputs. Paper: Sec. 3."""

from dataclasses import dataclass

from certcal.errors import InputError
from certcal.inputs import as_bounds, as_correctness, check_integer, check_same_length
from certcal.metrics.binning import Bins, choose_bins
from certcal.types import ArrayLike, BoolArray, FloatArray

# The exact solution counts inputs by pairs of bins; beyond this its tables would outgrow the inputs.
MAX_BINS = 1024


@dataclass(frozen=True, eq=False)
class WorstCaseProblem:
    """Which confidences an adversary can reach: each input anywhere in [lower, upper], its correctness fixed by C1.

    `uncertified` further inputs carry no certificate: free correctness and any confidence in [0, 1].
    """

    lower: FloatArray  # (n,)
    upper: FloatArray  # (n,)
    correct: BoolArray  # (n,)
    bins: Bins
    uncertified: int = 0

    @classmethod
    def checked(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        correct: ArrayLike,
        *,
        n_bins: int = 15,
        edges: ArrayLike | None = None,
        uncertified: int = 0,
    ) -> "WorstCaseProblem":
        """The problem that users describe with arrays, or an `InputError`."""
        free = check_integer("uncertified", uncertified, minimum=0, maximum=2**53)
        low, high = as_bounds(lower, upper, allow_empty=free > 0)
        known = as_correctness("correct", correct, allow_empty=free > 0)
        check_same_length("correct", known, "lower", low)
        return cls(low, high, known, choose_few_bins(n_bins, edges), free)

    @property
    def size(self) -> int:
        """How many inputs there are, with and without certificate."""
        return len(self.lower) + self.uncertified


def choose_few_bins(n_bins: int, edges: ArrayLike | None) -> Bins:
    """Equal widths or the user's own edges, but no more bins than the exact solution can count pairs of."""
    bins = choose_bins(n_bins, edges)
    if len(bins) > MAX_BINS:
        raise InputError.expected("n_bins" if edges is None else "edges", f"give at most {MAX_BINS} bins", len(bins))
    return bins
