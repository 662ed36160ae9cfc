"""What users pass in, turned into float64 and boolean vectors, or refused in one sentence.

Nothing is clipped, reordered or dropped here: a value is taken as it is or an `InputError` says why not.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from certcal.blocks import over_blocks
from certcal.errors import InputError, kind_of
from certcal.types import ArrayLike, BoolArray, FloatArray

if TYPE_CHECKING:
    import torch

Settings = TypeVar("Settings")


def to_numpy(name: str, value: ArrayLike) -> NDArray[Any]:
    """The numbers of a list, NumPy array or torch tensor (on any device, of any dtype) as a NumPy array."""
    source: Any = value
    torch = sys.modules.get("torch")  # a tensor can only arrive if its owner imported torch
    if torch is not None and isinstance(value, torch.Tensor):
        source = _from_tensor(name, value)
    if isinstance(source, np.ma.MaskedArray) and np.ma.is_masked(source):
        raise InputError.expected(name, "have no masked entries", f"{int(source.mask.sum())} of them")
    try:
        array = np.asarray(source)
    except (ValueError, TypeError) as error:
        raise InputError.expected(name, "be an array of numbers", f"a ragged {type(value).__name__}") from error
    except RuntimeError as error:  # a list of tensors that require gradients
        raise InputError.expected(name, "be an array of numbers", kind_of(value)) from error
    if array.dtype.kind not in "buif":
        kind = kind_of(value) if array.dtype == object else f"an array of dtype {array.dtype}"
        if array.dtype == object and array.size and isinstance(array.flat[0], str):
            kind = f"texts, the first {array.flat[0][:40]!r}"
        raise InputError.expected(name, "be an array of numbers", kind)
    if array.dtype.itemsize > 8:
        raise InputError.expected(name, "have at most 64-bit numbers", f"an array of dtype {array.dtype}")
    return array


# PyArrow's own ways to and from NumPy import pandas where it is installed, for a third of a second.
def from_arrow(array: Any) -> NDArray[Any]:
    """The values of a PyArrow array."""
    if not len(array) or array.null_count or str(array.type) not in _ARROW:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    stored = np.frombuffer(array.buffers()[1], dtype=_ARROW[str(array.type)])
    if str(array.type) == "bool":  # eight to a byte
        stored = np.unpackbits(stored, count=array.offset + len(array), bitorder="little").view(np.bool_)
    return stored[array.offset : array.offset + len(array)]


def to_arrow(values: NDArray[Any]) -> Any:
    """A PyArrow array of numbers, or of truth values."""
    import pyarrow as pa

    flags = values.dtype == np.bool_
    own = np.packbits(values, bitorder="little") if flags else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(own)])


_ARROW = {"bool": "u1", "uint8": "u1", "int32": "i4", "int64": "i8", "float": "f4", "double": "f8"}


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in order and writable, as torch needs them: views that run backwards are copied."""
    return np.require(array, requirements=["C", "W"])


def _from_tensor(name: str, tensor: "torch.Tensor") -> NDArray[Any]:
    kind = f"a {str(tensor.layout).removeprefix('torch.')} tensor of {tensor.dtype} on {tensor.device}"
    failures = (RuntimeError, TypeError, NotImplementedError)
    with InputError.expecting(name, "be a dense tensor with values", kind, on=failures):
        local = tensor.detach().cpu()
        # NumPy has no bfloat16, and float64 holds every half-precision value exactly.
        return (local.double() if local.is_floating_point() else local).numpy()


def as_vector(name: str, value: ArrayLike, *, allow_empty: bool = False) -> NDArray[Any]:
    """A non-empty one-dimensional array of numbers."""
    array = to_numpy(name, value)
    if array.ndim != 1:
        raise InputError.expected(name, "be one-dimensional", f"shape {array.shape}")
    if array.size == 0 and not allow_empty:
        raise InputError.expected(name, "hold at least one value", "an empty array")
    return array


