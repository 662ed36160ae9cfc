"""The only file that knows which bin a confidence falls into.

The paper's rule: bins [e_m, e_{m+1}) with the last one closed. Paper: Eq. (1), App. E.2.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from certcal.blocks import BLOCK, over_blocks
from certcal.errors import InputError
from certcal.inputs import as_probabilities, as_vector
from certcal.scalars import check_choice, check_integer
from certcal.types import ArrayLike, BoolArray, FloatArray, IntArray

# Cells of the lookup table; a power of two, so that scaling by it is exact.
_CELLS = 1 << 12
MAX_BINS = 1 << 20


class BinRule(StrEnum):
    """Which end of a bin is closed. All but `PAPER` exist to reproduce other libraries' numbers."""

    PAPER = "paper"  # [lo, hi), the last bin closed
    TORCHMETRICS = "torchmetrics"  # [lo, hi), and confidence 1 in a bin of its own
    GUO = "guo"  # (lo, hi], and confidence 0 in no bin at all


@dataclass(frozen=True, eq=False)
class Bins:
    """A partition of [0, 1] by increasing edges 0 = e_0 < e_1 < … < e_M = 1.

    Make it with `Bins.equal_width`, `Bins.from_edges` or `Bins.equal_count`.

    >>> Bins.equal_width(3).assign(np.array([0.0, 1 / 3, 0.5, 1.0])).tolist()
    [0, 1, 1, 2]
    """

    edges: FloatArray
    rule: BinRule = BinRule.PAPER

    def __post_init__(self) -> None:
        rising = self.edges[1:] > self.edges[:-1]
        if len(self.edges) < 2 or not rising.all() or self.edges[0] != 0.0 or self.edges[-1] != 1.0:
            got = self.edges.tolist() if len(self.edges) <= 8 else f"{len(self.edges)} edges that do not"
            raise InputError.expected("edges", "rise strictly from 0 to 1", got)

    @classmethod
    def equal_width(cls, n_bins: int, *, rule: str = BinRule.PAPER, single: bool = True) -> "Bins":
        """M bins of width 1 / M. Our edges are m / M, each correctly rounded to float64.

        The compatibility rules take the edges of the libraries they imitate, torch's linspace: Guo-style code in single
        precision, torchmetrics in that of the confidences (`single` or double).
        """
        count = check_integer("n_bins", n_bins, minimum=1, maximum=MAX_BINS)
        chosen = BinRule(check_choice("rule", rule, tuple(BinRule)))
        if chosen is BinRule.PAPER:
            return cls(np.arange(count + 1) / count)
        import torch

        # Torch's linspace differs from m / M, and from NumPy's, in the last bit.
        precision = torch.float32 if single or chosen is BinRule.GUO else torch.float64
        return cls(torch.linspace(0, 1, count + 1, dtype=precision).double().numpy(), chosen)

    @classmethod
    def from_edges(cls, edges: ArrayLike) -> "Bins":
        """Bins between any strictly increasing edges that start at 0 and end at 1."""
        return cls(as_vector("edges", edges).astype(np.float64))

    @classmethod
    def equal_count(cls, confidence: ArrayLike, n_bins: int) -> "Bins":
        """At most M bins that hold about equally many of the given confidences.

        A cut goes halfway between two neighbouring distinct values, the pair nearest in rank to k N / M, so equal
        confidences share a bin, order is irrelevant, and there are fewer bins when there are fewer distinct values.
        """
        count = check_integer("n_bins", n_bins, minimum=1, maximum=MAX_BINS)
        points = as_probabilities("confidence", confidence)
        values, multiplicity = np.unique(points, return_counts=True)
        ranks = np.cumsum(multiplicity)[:-1]  # how many confidences lie left of each possible cut
        if len(ranks) == 0:
            return cls(np.array([0.0, 1.0]))
        targets = np.arange(1, count) * (len(points) / count)
        right = np.clip(np.searchsorted(ranks, targets), 0, len(ranks) - 1)
        left = np.maximum(right - 1, 0)
        cuts = np.unique(np.where(targets - ranks[left] <= ranks[right] - targets, left, right))
        middle = values[cuts] + (values[cuts + 1] - values[cuts]) / 2
        # Between neighbouring floats the middle rounds to one of them; a bin starts at its left edge.
        inner = np.where(middle > values[cuts], middle, values[cuts + 1])
        return cls(np.unique(np.concatenate([[0.0], inner, [1.0]])))

    def __len__(self) -> int:
        return len(self.edges) - 1 + (self.rule is BinRule.TORCHMETRICS)

    @cached_property
    def tops(self) -> FloatArray:
        """The highest float inside each bin under the paper's rule, shape (b,)."""
        return np.append(np.nextafter(self.edges[1:-1], 0.0), 1.0)

    @property
    def bottoms(self) -> FloatArray:
        """The lowest confidence in each bin, shape (b,)."""
        return self.edges[:-1]

    @property
    def ends(self) -> FloatArray:
        """Below or at which the confidences of each bin stay, shape (b,)."""
        return self.edges[1:]

    @property
    def end_before(self) -> FloatArray:
        """Where the bin before each ends, shape (b,); 0 before the first."""
        return np.append(0.0, self.ends[:-1])

    @property
    def bottom_after(self) -> FloatArray:
        """Where the bin after each begins, shape (b,); 1 after the last."""
        return np.append(self.bottoms[1:], 1.0)

    @property
    def whole(self) -> "Bins":
        """The bins that these are part of: themselves, unless confidences are confined to bands."""
        return self

    def within(self, bands: FloatArray) -> "BandedBins":
        """Those bins that hold a confidence within the bands, (k, 2) for their ends, which rise."""
        low, high = bands[:, 0], bands[:, 1]
        first, last = np.searchsorted(high, self.edges[:-1]), np.searchsorted(low, self.tops, side="right") - 1
        held = np.flatnonzero(first <= last)  # each bin with the first and last band that it meets
        bottoms = np.maximum(low[first[held]], self.edges[held])
        tops = np.minimum(high[last[held]], self.tops[held])
        ends = np.minimum(high[last[held]], self.edges[held + 1])
        edges = np.concatenate([[0.0], self.edges[held[1:]], [1.0]])
        return BandedBins(edges, self.rule, outer=self, number=held.astype(np.int32), extent=(bottoms, tops, ends))

    def assign(self, confidence: FloatArray) -> IntArray:
        """The bin of each confidence, shape (n,). Under the `guo` rule −1 marks a confidence that is in none."""
        bins = np.empty(len(confidence), dtype=np.int32)

        def assign(block: slice) -> None:
            bins[block] = self.assign_block(confidence[block])

        for _ in over_blocks(len(confidence), assign):
            pass
        return bins

    def assign_block(self, confidence: FloatArray) -> IntArray:
        """`assign` for a block of confidences that fits the cache."""
        if self.rule is BinRule.TORCHMETRICS:
            return (np.searchsorted(self.edges, confidence, side="right") - 1).astype(np.int32)
        if self.rule is BinRule.GUO:
            return (np.searchsorted(self.edges, confidence, side="left") - 1).astype(np.int32)
        if self._width_is_exact:
            bins: IntArray = (confidence * len(self)).astype(self._last.dtype)
            last = self._last[: len(bins)] if len(bins) <= BLOCK else self._last[0]
            np.minimum(bins, last, out=bins)  # with a scalar NumPy compares one by one
            return bins
        if self._lookup is not None:
            first, next_edge = self._lookup
            # Float to int32 to NumPy's own index type: both steps are vectorised, the direct one is not.
            cell = (confidence * _CELLS).astype(np.int32).astype(np.intp)
            return first.take(cell) + (confidence >= next_edge.take(cell))
        return np.searchsorted(self.edges[1:-1], confidence, side="right").astype(np.int32)

    @cached_property
    def _last(self) -> IntArray:
        """The number of the last bin, as often as a block is long."""
        return np.full(BLOCK, len(self) - 1, dtype=np.int16 if len(self) < 2**15 else np.int32)

    @cached_property
    def _width_is_exact(self) -> bool:
        """Whether ⌊fl(z M)⌋ is the bin of z for every float z, so that one multiplication decides.

        fl(z M) never falls as z grows, so it is enough that it jumps at each inner edge: ⌊fl(e_m M)⌋ = m, and one float
        below the edge it is still m − 1. This holds for M = 15 and fails for M = 10.
        """
        inner, count = self.edges[1:-1], len(self.edges) - 1
        at, below = np.floor(inner * count), np.floor(np.nextafter(inner, 0.0) * count)
        numbers = np.arange(1, count)
        return bool((at == numbers).all() and (below == numbers - 1).all())

    @cached_property
    def _lookup(self) -> tuple[IntArray, FloatArray] | None:
        """For each of 2^12 equal cells the bin at its start and the next edge; None if a cell has two edges.

        The cell of z is exact (scaling by a power of two does not round), and one comparison finishes.
        """
        inner = self.edges[1:-1]
        starts = np.arange(_CELLS + 1) / _CELLS
        first = np.searchsorted(inner, starts, side="right")
        if (np.diff(np.searchsorted(inner, starts, side="left")) > 1).any():
            return None
        return first.astype(np.int32), np.append(inner, np.inf)[first]


