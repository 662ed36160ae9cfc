"""Groups of a run's inputs by name: those that certificates bring along, a column of the data file, or a table."""

import csv
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from certcal.certificates import ConfidenceIntervals, table_of
from certcal.errors import InputError
from certcal.inputs import from_arrow
from certcal.types import IntArray

_OWN = ("predicted", "label")
MANY = 20  # different numbers from which on a column is cut into ranges
MISSING = "missing"  # the group of inputs without a value


def group_columns(
    names: Sequence[str],
    *,
    index: IntArray,
    data: str | None,
    whole: int | None = None,
    beside: Path | None = None,
) -> dict[str, Any] | None:
    """Groupings as `evaluate` takes them; None if no names are given.

    `index` are the positions of the inputs in the data, `data` is the file that they come from, `whole` how many inputs
    it has, `beside` a table with the columns that came with bounds from elsewhere.
    """
    if whole is None and np.array_equal(index, np.arange(len(index))):
        whole = len(index)
    kept = {} if beside is None or not beside.is_file() else _from_table(beside, index)
    found: list[tuple[str, str, Any]] = []  # the table, the column and what it holds
    for name in dict.fromkeys(names):
        table, column = _table_and_column(name)
        if name in _OWN:
            found.append(("", name, name))
        elif name in kept:
            found.append(("", name, _as_groups(kept[name])))
        elif table:
            own = _from_table(Path(table), index, column, whole)
            found += [(Path(table).name, key, _as_groups(values)) for key, values in own.items()]
        else:
            found.append(("", name, _as_groups(_at(name, _from_data(name, data, tuple(kept)), index, whole))))
    return _named(found) or None