def as_probabilities(name: str, value: ArrayLike, *, allow_empty: bool = False) -> FloatArray:
    """A float64 vector with every entry in [0, 1]."""
    vector = as_vector(name, value, allow_empty=allow_empty).astype(np.float64, copy=False)
    # A NaN makes both extremes NaN, so the two reductions catch it as well.
    if vector.size and not (vector.min() >= 0.0 and vector.max() <= 1.0):
        check_each(name, (vector >= 0.0) & (vector <= 1.0), "lie in [0, 1]", vector)
    return vector


def as_correctness(name: str, value: ArrayLike, *, allow_empty: bool = False) -> BoolArray:
    """A boolean vector from booleans or from the numbers 0 and 1."""
    vector = as_vector(name, value, allow_empty=allow_empty)
    if not are_binary(vector):
        check_each(name, (vector == 0) | (vector == 1), "be 0 or 1 (or False or True)", vector)
    return vector.astype(np.bool_, copy=False)


def are_binary(numbers: NDArray[Any]) -> bool:
    """Whether all numbers are 0 or 1."""
    if numbers.dtype.kind == "f":
        return bool(((numbers == 0) | (numbers == 1)).all())
    return bool(0 <= np.bitwise_or.reduce(numbers, initial=0) <= 1)  # negative ones have the highest bit


def as_bounds(lower: ArrayLike, upper: ArrayLike, *, allow_empty: bool = False) -> tuple[FloatArray, FloatArray]:
    """Matching lower and upper confidence bounds, 0 ≤ lower ≤ upper ≤ 1."""
    low = as_probabilities("lower", lower, allow_empty=allow_empty)
    high = as_probabilities("upper", upper, allow_empty=allow_empty)
    check_same_length("upper", high, "lower", low)
    check_each(
        "lower", low <= high, "be at most `upper`", lambda at: f"lower = {low[at]} > upper = {high[at]} at index {at}"
    )
    return low, high


