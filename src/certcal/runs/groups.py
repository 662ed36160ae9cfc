"""Groups of a run's inputs by name: those that certificates bring along, a column of the data file, or a table."""

import csv
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals, table_of
from certcal.errors import InputError
from certcal.types import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

_OWN = ("predicted", "label")
MANY = 20  # different numbers from which on a column is cut into ranges


def group_columns(
    names: Sequence[str], *, index: IntArray, data: str | None, beside: Path | None = None
) -> dict[str, Any] | None:
    """Groupings as `evaluate` takes them; None if no names are given.

    `index` are the positions of the inputs in the data, `data` is the file that they come from, `beside` one with the
    columns that came with bounds from elsewhere.
    """
    kept = {} if beside is None or not beside.is_file() else _from_table(beside, index)
    columns: dict[str, Any] = {}
    for name in names:
        if name in _OWN:
            columns[name] = name
        elif name in kept:
            columns[name] = kept[name]
        elif name.endswith((".csv", ".parquet")):
            columns |= _from_table(Path(name), index)
        else:
            columns[name] = _at(name, _from_data(name, data, tuple(kept)), index)
    return {name: own if isinstance(own, str) else _in_ranges(own) for name, own in columns.items()} or None


_PLAIN = ("int64", "int32", "double", "float")  # columns that are arrays already


def columns_beside(path: Path, bounds: Sequence[ConfidenceIntervals]) -> "pa.Table | None":
    """What a table of bounds says of its inputs beside the bounds, by their positions; None if nothing."""
    import pyarrow as pa

    known = {*table_of([bounds[0].select(np.array([0]))]).column_names} - {"index", "radius"}
    read = _read_columns(path, but=known)
    if not {*read} - {"index", "radius"}:
        return None
    if "radius" in read:  # the same is said again at every radius
        first = read["radius"] == read["radius"][0]
        read = {name: own[first] for name, own in read.items()}
    others = {name: own.tolist() for name, own in read.items() if name not in ("index", "radius")}
    return pa.table({"index": read["index"].astype(np.int64) if "index" in read else bounds[0].index} | others)


def absolute_tables(names: Sequence[str]) -> tuple[str, ...]:
    """The same groupings, with tables by paths that mean the same from every folder."""
    return tuple(
        os.path.abspath(name) if name.endswith((".csv", ".parquet")) and Path(name).is_file() else name
        for name in names
    )


def _in_ranges(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers of which there are many, as ages, in four ranges with about as many inputs each; others as they are."""
    if values.dtype.kind not in "iuf" or len(np.unique(values)) <= MANY or np.isnan(values).any():
        return values
    cuts = np.unique(np.quantile(values, [0.25, 0.5, 0.75], method="higher"))
    place = np.searchsorted(cuts, values, side="right")
    names = [f"{n + 1}: {values[place == n].min():g} to {values[place == n].max():g}" for n in range(place.max() + 1)]
    return np.array(names)[place]


def _from_data(name: str, data: str | None, held: tuple[str, ...]) -> Any:
    """A column of the .npz file that the inputs come from; `held` are those of other places."""
    if data is not None and data.endswith(".npz") and Path(data).is_file():
        with np.load(data, allow_pickle=False) as file:
            if name in file:
                return file[name]
            held = tuple(file)
    also = f", which has {', '.join(held)}" if held else ""
    wanted = f"name 'predicted', 'label', a .csv or .parquet table, or a column of the .npz data file{also}"
    raise InputError.expected("groups", wanted, repr(name))


def _from_table(path: Path, index: IntArray) -> dict[str, Any]:
    """The columns of a table with a row per input of the data, in order or with their positions in `index`."""
    columns = _read_columns(path)
    rows_of = columns.pop("index", None)
    if not columns:
        raise InputError.expected("groups", "name a table with a column of groups", str(path))
    if rows_of is not None:
        place = {int(own): row for row, own in enumerate(rows_of)}
        missing = [int(own) for own in index if int(own) not in place]
        if missing:
            wanted = f"name a table with every input in its column `index`, as {path.name} has not"
            raise InputError.expected("groups", wanted, f"none for {missing[0]}")
        index = np.array([place[int(own)] for own in index])
    return {name: _at(f"{path.name}: {name}", values, index) for name, values in columns.items()}


def _read_columns(path: Path, but: Collection[str] = ()) -> dict[str, Any]:
    """The columns of a table, but for some; those of a .csv file that hold numbers only are numbers."""
    if not path.is_file():
        raise InputError.expected("groups", "name a table that exists", str(path))
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            table = file.read([name for name in file.schema_arrow.names if name not in but])
        return {
            key: column.to_numpy()
            if str(column.type) in _PLAIN and not column.null_count
            else np.array(column.to_pylist())
            for key, column in zip(table.column_names, table.columns, strict=True)
        }
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    named = [key for key in (rows[0] if rows else {}) if key not in but]
    return {key: _numbers_if_any(np.array([row[key] for row in rows])) for key in named}


def _numbers_if_any(values: NDArray[Any]) -> NDArray[Any]:
    for kind in (np.int64, np.float64):
        with suppress(ValueError):
            return values.astype(kind)
    return values


def _at(name: str, values: Any, index: IntArray) -> Any:
    """The entries of the inputs that there are certificates of."""
    if np.ndim(values) != 1 or len(values) <= index.max():
        got = f"{len(values)} in {name!r}" if np.ndim(values) == 1 else f"shape {np.shape(values)} in {name!r}"
        raise InputError.expected("groups", f"have a row for each input of the data, at least {index.max() + 1}", got)
    return values[index]
