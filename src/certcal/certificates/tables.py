"""Certificates as tables, one row per input and radius: written as Parquet, read from Parquet, CSV or a data frame."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certcal.certificates.columns import COLUMNS, KEY, Columns, read_columns
from certcal.certificates.intervals import UNSAID, ConfidenceIntervals, Stated
from certcal.certificates.radius import NO_CLASS
from certcal.errors import InputError
from certcal.inputs import (
    as_bounds,
    as_class_numbers,
    as_correctness,
    as_probabilities,
    as_vector,
    check_each,
    check_same_length,
    to_arrow,
)
from certcal.scalars import exactly, one_or_more
from certcal.settings import MAX_CLASSES, Domain, Norm, checks
from certcal.smoothing import Counts
from certcal.types import BoolArray, FloatArray

if TYPE_CHECKING:
    import pyarrow as pa


def intervals_from_table(
    table: Any,
    *,
    radius: float | None = None,
    norm: str | None = None,
    alpha: float | None = None,
    domain: str | None = None,
    method: str | None = None,
) -> ConfidenceIntervals:
    """Certificates from a table with the columns of `certificates.parquet`, at one radius.

    Needed are label, predicted, lower, upper, and certified or certified_radius. A report also needs confidence, unless
    rows at radius 0 with an index say it: there both bounds are the confidence. The columns index, radius and correct
    may be there and must fit. Tables that certcal wrote state alpha, norm, domain and
    method themselves. Of others, what is not given stays unsaid, and `evaluate` asks for it.

    Paper: —; docs/certificates.md.   Errs: as the table does.

    Args:
        table: a .parquet or .csv file, a pandas, polars or PyArrow table, or a mapping of names to arrays.
        radius: which one, if the table has several; the radius of all rows, if it has no such column.
        norm: in which the radius is measured.
        alpha: error probability of all certificates of an input; 0 if they are proven.
        domain: where inputs may be moved to.
        method: what to call the certificates.

    Raises: InputError naming the column if one is missing, or holds what cannot be.

    >>> table = {"label": [1, 0], "predicted": [1, 1], "lower": [0.7, 0.4], "upper": [0.9, 0.8], "certified": [1, 0]}
    >>> made = intervals_from_table(table, radius=0.1, norm="linf", alpha=0)
    >>> made.correct.tolist(), made.certified_radius.tolist()
    ([True, False], [0.1, nan])
    """
    (found,) = _made(table, radius, {"norm": norm, "alpha": alpha, "domain": domain, "method": method}, one=True)
    return found


def intervals_by_radius(
    table: Any,
    *,
    radii: Iterable[float] | float | None = None,
    norm: str | None = None,
    alpha: float | None = None,
    domain: str | None = None,
    method: str | None = None,
) -> tuple[ConfidenceIntervals, ...]:
    """The certificates that a table has at each of its radii, or at those asked for, rising.

    Paper: —; docs/certificates.md.   Errs: as the table does.
    """
    return _made(table, radii, {"norm": norm, "alpha": alpha, "domain": domain, "method": method}, one=False)


def _made(table: Any, radii: Any, given: Columns, *, one: bool) -> tuple[ConfidenceIntervals, ...]:
    columns, own = read_columns(table)
    stated: dict[str, Any] = {
        "norm": Norm.DECLARED,
        "alpha": UNSAID,
        "domain": Domain.EVERYWHERE,
        "method": "table",
    } | own
    known: dict[str, Any] = {name: stated.pop(name) for name in ("delta_share", "least", "indexed") if name in stated}
    for name in ("norm", "alpha", "domain"):
        said, asked_for = own.get(name, Norm.DECLARED), given[name]
        if said not in (Norm.DECLARED, asked_for) and asked_for is not None:
            raise InputError.expected(name, f"be left out, or be {said}, which the table states", asked_for)
    stated |= {name: value for name, value in given.items() if value is not None}
    asked = None if radii is None else sorted({checks.radius("radius", each) for each in one_or_more("radius", radii)})
    if "confidence" not in columns and "radius" in columns:
        columns = columns | _met(columns)
    parts = _parts(columns, asked)
    if one and len(parts) > 1:
        named = ", ".join(exactly(radius) for radius, _ in parts[:4]) + (", …" if len(parts) > 4 else "")
        raise InputError.expected("radius", f"say which of the table's {len(parts)} radii is meant", f"none of {named}")
    found = tuple(_intervals(part, Stated(radius=radius, **stated), known) for radius, part in parts)
    for later in found[1:]:
        if not np.array_equal(later.index, found[0].index):
            got = f"others at R = {later.radius:g} than at R = {found[0].radius:g}"
            raise InputError.expected("index", "name the same inputs at every radius, in one order", got)
    return found


def table_of(bounds: Sequence[ConfidenceIntervals]) -> "pa.Table":
    """Certificates of the same inputs at several radii as one table, which says where they come from."""
    import pyarrow as pa

    first = bounds[0]
    names = [name for name in COLUMNS if name != "other" or all(own.other is not None for own in bounds)]
    parts = {name: [getattr(own, name) for own in bounds] for name in names if name != "radius"}
    columns = {name: own[0] if len(own) == 1 else np.concatenate(own) for name, own in parts.items()}
    columns["radius"] = np.repeat([own.radius for own in bounds], len(first))
    stated = {name: getattr(first, name) for name in ("method", "norm", "domain", "delta_share", "least")}
    stated |= {} if first.indexed else {"indexed": False}
    about = json.dumps({"alpha": first.level} | stated)
    return pa.table({name: to_arrow(columns[name]) for name in names}).replace_schema_metadata({KEY: about})


def _met(columns: Columns) -> Columns:
    """The confidences of a table without such a column, where bounds at R = 0 meet for every input; else nothing."""
    radius, lower, upper = (np.asarray(as_vector(name, columns[name]), float) for name in ("radius", "lower", "upper"))
    if "index" not in columns or len({len(radius), len(lower), len(upper)}) > 1:
        return {}
    index, at = np.asarray(columns["index"]), (radius == 0) & (lower == upper)
    known = dict(zip(index[at].tolist(), lower[at].tolist(), strict=True))
    if not set(index.tolist()) <= known.keys():
        return {}
    return {"confidence": np.array([known[own] for own in index.tolist()])}


def _parts(columns: Columns, asked: list[float] | None) -> list[tuple[float, Columns]]:
    """The rows of each radius."""
    if "radius" not in columns:
        if asked is not None and len(asked) > 1:
            raise InputError.expected("radius", "be one number for a table without a column 'radius'", len(asked))
        return [(asked[0] if asked else UNSAID, columns)]
    own = as_vector("radius", columns["radius"])
    if np.isnan(own).any():
        raise InputError.expected("radius", "be a number in every row", f"NaN in row {int(np.argmax(np.isnan(own)))}")
    there = np.unique(own) if (own != own[0]).any() else own[:1]
    # A column in single precision is read to that precision: 0.1 in it is 0.1.
    narrow = own.dtype.kind == "f" and own.dtype.itemsize < 8
    stored = {radius: own.dtype.type(radius) if narrow else radius for radius in asked or ()}
    for radius, as_there in stored.items():
        if as_there not in there:
            named = ", ".join(exactly(float(str(one))) for one in there[:9]) + (", …" if len(there) > 9 else "")
            raise InputError.expected("radius", f"be one that the table has ({named})", exactly(radius))
    if not stored:
        stored = {float(str(one)): one for one in there}
    if len(there) == 1:
        return [(radius, columns) for radius in stored]
    if asked is not None:
        _check_whole(own, columns.get("index"))
    return [
        (radius, {name: np.asarray(column)[own == as_there] for name, column in columns.items()})
        for radius, as_there in stored.items()
    ]


def _check_whole(own: FloatArray, index: Any) -> None:
    """Refuse rows of several radii of which those that are not asked for are of other inputs.

    A verifier that stops where it fails leaves the failed inputs out of larger radii; a report of the others would look
    better than the model is.
    """
    radii, counts = np.unique(own, return_counts=True)
    if counts.min() < counts.max():
        got = " and ".join(f"{counts[at]} at R = {radii[at]:g}" for at in (counts.argmin(), counts.argmax()))
        raise InputError.expected("radius", "have a row of every input at each radius", got)
    if index is not None and len(np.unique(np.asarray(index))) != counts[0]:
        raise InputError.expected("index", "name the same inputs at every radius", "others at some")


def _intervals(columns: Columns, stated: Stated, known: dict[str, Any]) -> ConfidenceIntervals:
    """The certificates of one radius."""
    lower, upper = as_bounds(columns["lower"], columns["upper"])
    n = len(lower)
    labels, predicted = as_class_numbers("label", columns["label"], inputs=n), _predicted(columns["predicted"], n)
    for name, classes in (("label", labels), ("predicted", predicted)):
        check_each(name, classes < MAX_CLASSES, f"be classes from 0 to {MAX_CLASSES - 1:,}", classes)
    if "correct" in columns:
        _check_same("correct", as_correctness("correct", columns["correct"]), predicted == labels, "label = predicted")
    certified, reached = _certified(columns, stated.radius, n)
    check_each("predicted", ~certified | (predicted != NO_CLASS), "be a class where one is certified", predicted)
    return stated.intervals(
        lower,
        upper,
        labels=labels,
        predicted=predicted,
        certified=certified,
        certified_radius=reached,
        confidence=as_probabilities("confidence", columns["confidence"]) if "confidence" in columns else None,
        index=columns.get("index"),
        sums_to_1=False,
        other=as_probabilities("other", columns["other"]) if "other" in columns else None,
        **known,
    )


def _predicted(values: Any, inputs: int) -> Counts:
    """Predicted classes, or `NO_CLASS` where a log abstained."""
    given = np.asarray(values)
    none = given == NO_CLASS if given.dtype.kind in "if" else np.zeros(given.shape, dtype=np.bool_)
    if not none.any():
        return as_class_numbers("predicted", given, inputs=inputs)
    return np.where(none, NO_CLASS, as_class_numbers("predicted", np.where(none, 0, given), inputs=inputs))


def _certified(columns: Columns, radius: float, inputs: int) -> tuple[BoolArray, FloatArray | None]:
    """Which classes stay within the radius, and within which distance each does, if the table says."""
    flags = as_correctness("certified", columns["certified"]) if "certified" in columns else None
    if "certified_radius" not in columns:
        assert flags is not None
        return flags, None
    given = as_vector("certified_radius", columns["certified_radius"])
    reached = given.astype(np.float64)
    if np.isnan(radius):
        raise InputError.expected("radius", "be given with a column 'certified_radius'", "none")
    check_each("certified_radius", ~(reached < 0), "be ≥ 0, or NaN where nothing is certified", reached)
    check_same_length("certified_radius", reached, "lower", np.empty(inputs))
    # Both in single precision are compared in it.
    single = given.dtype == np.float32 == getattr(columns.get("radius"), "dtype", None)
    certified = np.asarray(given >= np.float32(radius) if single else reached >= radius)
    if flags is not None:
        _check_same("certified", flags, certified, f"certified_radius ≥ {radius:g}")
    return certified, np.where(certified, np.maximum(reached, radius), reached) if single else reached


def _check_same(name: str, said: NDArray[np.bool_], known: NDArray[np.bool_], rule: str) -> None:
    check_same_length(name, said, "label", known)
    check_each(name, said == known, f"say whether {rule}", said)