@dataclass(frozen=True, eq=False)
class BandedBins(Bins):
    """The bins that confidences can be in which are confined to bands, each from its lowest to its highest of them.

    A bin that no confidence can reach is left out, its place given to a neighbour. So these bins hold the same
    confidences as the whole ones, and every error by bins is the same.

    >>> bins = Bins.equal_width(4).within(np.array([[0.3, 0.4], [0.9, 0.9]]))
    >>> bins.edges.tolist(), bins.bottoms.tolist(), bins.ends.tolist(), bins.number.tolist()
    ([0.0, 0.75, 1.0], [0.3, 0.9], [0.4, 0.9], [1, 3])
    """

    outer: Bins = field(kw_only=True)
    number: IntArray = field(kw_only=True)  # (b,) which of the whole bins each is
    extent: tuple[FloatArray, FloatArray, FloatArray] = field(kw_only=True)  # bottoms, tops and ends

    @property
    def bottoms(self) -> FloatArray:
        """The lowest confidence that can be in each bin, shape (b,)."""
        return self.extent[0]

    @property
    def tops(self) -> FloatArray:
        """The highest."""
        return self.extent[1]

    @property
    def ends(self) -> FloatArray:
        """The highest, or the open end of the bin, where a band goes on beyond it."""
        return self.extent[2]

    @property
    def whole(self) -> Bins:
        """The bins that these are part of."""
        return self.outer


def choose_bins(n_bins: int, edges: ArrayLike | None) -> Bins:
    """Equal widths, or the user's own edges where given."""
    check_integer("n_bins", n_bins, minimum=1, maximum=MAX_BINS)
    return Bins.equal_width(n_bins) if edges is None else Bins.from_edges(edges)


def sum_by_bin(bins: IntArray, weights: FloatArray | BoolArray, size: int) -> FloatArray:
    """Σ of the weights of the inputs in each of `size` bins."""
    return np.asarray(np.bincount(bins, weights=weights, minlength=size), dtype=np.float64)
