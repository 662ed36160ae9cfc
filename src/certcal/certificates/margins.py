"""Certificates of softmax networks, from bounds of margins or logits, or from a Lipschitz constant.

Proofs: docs/certificates.md, "Certificates from elsewhere".
"""

import math
from typing import Any

import numpy as np

from certcal.certificates.intervals import SINGLE, UNSAID, ConfidenceIntervals, Stated
from certcal.errors import InputError
from certcal.inputs import as_class_numbers, as_numbers, as_probabilities, to_numpy
from certcal.scalars import check_choice
from certcal.settings import Domain, Norm, checks
from certcal.types import ArrayLike, BoolArray, FloatArray


def intervals_from_margins(
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    labels: ArrayLike,
    predicted: ArrayLike,
    confidence: ArrayLike | None = None,
    index: ArrayLike | None = None,
    radius: float = UNSAID,
    norm: str = Norm.DECLARED,
    alpha: float = 0.0,
    domain: str = Domain.EVERYWHERE,
    method: str = "margins",
) -> ConfidenceIntervals:
    """Certificates of a softmax network from bounds of the margins z_A − z_j of its predicted class A.

    The confidence p_A = 1 / (1 + Σ e^(−margin)) rises with every margin, so it lies between its values at the lower and
    at the upper ones; A stays where all lower margins are positive.

    Paper: —; docs/certificates.md.   Errs: outward, and towards not certified.

    Args:
        lower, upper: bounds of z_A − z_j at every point within R, shape (n, k); those of A itself hold 0.
        labels, predicted: true class and class A, shape (n,).
        confidence: p_A at the inputs themselves, shape (n,); a report needs it.
        index: positions of the inputs in their data set; 0, 1, … by default.
        radius, norm, domain: within what, measured how, and where inputs may be moved to, the bounds hold.
        alpha: with which probability those of an input may fail; 0 if they are proven.
        method: what to call them.

    >>> made = intervals_from_margins([[0.0, 1.0]], [[0.0, 3.0]], labels=[0], predicted=[0])
    >>> made.lower.round(4).tolist(), made.upper.round(4).tolist(), made.certified.tolist()
    ([0.7311], [0.9526], [True])
    """
    low, high = _as_bounds(lower, upper)
    n, k = low.shape
    own = as_class_numbers("predicted", predicted, inputs=n, classes=k)
    truth = as_class_numbers("labels", labels, inputs=n, classes=k)
    others = np.arange(k) != own[:, None]
    _check_order(low, high, others)
    _check_own(low, high, others)
    return Stated(method, radius, norm, alpha, domain).intervals(
        _softmax(np.where(others, low, np.inf), up=False),
        _softmax(np.where(others, high, np.inf), up=True),
        labels=truth,
        predicted=own,
        certified=np.asarray(((low > 0) | ~others).all(axis=1)),
        confidence=None if confidence is None else as_probabilities("confidence", confidence),
        index=index,
    )


def intervals_from_logits(
    lower: ArrayLike, upper: ArrayLike, *, labels: ArrayLike, predicted: ArrayLike, **stated: Any
) -> ConfidenceIntervals:
    """Certificates of a softmax network from bounds of its logits, shape (n, k).

    A margin z_A − z_j is at least the lower bound of z_A less the upper one of z_j. Bounds of the margins themselves
    are never wider and often much narrower: use `intervals_from_margins` if the verifier gives them.

    Paper: —; docs/certificates.md.   Errs: outward, and towards not certified.

    Args:
        lower, upper: bounds of every logit at every point within R, shape (n, k).
        labels, predicted: true class and class A, shape (n,).
        stated: as for `intervals_from_margins`.

    >>> made = intervals_from_logits([[2.0, 0.0]], [[3.0, 1.0]], labels=[0], predicted=[0])
    >>> made.lower.round(4).tolist(), made.upper.round(4).tolist()
    ([0.7311], [0.9526])
    """
    low, high = _as_bounds(lower, upper)
    _check_order(low, high, True)
    _check_logits("lower and upper", low, high)
    own = as_class_numbers("predicted", predicted, inputs=len(low), classes=low.shape[1])[:, None]
    with np.errstate(invalid="ignore"):  # ∞ − ∞, of a logit without bounds: nothing is known of the margin
        least = np.nextafter(np.take_along_axis(low, own, axis=1) - high, -np.inf)
        most = np.nextafter(np.take_along_axis(high, own, axis=1) - low, np.inf)
    least, most = np.nan_to_num(least, nan=-np.inf, neginf=-np.inf), np.nan_to_num(most, nan=np.inf, posinf=np.inf)
    named = {"method": "logits"} | stated
    return intervals_from_margins(least, most, labels=labels, predicted=predicted, **named)