def _named(found: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    """Groupings by their columns, and by table and column where two columns have one name."""
    often, columns = Counter(column for _, column, _ in found), dict[str, Any]()
    for table, column, values in found:
        name = f"{table}: {column}" if table and often[column] > 1 else column
        if name in columns:
            raise InputError.expected("groups", "name each column once", f"{name!r} from two places")
        columns[name] = values
    return columns


_TABLE = re.compile(r"(.+\.(?:csv|parquet))(?::(.+))?", re.DOTALL)


def _table_and_column(name: str) -> tuple[str, str | None]:
    """The table that a grouping is from, empty if from none, and the one column that is meant, if any."""
    found = _TABLE.fullmatch(name)
    return (found[1], found[2]) if found else ("", None)


_PLAIN = ("int64", "int32", "double", "float")  # columns that are arrays already
_PLACE = {"index", "radius"}  # columns that say which input a row is of, and where
_STATED = ("norm", "alpha")  # columns that say something of all bounds of a table


def columns_beside(path: Path, bounds: Sequence[ConfidenceIntervals]) -> pa.Table | None:
    """What a table of bounds says of its inputs beside the bounds, by their positions; None if nothing."""
    known = {*table_of([bounds[0].select(np.array([0]))]).column_names, *_STATED} - _PLACE
    read = _read_columns(path, but=known)
    if not {*read} - _PLACE:
        return None
    if "radius" in read:  # the same is said again at every radius
        first = read["radius"] == read["radius"][0]
        read = {name: own[first] for name, own in read.items()}
    others = {name: own.tolist() for name, own in read.items() if name not in _PLACE}
    return pa.table({"index": read["index"].astype(np.int64) if "index" in read else bounds[0].index} | others)


def absolute_tables(names: Sequence[str]) -> tuple[str, ...]:
    """The same groupings, with tables by paths that mean the same from every folder."""
    tables = [_table_and_column(name)[0] for name in names]
    return tuple(
        os.path.abspath(table) + name[len(table) :] if table and Path(table).is_file() else name
        for name, table in zip(names, tables, strict=True)
    )


def _as_groups(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers of which there are many, as ages, in four ranges with about as many inputs each; others as they are.

    Inputs without a value are a group of their own.
    """
    known = np.array([one is not None and one == one and str(one).strip() != "" for one in values.tolist()], bool)
    if known.all():
        return _in_ranges(values)
    if not known.any():
        return np.full(len(values), MISSING)
    found = np.full(len(values), MISSING, dtype=object)
    found[known] = [str(one) for one in _in_ranges(np.array(values[known].tolist()))]
    return found.astype(str)


def _in_ranges(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "iuf" or len(np.unique(values)) <= MANY:
        return _whole(values)
    cuts = np.unique(np.quantile(values, [0.25, 0.5, 0.75], method="higher"))
    held, place = np.unique(np.searchsorted(cuts, values, side="right"), return_inverse=True)
    parts = [values[place == n] for n in range(len(held))]
    return np.array([f"{n + 1}: {own.min():g} to {own.max():g}" for n, own in enumerate(parts)])[place]


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers without a point: a column with an empty cell is one of floats."""
    whole = values.dtype.kind == "f" and bool(np.all(values == np.round(values))) and bool(np.all(abs(values) < 2**53))
    return values.astype(np.int64) if whole else values


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


def _from_table(path: Path, index: IntArray, only: str | None = None, whole: int | None = None) -> dict[str, Any]:
    """The columns of a table with a row per input of the data, in order or with their positions in `index`."""
    columns = _read_columns(path)
    rows_of = columns.pop("index", None)
    if not columns:
        raise InputError.expected("groups", "name a table with a column of groups", str(path))
    if only is not None and only not in columns:
        raise InputError.expected("groups", f"name a column of {path.name} ({', '.join(columns)})", repr(only))
    if rows_of is not None:
        index, whole = _rows(path, rows_of, index), len(rows_of)
    wanted = columns if only is None else {only: columns[only]}
    return {name: _at(f"{path.name}: {name}", values, index, whole) for name, values in wanted.items()}


def _rows(path: Path, rows_of: NDArray[Any], index: IntArray) -> IntArray:
    """In which row of a table each input stands, by its column `index`."""
    if rows_of.dtype.kind not in "iu":
        wanted = f"name a table with a whole number in every cell of `index`, as {path.name} has not"
        raise InputError.expected("groups", wanted, "empty cells, texts or fractions")
    order = np.argsort(rows_of, kind="stable")
    held = rows_of[order]
    if (again := held[1:][held[1:] == held[:-1]]).size:
        wanted = f"name a table with every input once in its column `index`, as {path.name} has not"
        raise InputError.expected("groups", wanted, f"{again[0]} twice")
    place = np.minimum(np.searchsorted(held, index), len(held) - 1)
    if (missing := index[held[place] != index]).size:
        wanted = f"name a table with every input in its column `index`, as {path.name} has not"
        raise InputError.expected("groups", wanted, f"none for {missing[0]}")
    return order[place]


def _read_columns(path: Path, but: Collection[str] = ()) -> dict[str, Any]:
    """The columns of a table, but for some; those of a .csv file that hold numbers only are numbers."""
    if not path.is_file():
        wanted = 'name a table that exists (--groups "" leaves groups out)'
        raise InputError.expected("groups", wanted, str(path))
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            table = file.read([name for name in file.schema_arrow.names if name not in but])
        return {
            key: from_arrow(column.combine_chunks())
            if str(column.type) in _PLAIN and not column.null_count
            else np.array(column.to_pylist())
            for key, column in zip(table.column_names, table.columns, strict=True)
        }
    rows = _read_csv(path)
    named = [key for key in (rows[0] if rows else {}) if key not in but]
    return {key: _numbers_if_any(np.array([row[key] for row in rows])) for key in named}


def _read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a .csv file, with commas, semicolons or tabs between cells, as its head has them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            head = file.readline()
            file.seek(0)
            rows = list(csv.DictReader(file, delimiter=next((one for one in ",;\t" if one in head), ",")))
    except UnicodeDecodeError as error:
        raise InputError.expected("groups", "name a table in UTF-8", str(path)) from error
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            wanted = f"name a table with as many cells in each row as in its head, as {path.name} has not"
            raise InputError.expected("groups", wanted, f"{'more' if None in row else 'fewer'} in row {number}")
    return rows


def _numbers_if_any(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers, not a number where a cell is empty, if every other cell holds one; else the texts."""
    empty = np.char.strip(values) == ""
    for kind, given in ((np.int64, values), (np.float64, np.where(empty, "nan", values))):
        with suppress(ValueError, OverflowError):
            return given.astype(kind) if not empty.all() else values
    return values


def _at(name: str, values: Any, index: IntArray, whole: int | None) -> Any:
    """The entries of the inputs that there are certificates of; `whole` is how many the data has, if that is known."""
    fits = np.ndim(values) == 1 and (len(values) > index.max() if whole is None else len(values) == whole)
    if not fits:
        got = f"{len(values)} in {name!r}" if np.ndim(values) == 1 else f"shape {np.shape(values)} in {name!r}"
        each = f"each of the {whole} inputs" if whole is not None else f"each input, at least {index.max() + 1},"
        wanted = (
            f"have a row for {each} of the data, or a table a column `index` with the positions of its rows (`idx` in "
            "certificates.tsv)"
        )
        raise InputError.expected("groups", wanted, got)
    return values[index]
