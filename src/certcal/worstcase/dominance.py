"""Counts and sums of points below two thresholds, for many pairs of them at once."""

import numpy as np

from certcal.types import FloatArray, IntArray

_CELLS = 5_000_000  # of one table of all pairs; with more, points are taken in blocks


class Below:
    """How many points have x < rise and y < fall, and what their amounts add up to, by places of rise and fall.

    Points in order of x form blocks. One table has the blocks before a point, by rank of y; each block has a small one
    of its own, by rank within it. Few distinct values make one block per x, and need no small ones.
    """

    def __init__(self, rises: FloatArray, falls: FloatArray, x: FloatArray, y: FloatArray, amount: IntArray) -> None:
        order = np.argsort(x, kind="stable")
        x, y, amount = x[order], y[order], amount[order]
        xs, ys = np.unique(x), np.unique(y)
        self._small = None
        if len(xs) * len(ys) <= _CELLS:
            block, rank = np.searchsorted(xs, x), np.searchsorted(ys, y)
            self._rise, self._fall = np.searchsorted(xs, rises), np.searchsorted(ys, falls)
            self._side = 1
        else:
            self._side = 1 << (len(x).bit_length() // 2)
            place = np.arange(len(x))
            block, rank = place // self._side, np.argsort(np.argsort(y, kind="stable"))
            self._rise, self._fall = np.searchsorted(x, rises), np.searchsorted(np.sort(y), falls)
            self._small = self._tables(block, place % self._side, rank, amount)
        ranks, blocks = (len(ys) if self._small is None else len(y)), int(block.max(initial=-1)) + 1
        self._count, self._sum = (
            _below(blocks + 1, ranks, block, rank, own) for own in (np.ones(len(x), np.int32), amount)
        )

    def _tables(self, block: IntArray, place: IntArray, rank: IntArray, amount: IntArray) -> tuple[IntArray, IntArray]:
        """Within each block: over its first r points, those of the t lowest ranks; shape (blocks, r, t)."""
        order = np.lexsort((rank, block))
        local = np.empty_like(order)
        local[order] = np.arange(len(order)) % self._side
        shape = int(block[-1]) + 2, self._side + 1, self._side + 1  # an empty block after the last
        tables = []
        for own in (np.ones(len(rank), np.int32), amount):
            table = np.zeros(shape, own.dtype)
            table[block, place + 1, local + 1] = own
            np.cumsum(table, axis=1, out=table)
            tables.append(np.cumsum(table, axis=2, out=table))
        return tables[0], tables[1]

    def __call__(self, rise: IntArray, fall: IntArray | int) -> tuple[IntArray, IntArray]:
        """Counts and sums for pairs of places."""
        (block, first), rank = divmod(self._rise[rise], self._side), self._fall[fall]
        count, total = self._count[block, rank], self._sum[block, rank]
        if self._small is None:
            return count, total
        inside = self._count[np.minimum(block + 1, len(self._count) - 1), rank] - count
        return count + self._small[0][block, first, inside], total + self._small[1][block, first, inside]


def _below(blocks: int, ranks: int, block: IntArray, rank: IntArray, amount: IntArray) -> IntArray:
    """Sums over earlier blocks and lower ranks, shape (blocks, ranks + 1)."""
    table = np.zeros((blocks, ranks + 1), amount.dtype)
    np.add.at(table, (block + 1, rank + 1), amount)
    np.cumsum(table, axis=0, out=table)
    return np.cumsum(table, axis=1, out=table)
