"""Triton kernels for a GPU: the noisy copies of a whole batch in one pass, and their statistics in another.

Noise: words of Philox4x64-10, the same as NumPy's, turned into whole normals by the table of `normals.py`.
Statistics: integers only, so that sums come out the same however the draws are cut into batches.
"""

import triton
import triton.language as tl
from torch import Tensor

from certcal.models.normals import Knots

NOISE_BLOCK = 64  # threads of a program, eight elements each
LAUNCH = 2**31  # the elements of a launch are fewer: its threads count them in 32 bits

ROUNDS = tl.constexpr(10)
MULTIPLY_0, MULTIPLY_1 = tl.constexpr(0xD2E7470EE14C6C93), tl.constexpr(0xCA5A826395121157)
WEYL_0, WEYL_1 = tl.constexpr(0x9E3779B97F4A7C15), tl.constexpr(0xBB67AE8584CAA73B)
SCORE_UNITS = tl.constexpr(2.0**40)


@triton.jit
def _philox(block, index, stream, seed):
    """The four 64-bit words of one counter (block, index, stream, 0) under the key (seed, 0)."""
    c0, c1, c2, c3 = block, index, stream, index * 0
    key_0, key_1 = seed, seed * 0
    for _ in tl.static_range(ROUNDS):
        high_0, low_0 = tl.umulhi(c0, MULTIPLY_0), c0 * MULTIPLY_0
        high_1, low_1 = tl.umulhi(c2, MULTIPLY_1), c2 * MULTIPLY_1
        c0, c1, c2, c3 = high_1 ^ c1 ^ key_0, low_1, high_0 ^ c3 ^ key_1, low_0
        key_0, key_1 = key_0 + WEYL_0, key_1 + WEYL_1
    return c0, c1, c2, c3


@triton.jit
def _two_normals(choices, places, table, bits):
    """The whole normals of the low and of the high 32 bits of two 64-bit words: `Knots.draw`, in registers."""
    return _normal(choices.to(tl.int32), places.to(tl.int32), table, bits), _normal(
        (choices >> 32).to(tl.int32), (places >> 32).to(tl.int32), table, bits
    )


@triton.jit
def _normal(choice, place, table, bits):
    knot = place & 0x7FFF
    entry = tl.load(table + knot)  # the last choice that stays in the upper half, the jump in the lower
    moves = ((entry >> 32).to(tl.int32) - (choice & 0x7FFFFFFF)) >> 31
    below = (1 << bits) - 1
    spread = ((place >> 15) & below) + ((place >> (15 + bits)) & below) - below
    value = (knot << bits) + (entry.to(tl.int32) & moves) + spread
    sign = place >> 31
    return ((value ^ sign) - sign).to(tl.float32)


@triton.jit
def _eight(a, b, c, d, e, f, g, h):
    """Eight values of each thread, side by side in memory: shape (n,) each in, (n · 8,) out."""
    low, high = tl.join(tl.join(a, e), tl.join(c, g)), tl.join(tl.join(b, f), tl.join(d, h))
    return tl.join(low, high).reshape(a.shape[0] * 8)