def intervals_from_lipschitz(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    constant: float,
    radius: float,
    last_layer: str = "global",
    temperature: float = 1.0,
    rounding: ArrayLike | float = 0.0,
    index: ArrayLike | None = None,
) -> ConfidenceIntervals:
    """Certificates of a Lipschitz network from its logits alone, within an ℓ2 distance of `radius`.

    No margin moves by more than √2 · constant · radius if the logits as a vector have that Lipschitz constant
    (last_layer "global"), nor by more than 2 · constant · radius if each logit has it ("classwise").

    Paper: —; docs/certificates.md.   Errs: outward, and towards not certified.

    Args:
        logits: at the inputs themselves, shape (n, k), before the temperature.
        labels: true classes, shape (n,).
        constant: Lipschitz constant of the logits, for ℓ2 distances of inputs as the radius measures them.
        radius: R.
        last_layer: "global" if `constant` is that of the vector of logits, "classwise" if of each logit.
        temperature: the logits are divided by it before the softmax.
        rounding: by how much a margin of the network as it runs may be off, in all; one number, or one per input.
        index: positions of the inputs in their data set.

    >>> made = intervals_from_lipschitz([[3.0, 0.0]], [0], constant=1.0, radius=1.0)
    >>> made.lower.round(4).tolist(), made.certified_radius.round(4).tolist()
    ([0.83], [2.1213])
    """
    slope = checks.positive("constant", constant)
    scale = checks.positive("temperature", temperature)
    distance = checks.radius("radius", radius)
    factor = {"global": math.nextafter(math.sqrt(2.0), 2.0), "classwise": 2.0}[
        check_choice("last_layer", last_layer, ("global", "classwise"))
    ]
    table = _as_table("logits", logits)
    if not (np.abs(table) < 2.0**1000).all():  # so that their differences are finite as well
        raise InputError.expected("logits", "be finite, within ±1e300", table[~(np.abs(table) < 2.0**1000)][0])
    _check_logits("logits", table, table)
    n, k = table.shape
    off = as_numbers("rounding", rounding)
    if off.shape not in ((), (n,)) or not ((off >= 0) & np.isfinite(off)).all():
        raise InputError.expected("rounding", f"be a finite number ≥ 0, or one for each of {n} inputs", off)
    own, rows = table.argmax(axis=1), np.arange(n)
    margins = table[rows, own][:, None] - table
    largest = np.abs(table).max(axis=1, keepdims=True)
    error = 2.0**-52 * (largest + margins) + off.reshape(-1, 1) / 2  # of the difference and what follows
    shift = math.nextafter(distance * factor * slope * (1 + 2.0**-50), math.inf) if distance else 0.0
    steepest = math.nextafter(factor * slope, math.inf)
    with np.errstate(over="ignore"):  # to ∞, which says nothing
        low = np.nextafter((margins - (shift + 2 * error)) / scale, -np.inf)
        high = np.nextafter((margins + (shift + 2 * error)) / scale, np.inf)
        low[rows, own] = high[rows, own] = margins[rows, own] = np.inf
        least = ((margins - 2 * error).min(axis=1)) / steepest * (1 - 2.0**-50)
        at = 1.0 / (1.0 + np.exp(-margins / scale).sum(axis=1))
    reached = np.where(least > 0, least, np.nan)
    lower, upper = _softmax(low, up=False), _softmax(high, up=True)
    return Stated("lipschitz", distance, Norm.L2).intervals(
        lower,
        upper,
        labels=as_class_numbers("labels", labels, inputs=n, classes=k),
        predicted=own.astype(np.int64),
        certified=np.asarray(reached >= distance),
        confidence=np.clip(at, lower, upper),
        index=index,
        certified_radius=reached,
    )


