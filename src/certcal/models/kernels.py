"""Triton kernels for a GPU: the noisy copies of a whole batch in one pass, and their statistics in another.

Noise: words of Philox4x64-10, the same as NumPy's, turned into normals by Box and Muller, as `philox.py` says.
Statistics: integers only, so that sums come out the same however the draws are cut into batches.
"""

import triton
import triton.language as tl
from torch import Tensor

NOISE_BLOCK = 128  # threads of a program, sixteen elements each
LAUNCH = 2**31  # half the elements of a launch are fewer: its threads count them in 32 bits

ROUNDS = tl.constexpr(10)
MULTIPLY_0, MULTIPLY_1 = tl.constexpr(0xD2E7470EE14C6C93), tl.constexpr(0xCA5A826395121157)
WEYL_0, WEYL_1 = tl.constexpr(0x9E3779B97F4A7C15), tl.constexpr(0xBB67AE8584CAA73B)
SCORE_UNITS = tl.constexpr(2.0**40)
MAGIC = tl.constexpr(12582912.0)  # 1.5 · 2^23: adding it to |v| < 2^22 and taking it off again rounds v, ties to even


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
def _log(u):
    """The natural logarithm of 2^-32 ≤ u ≤ 1, to about one unit in the last place."""
    bits = u.to(tl.int32, bitcast=True)
    whole = (bits - 0x3F2AAAAB) & -0x800000  # u = 2^e · (1 + m) with 1 + m in [2/3, 4/3); this is e · 2^23
    m = (bits - whole).to(tl.float32, bitcast=True) - 1.0
    p = tl.fma(m, 0.14215897, -0.1511656)
    p = tl.fma(p, m, 0.13960826)
    p = tl.fma(p, m, -0.16473305)
    p = tl.fma(p, m, 0.20012869)
    p = tl.fma(p, m, -0.25004196)
    p = tl.fma(p, m, 0.33333185)
    p = tl.fma(p, m, -0.5)
    return tl.fma(whole.to(tl.float32), 8.262958294867817e-08, tl.fma(p * m, m, m))  # the factor is ln 2 / 2^23


@triton.jit
def _cos_sin(turns):
    """Cosine and sine of 2π · turns / 2^32 for a signed 32-bit integer: exact reduction, then polynomials."""
    quarter = (turns + 0x20000000) >> 30  # the nearest quarter turn, from -2 to 1 (2 wraps to -2)
    rest = (turns - (quarter << 30)).to(tl.float32) * 1.46291807927e-09  # π / 2^31: within [-π/4, π/4]
    square = rest * rest
    s = tl.fma(square, -0.00019517266, 0.008332178)
    s = tl.fma(s, square, -0.16666655)
    s = tl.fma(s * square, rest, rest)
    c = tl.fma(square, 2.4438414e-05, -0.0013887368)
    c = tl.fma(c, square, 0.041666646)
    c = tl.fma(c * square, square, tl.fma(square, -0.5, 1.0))
    swap = (quarter & 1) != 0
    cosine, sine = tl.where(swap, s, c), tl.where(swap, c, s)
    cosine = tl.where(((quarter + 1) & 2) != 0, -cosine, cosine)
    return cosine, tl.where((quarter & 2) != 0, -sine, sine)


@triton.jit
def _box_muller(word_1, word_2, spread):
    """Two independent normals rounded to whole numbers, from two 32-bit words; `spread` is -2 times their variance."""
    u = tl.fma((word_1 & 0x7FFFFFFF).to(tl.float32), 4.656612873077393e-10, 2.3283064365386963e-10)  # 2^-31, 2^-32
    radius = tl.sqrt(_log(u) * spread)
    cosine, sine = _cos_sin(word_2)
    return tl.fma(radius, cosine, MAGIC) - MAGIC, tl.fma(radius, sine, MAGIC) - MAGIC


@triton.jit
def _two_pairs(word_1, word_2, spread):
    """The cosine and sine normals of the low and of the high 32 bits of two 64-bit words."""
    cosine_0, sine_0 = _box_muller(word_1.to(tl.int32), word_2.to(tl.int32), spread)
    cosine_1, sine_1 = _box_muller((word_1 >> 32).to(tl.int32), (word_2 >> 32).to(tl.int32), spread)
    return cosine_0, cosine_1, sine_0, sine_1


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
    out, inputs, run_slot, run_index, run_first, rows, draws, spread, step, seed: tl.uint64, stream: tl.uint64,
    elements: tl.constexpr, pairs: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Set row run · draws + j of `out` to inputs[slot] + step · (whole normals of draw first + j of input index).

    A thread takes a pair of Philox blocks of one row, p and pairs + p, which gives elements 8p to 8p + 7 (cosines)
    and as many from 8·pairs + 8p on (sines).
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
    c0, c1, s0, s1 = _two_pairs(a0, b0, spread)
    c2, c3, s2, s3 = _two_pairs(a1, b1, spread)
    c4, c5, s4, s5 = _two_pairs(a2, b2, spread)
    c6, c7, s6, s7 = _two_pairs(a3, b3, spread)
    own = tl.program_id(0) * (block * 8) + tl.arange(0, block * 8)
    row, element = own // (pairs * 8), own % (pairs * 8)
    source = inputs + tl.load(run_slot + row // draws, mask=row < rows, other=0).to(tl.int64) * elements
    target = out + row.to(tl.int64) * elements
    cosines, sines = _eight(c0, c1, c2, c3, c4, c5, c6, c7), _eight(s0, s1, s2, s3, s4, s5, s6, s7)
    inside = (row < rows) & (element < elements)
    value = tl.fma(cosines, step, tl.load(source + element, mask=inside, other=0.0))
    tl.store(target + element, value.to(out.dtype.element_ty), mask=inside)
    element += pairs * 8
    inside = (row < rows) & (element < elements)
    value = tl.fma(sines, step, tl.load(source + element, mask=inside, other=0.0))
    tl.store(target + element, value.to(out.dtype.element_ty), mask=inside)


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
    out: Tensor, inputs: Tensor, slot: Tensor, index: Tensor, first: Tensor, noise: tuple[float, float, int, int]
) -> None:
    """Fill `out`, (rows, d), with noisy copies of `inputs`, (n, d): as many rows for each run (slot, index, first).

    Args:
        noise: -2 times the variance in steps, the step, the seed and the stream.
    """
    elements, draws = out.shape[1], len(out) // len(slot)
    pairs = -(-elements // 16)
    rows = max(1, LAUNCH // (pairs * 8) - 2 * NOISE_BLOCK)
    runs = max(1, rows // draws)
    for begin in range(0, len(slot), runs):
        own = slice(begin, begin + runs)
        whole = out[begin * draws : (begin + runs) * draws]
        for start in range(0, len(whole), rows):  # later starts are those of a single run, which is cut
            part, at = whole[start : start + rows], first[own] + start if start else first[own]
            noisy_rows[(triton.cdiv(len(part) * pairs, NOISE_BLOCK),)](
                part, inputs, slot[own], index[own], at, len(part), draws, *noise,
                elements=elements, pairs=pairs, block=NOISE_BLOCK, num_warps=4, enable_fp_fusion=False,
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