def as_certified(
    lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, *, allow_empty: bool = False
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Matching bounds and correctness: `as_bounds` and `as_correctness` in one pass, each block while in the cache."""
    given = ("lower", lower), ("upper", upper), ("correct", correct)
    low, high, said = (as_vector(*one, allow_empty=allow_empty) for one in given)
    low, high = low.astype(np.float64, copy=False), high.astype(np.float64, copy=False)
    known = said if said.dtype == np.bool_ else np.empty(len(said), dtype=np.bool_)

    def sound(block: slice) -> bool:
        under, over, right = low[block], high[block], known[block]
        if said.dtype != np.bool_:
            ones, zeros = np.equal(said[block], 1, out=right), said[block] == 0
            if np.count_nonzero(ones) + np.count_nonzero(zeros) < len(ones):
                return False
        return bool(under.min() >= 0.0 and over.max() <= 1.0 and (under <= over).all())

    if not len(low) == len(high) == len(said) or not all(over_blocks(len(low), sound)):
        as_bounds(low, high, allow_empty=allow_empty)  # one of these says what is wrong
        check_same_length("correct", as_correctness("correct", said, allow_empty=allow_empty), "lower", low)
    return low, high, known


def as_numbers(name: str, value: ArrayLike | float) -> FloatArray:
    """A float64 array of any shape, from an array or a single number."""
    array = np.asarray(value) if isinstance(value, int | float | np.generic) else value
    return to_numpy(name, array).astype(np.float64)


def as_counts(name: str, value: ArrayLike | int) -> FloatArray:
    """Whole numbers ≥ 0 of any shape, as float64, in which the special functions take them."""
    counts = as_numbers(name, value)
    whole = (counts >= 0) & (counts == np.floor(counts)) & np.isfinite(counts)
    check_each(name, np.ravel(whole), "be whole numbers ≥ 0", lambda at: f"{counts.flat[at]}")
    return counts


def as_fractions(name: str, successes: ArrayLike | int, trials: ArrayLike | int) -> tuple[FloatArray, FloatArray]:
    """Counts and the trials they are out of, in one shape."""
    counts, total = broadcast(name, as_counts(name, successes), "trials", as_counts("trials", trials))
    within = np.ravel(counts <= total)
    check_each(name, within, "be at most `trials`", lambda at: f"{counts.flat[at]:g} of {total.flat[at]:g}")
    return counts, total


def broadcast(name: str, value: FloatArray, other: str, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two arrays in their common shape, by NumPy's rules."""
    requirement = f"have a shape that fits `{other}`, {reference.shape}"
    with InputError.expecting(name, requirement, str(value.shape), on=ValueError):
        first, second = np.broadcast_arrays(value, reference)
    return first, second


def as_class_probabilities(probs: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, NDArray[np.int64]]:
    """Probabilities of shape (n, k) that sum to 1 and the n labels in {0, …, k − 1}."""
    given = to_numpy("probs", probs)
    table = given.astype(np.float64, copy=False)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise InputError.expected("probs", "have shape (inputs, classes ≥ 2)", f"shape {table.shape}")
    within = ((table >= 0.0) & (table <= 1.0)).ravel()
    check_each("probs", within, "lie in [0, 1]", lambda at: f"{table.flat[at]} in row {at // table.shape[1]}")
    # Softmax outputs sum to 1 within about 1e-6 in single and 1e-2 in half precision; logits do not come near.
    half = "16" in str(getattr(probs, "dtype", given.dtype))
    near = np.abs(table.sum(axis=1) - 1.0) <= (2e-2 if half else 1e-4)
    check_each("probs", near, "sum to 1 in every row", lambda row: f"{table[row].sum()} in row {row}")
    check_same_length("labels", as_vector("labels", labels), "probs", table)
    return table, as_class_numbers("labels", labels, inputs=len(table), classes=table.shape[1])


def as_class_numbers(name: str, value: ArrayLike, *, inputs: int, classes: int | None = None) -> NDArray[np.int64]:
    """One whole number from 0 on, and below `classes` if that is known, for each of so many inputs."""
    vector = as_vector(name, value)
    if len(vector) != inputs:
        raise InputError.expected(name, f"have an entry for each of {inputs} inputs", len(vector))
    wanted = "be whole numbers ≥ 0" if classes is None else f"be whole numbers from 0 to {classes - 1:,}"
    if vector.dtype.kind == "b":
        raise InputError.expected(name, wanted, "booleans")
    limit, whole = 2**53 if classes is None else classes, vector.dtype.kind in "iu" or vector == np.floor(vector)
    if not (vector.min() >= 0 and vector.max() < limit and np.all(whole)):
        check_each(name, (vector >= 0) & (vector < limit) & whole, wanted, vector)
    return vector.astype(np.int64)


def check_each(name: str, holds: BoolArray, requirement: str, got: NDArray[Any] | Callable[[int], str]) -> None:
    """Refuse what is not as required, one by one; the first value that is not, or what `got` says of it, is told."""
    if not holds.all():
        at = int(np.argmin(holds))
        raise InputError.expected(name, requirement, got(at) if callable(got) else f"{got[at]} at index {at}")


def check_same_length(name: str, value: NDArray[Any], other: str, reference: NDArray[Any]) -> None:
    """Refuse two arguments that do not describe the same inputs."""
    if len(value) != len(reference):
        raise InputError.expected(name, f"have as many entries as `{other}` ({len(reference)})", len(value))


def check_device(name: str, value: object) -> "torch.device":
    """A torch device that exists on this machine."""
    import torch

    needs = "name a device of this machine, such as 'cpu' or 'cuda'"
    if isinstance(value, str) and value.startswith("cuda"):
        needs = "be a GPU that torch finds (there is no such GPU here: give 'cpu')"
    with InputError.expecting(name, needs, repr(value), on=(RuntimeError, AssertionError, TypeError)):
        device = torch.device(cast("str", value))
        torch.empty(0, device=device)
    return device


def make_settings(kind: type[Settings], values: dict[str, Any]) -> Settings:
    """Settings of a kind from what the user named; other names are refused."""
    known = tuple(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    for name in values:
        if name not in known:
            raise InputError.expected("settings", f"name one of {', '.join(known)}", repr(name))
    return kind(**values)
