"""The columns of a table of bounds: from a file, a data frame or a mapping, and what the table states of all rows."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from certcal.errors import InputError, one_line
from certcal.files import expanded
from certcal.inputs import from_arrow

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "index", "label", "predicted", "correct", "radius", "confidence", "lower", "upper", "certified", "certified_radius",
    "other",
)  # fmt: skip
_NEEDED = ("label", "predicted", "lower", "upper")
_OF_ALL = ("norm", "alpha")  # columns that say the same in every row: what is stated of all of them
KEY = b"certcal.bounds"  # in the metadata of a Parquet file: what is stated of all rows
_WORDS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}
Columns = dict[str, Any]


def read_columns(table: Any) -> tuple[Columns, dict[str, Any]]:
    """The known columns of a table, and what it states of all rows."""
    if isinstance(table, str | PathLike):
        table = _read_file(expanded("table", table))
    if hasattr(table, "column_names"):  # PyArrow's
        if not table.num_rows:
            raise InputError.expected("table", "hold at least one row", "none")
        _check_names(table.column_names)
        kept = {name: table[name] for name in table.column_names if name in (*COLUMNS, *_OF_ALL)}
        for name, column in kept.items():
            if column.null_count and name != "certified_radius":
                row = column.is_null().to_numpy().argmax()
                raise InputError.expected(name, "be given for every input", f"none in row {row}")
        columns = {name: _words(name, from_arrow(column.combine_chunks())) for name, column in kept.items()}
        stated = (table.schema.metadata or {}).get(KEY)
    elif isinstance(table, Mapping) or hasattr(table, "columns"):
        names = table.keys() if isinstance(table, Mapping) else table.columns
        _check_names(names)
        columns, stated = {name: _words(name, table[name]) for name in names if name in (*COLUMNS, *_OF_ALL)}, None
    else:
        wanted = "be a .parquet or .csv file, a data frame or a mapping of columns"
        raise InputError.expected("table", wanted, type(table).__name__)
    for name, column in columns.items():
        if hasattr(column, "__len__") and len(column) != len(columns["label"]):
            raise InputError.expected(name, f"have as many entries as `label` ({len(columns['label'])})", len(column))
    said = {name: _said(name, columns.pop(name)) for name in _OF_ALL if name in columns}
    return columns, said | ({} if stated is None else _stated(stated))


def _stated(text: bytes) -> dict[str, Any]:
    """What the metadata of a table say of all rows, each with its type."""
    try:
        found = json.loads(text)
        for name, value in found.items():
            kind = _STATED[name]
            if isinstance(value, bool) is not (kind is bool) or not isinstance(value, kind):
                raise TypeError(name)
        if not (0 < found.get("delta_share", 1) <= 1 and 0 <= found.get("least", 0) <= 1):
            raise ValueError("a share is out of range")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        wanted = f"have metadata that can be read under {KEY.decode()!r}, or none"
        raise InputError.expected("table", wanted, "damaged ones") from error
    return {name: value for name, value in found.items() if value == value}  # NaN: unsaid


_STATED: dict[str, Any] = {
    "alpha": (int, float), "method": str, "norm": str, "domain": str, "delta_share": (int, float),
    "least": (int, float), "indexed": bool,
}  # fmt: skip


def _said(name: str, column: Any) -> Any:
    """What a column says of all rows alike; the mixture of two is refused."""
    values = list(dict.fromkeys(np.asarray(column).tolist()))
    if len(values) > 1:
        raise InputError.expected(name, "be the same in every row", " and ".join(str(value) for value in values[:2]))
    return values[0]


def _check_names(names: Iterable[Any]) -> None:
    """Refuse a table that lacks a column, or has two of one name, of which either could be meant."""
    counts = Counter(names)
    several = [f"{name!r} {count} times" for name, count in counts.items() if count > 1 and name in COLUMNS]
    if several:
        raise InputError.expected("table", "name each column once", several[0])
    missing = [name for name in _NEEDED if name not in counts]
    if missing or not {"certified", "certified_radius"} & {*counts}:
        name = repr(missing[0]) if missing else "'certified' or 'certified_radius'"
        raise InputError.expected("table", f"have a column {name}", _named(list(map(str, counts))))


def _named(names: list[str]) -> str:
    """The columns that a table has, as far as a line holds them, and why it may seem to have only one."""
    marks = [mark for mark in (";", "\t") if len(names) == 1 and mark in names[0]]
    if marks:
        return f"one column {names[0][:60]!r} (its columns are separated by {marks[0]!r}, not by commas)"
    return "only " + ", ".join(one[:40] for one in names[:15]) + (", …" if len(names) > 15 else "")


def _words(name: str, column: Any) -> Any:
    """A column of flags in words as booleans, one of radii with empty cells as numbers; others as they are."""
    if name not in ("certified", "correct", "certified_radius") or hasattr(column, "detach"):
        return column
    values = np.asarray(column)
    if values.dtype.kind not in "OUS":
        return column
    if name == "certified_radius":
        empty = [value is None or value != value for value in values.tolist()]
        return np.full(len(values), np.nan) if all(empty) else column
    words = [_WORDS.get(str(value).strip().lower()) for value in values]
    if None in words:
        row = words.index(None)
        raise InputError.expected(name, "be 0 or 1, true or false, yes or no", f"{values[row]!r} in row {row}")
    return np.array(words)


def _read_file(path: Path) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import csv, parquet

    if not path.is_file() and path.suffix in (".csv", ".parquet"):
        raise InputError.expected("table", "be a file that exists", str(path))
    try:
        if path.suffix == ".parquet":
            # Not `read_table`, which imports pandas where it is installed, for a second.
            with parquet.ParquetFile(path) as file:
                _check_names(file.schema_arrow.names)
                return file.read(columns=[one for one in file.schema_arrow.names if one in (*COLUMNS, *_OF_ALL)])
        if path.suffix == ".csv":
            return csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:  # damaged pages raise OSError
        got = f"{path} ({one_line(error)})"
        raise InputError.expected("table", f"be a readable {path.suffix} file", got) from error
    raise InputError.expected("table", "be a .parquet or .csv file", path.name)
