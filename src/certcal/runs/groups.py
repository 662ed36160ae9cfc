"""Groups of a run's inputs by name: those that certificates bring along, a column of the data file, or a table."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from certcal.errors import InputError
from certcal.types import IntArray

_OWN = ("predicted", "label")


def group_columns(names: Sequence[str], *, index: IntArray, data: str | None) -> dict[str, Any] | None:
    """Groupings as `evaluate` takes them; None if no names are given.

    `index` are the positions of the inputs in the data, `data` is the file that they come from.
    """
    columns: dict[str, Any] = {}
    for name in names:
        if name in _OWN:
            columns[name] = name
        elif name.endswith((".csv", ".parquet")):
            columns |= _from_table(Path(name), index)
        else:
            columns[name] = _at(name, _from_data(name, data), index)
    return columns or None


def _from_data(name: str, data: str | None) -> Any:
    """A column of the .npz file that the inputs come from."""
    held: tuple[str, ...] = ()
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
    if not path.is_file():
        raise InputError.expected("groups", "name a table that exists", str(path))
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        columns: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in (rows[0] if rows else {})}
    else:
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        columns = {key: np.array(table[key].to_pylist()) for key in table.column_names}
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


def _at(name: str, values: Any, index: IntArray) -> Any:
    """The entries of the inputs that there are certificates of."""
    if np.ndim(values) != 1 or len(values) <= index.max():
        got = f"{len(values)} in {name!r}" if np.ndim(values) == 1 else f"shape {np.shape(values)} in {name!r}"
        raise InputError.expected("groups", f"have a row for each input of the data, at least {index.max() + 1}", got)
    return values[index]