def _as_table(name: str, value: ArrayLike) -> FloatArray:
    """Numbers of shape (n, k), in float64, none of them NaN; −∞ and ∞ say that nothing is known."""
    table = to_numpy(name, value).astype(np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise InputError.expected(name, "have shape (inputs, classes ≥ 2)", f"shape {table.shape}")
    if np.isnan(table).any():
        raise InputError.expected(name, "be numbers", f"NaN in row {int(np.argmax(np.isnan(table).any(axis=1)))}")
    return table


def _as_bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
    low, high = _as_table("lower", lower), _as_table("upper", upper)
    if low.shape != high.shape:
        raise InputError.expected("upper", f"have the shape of `lower`, {low.shape}", high.shape)
    return low, high


def _check_order(low: FloatArray, high: FloatArray, among: BoolArray | bool) -> None:
    for row, column in np.argwhere((low > high) & among)[:1]:
        got = f"{low[row, column]} > {high[row, column]} in row {row}, class {column}"
        raise InputError.expected("lower", "be at most `upper`", got)


def _check_own(low: FloatArray, high: FloatArray, others: BoolArray) -> None:
    """Refuse margins that cannot be those of the predicted class: its own is 0, and at the input none is negative."""
    for row, column in np.argwhere(~others & ((low > SINGLE) | (high < -SINGLE)))[:1]:
        got = f"[{low[row, column]:g}, {high[row, column]:g}] in row {row}"
        cause = "(are these margins of the label, or of all classes but one?)"
        raise InputError.expected(
            "lower and upper", f"hold 0 at the predicted class itself, {column}", f"{got} {cause}"
        )
    for row, column in np.argwhere(others & (high < -SINGLE))[:1]:
        got = f"{high[row, column]:g} in row {row}, class {column}, which then is ahead everywhere (is it z_j − z_A?)"
        raise InputError.expected("upper", "be ≥ 0, as the predicted class leads at the input itself", got)


def _check_logits(name: str, low: FloatArray, high: FloatArray) -> None:
    """Refuse the probabilities of a softmax, which are not logits: a softmax of them would be certified."""
    shares = (low >= 0).all() and (high <= 1).all() and len(low) > 1 and bool(((low > 0) & (low < 1)).any())
    if shares and (low.sum(axis=1) <= 1 + 1e-4).all() and (high.sum(axis=1) >= 1 - 1e-4).all():
        got = "numbers in [0, 1] that sum to 1 in every row: probabilities, whose logarithms are logits"
        raise InputError.expected(name, "be logits", got)


def _softmax(margins: FloatArray, *, up: bool) -> FloatArray:
    """1 / (1 + Σ e^(−margin)) over the other classes, rounded outward, shape (n,); the own margin is ∞.

    Each e^(−margin) is within two units of rounding, their sum of k terms within k more, and sum, quotient and
    product add four. The next float covers an e^(−margin) that underflows. A share below the normal floats, such as
    that of a sum that overflows, lies between 0 and the least of them.
    """
    k = margins.shape[1]
    with np.errstate(over="ignore"):
        share = 1.0 / (1.0 + np.exp(-margins).sum(axis=1))
    error, end, least = (k + 8) * 2.0**-53, float(up), np.finfo(np.float64).tiny
    moved = np.nextafter(share * (1 + error if up else 1 - error), end)
    return np.asarray(np.clip(np.where(share > least, moved, 2 * least if up else 0.0), 0.0, 1.0))