@triton.jit(
    do_not_specialize=["rows", "draws", "seed", "stream"],
    do_not_specialize_on_alignment=["run_slot", "run_index", "run_first"],
)
def noisy_rows(
    out, inputs, run_slot, run_index, run_first, rows, draws, table, step, seed: tl.uint64, stream: tl.uint64,
    elements: tl.constexpr, pairs: tl.constexpr, bits: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Set row run · draws + j of `out` to inputs[slot] + step · (whole normals of draw first + j of input index).

    A thread takes a pair of Philox blocks of one row: p for the choices and pairs + p for the places of elements 8p to
    8p + 7.
    """
    own = tl.program_id(0) * block + tl.arange(0, block)
    row, pair = own // pairs, own % pairs
    run = row // draws
    index = tl.load(run_index + run, mask=row < rows, other=0).to(tl.uint64)
    draw = tl.load(run_first + run, mask=row < rows, other=0).to(tl.uint64) + (row % draws).to(tl.uint64)
    first = draw * (2 * pairs) + pair.to(tl.uint64) + 1  # NumPy's generator counts up before it draws
    key, purpose = seed.to(tl.uint64), stream.to(tl.uint64) + index * 0
    a0, a1, a2, a3 = _philox(first, index, purpose, key)
    b0, b1, b2, b3 = _philox(first + pairs, index, purpose, key)
    z0, z1 = _two_normals(a0, b0, table, bits)
    z2, z3 = _two_normals(a1, b1, table, bits)
    z4, z5 = _two_normals(a2, b2, table, bits)
    z6, z7 = _two_normals(a3, b3, table, bits)
    own = tl.program_id(0) * (block * 8) + tl.arange(0, block * 8)
    row, element = own // (pairs * 8), own % (pairs * 8)
    inside = (row < rows) & (element < elements)
    source = inputs + tl.load(run_slot + row // draws, mask=row < rows, other=0).to(tl.int64) * elements
    normals = _eight(z0, z1, z2, z3, z4, z5, z6, z7)
    value = tl.fma(normals, step, tl.load(source + element, mask=inside, other=0.0))
    tl.store(out + row.to(tl.int64) * elements + element, value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows", "draws", "slots"], do_not_specialize_on_alignment=["run_slot"])
def tally_rows(
    outputs, run_slot, selected, thresholds, temperatures, votes, histogram, scores, squares, invalid,
    rows, draws, slots,
    classes: tl.constexpr, width: tl.constexpr, kinds: tl.constexpr, tempered: tl.constexpr,
    logits: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Add the outputs of a batch to the statistics of its inputs: whole numbers, so that no order or cut shows."""
    row = tl.program_id(0) * block + tl.arange(0, block)
    inside = row < rows
    slot = tl.load(run_slot + row // draws, mask=inside, other=0).to(tl.int64)
    column = tl.arange(0, width)[None, :]
    real = column < classes
    place = outputs + row.to(tl.int64)[:, None] * classes + column
    values = tl.load(place, mask=inside[:, None] & real, other=0.0).to(tl.float32)
    ranked = tl.where(real, values, float("-inf"))
    top = tl.max(ranked, axis=1)
    vote = tl.minimum(tl.argmax(ranked, axis=1), classes - 1)  # stays in place where NaN won
    one = tl.full([block], 1, tl.int64)
    tl.atomic_add(votes + slot * classes + vote, one, mask=inside, sem="relaxed")
    chosen = column == tl.load(selected + slot, mask=inside, other=0)[:, None]
    # A program's rows are most often of one input: then its sums need one addition to memory, not one for each row.
    owner = tl.load(run_slot + tl.program_id(0) * block // draws).to(tl.int64)
    alone = tl.sum((inside & (slot != owner)).to(tl.int32), axis=0) == 0
    for t in tl.static_range(kinds):
        if logits:
            temperature = tl.load(temperatures + t) if tempered else 1.0
            powers = tl.where(real, tl.exp((ranked - top[:, None]) / temperature), 0.0)
            total = tl.sum(powers, axis=1)
            valid = total < float("inf")  # false for NaN too
            score = tl.sum(tl.where(chosen, powers, 0.0), axis=1) / total
        else:
            total = tl.sum(tl.where(real, values, 0.0), axis=1)
            least = tl.min(tl.where(real, values, 0.0), axis=1)
            valid = (least >= 0.0) & (tl.abs(total - 1.0) < 1e-3)
            score = tl.sum(tl.where(chosen, values, 0.0), axis=1)
        if t == 0:
            tl.atomic_add(invalid + slot, one, mask=inside & (valid == 0), sem="relaxed")
        score = tl.where(inside & valid, tl.minimum(score, 1.0), 0.0)  # it may come out a rounding above 1
        cell = tl.zeros([block], tl.int32)
        for bit in tl.static_range(8):  # how many of the 255 thresholds the score reaches, by bisection
            probe = cell + (128 >> bit)
            cell = tl.where(score >= tl.load(thresholds + probe - 1), probe, cell)
        at = slot + t * slots
        tl.atomic_add(histogram + at * 256 + cell, one, mask=inside, sem="relaxed")
        exact = score.to(tl.float64)
        units = tl.floor(exact * SCORE_UNITS + 0.5).to(tl.int64)
        square_units = tl.floor(exact * exact * SCORE_UNITS + 0.5).to(tl.int64)
        if alone:
            tl.atomic_add(scores + owner + t * slots, tl.sum(units, axis=0), sem="relaxed")
            tl.atomic_add(squares + owner + t * slots, tl.sum(square_units, axis=0), sem="relaxed")
        else:
            tl.atomic_add(scores + at, units, mask=inside, sem="relaxed")
            tl.atomic_add(squares + at, square_units, mask=inside, sem="relaxed")


def launch_noisy_rows(
    out: Tensor, inputs: Tensor, slot: Tensor, index: Tensor, first: Tensor, noise: tuple[Knots, float, int, int]
) -> None:
    """Fill `out`, (rows, d), with noisy copies of `inputs`, (n, d): as many rows for each run (slot, index, first).

    Args:
        noise: the table of the deviation in steps, the step, the seed and the stream.
    """
    elements, draws = out.shape[1], len(out) // len(slot)
    normals, *address = noise
    pairs = -(-elements // 8)
    rows = max(1, LAUNCH // (pairs * 8) - 2 * NOISE_BLOCK)
    runs = max(1, rows // draws)
    for begin in range(0, len(slot), runs):
        own = slice(begin, begin + runs)
        whole = out[begin * draws : (begin + runs) * draws]
        for start in range(0, len(whole), rows):  # later starts are those of a single run, which is cut
            part, at = whole[start : start + rows], first[own] + start if start else first[own]
            noisy_rows[(triton.cdiv(len(part) * pairs, NOISE_BLOCK),)](
                part, inputs, slot[own], index[own], at, len(part), draws, normals.packed, *address,
                elements=elements, pairs=pairs, bits=normals.bits, block=NOISE_BLOCK, num_warps=2,
            )  # fmt: skip


def launch_tally_rows(
    counts: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    outputs: Tensor,
    slot: Tensor,
    selected: Tensor,
    thresholds: Tensor,
    *,
    logits: bool,
    temperatures: Tensor | None = None,
) -> None:
    """Count a batch: outputs (rows, k), as many rows for each run of slot (runs,); selected classes (inputs,).

    Args:
        counts: int64, added to. Votes (inputs, k) and invalid outputs (inputs,) are the first and the last; between
            them, for each temperature, histogram (t, inputs, 256), scores and squares (t, inputs) in units of 2^-40.
        thresholds: the 255 inner edges of the histogram, float32.
        temperatures: (t,) float32; one temperature, 1, by default.
    """
    rows, classes = outputs.shape
    width = triton.next_power_of_2(classes)
    block = max(1, min(128, 8192 // width))
    kinds = 1 if temperatures is None else len(temperatures)
    tally_rows[(triton.cdiv(rows, block),)](
        outputs.contiguous(), slot, selected, thresholds, thresholds if temperatures is None else temperatures,
        *counts, rows, rows // len(slot), len(counts[0]), classes=classes, width=width, kinds=kinds,
        tempered=temperatures is not None, logits=logits, block=block, num_warps=4,
    )  # fmt: skip
