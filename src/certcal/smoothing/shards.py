"""One Parquet shard of evidence: rows of finished chunks, with the header of what they were drawn from.

It is written under a temporary name and renamed, so that it is there whole or not at all.
"""

import io
import json
import math
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from certcal.errors import CertcalError, InputError, one_line
from certcal.files import replacing, versions_of
from certcal.inputs import from_arrow
from certcal.settings import MAX_CLASSES
from certcal.smoothing.evidence import CELLS, Counts, EvidenceHeader
from certcal.smoothing.shared_inputs import COMPACT, SHARED, SPLIT, named_by, read_inputs, write_inputs

_KEY, _PROVENANCE = b"certcal.evidence", b"certcal.provenance"
_PROBE, _WHOLE, _AT = b"certcal.probe", b"certcal.whole", b"certcal.temperature"
_INPUTS = b"certcal.inputs"  # the file beside it that has what is known of them without a model
_BATCH = 8192  # rows that are decoded at a time
SCHEMA = 3  # the newest that is read; evidence at one temperature is still of version 2


@dataclass(frozen=True, eq=False)
class Rows:
    """Statistics of whole chunks; row r covers chunks first[r] … stop[r] − 1 of input index[r]. They add up."""

    index: Counts
    content: Counts  # hash of the input's values
    label: Counts
    selected: Counts
    first: Counts
    stop: Counts
    votes: Counts  # (rows, k)
    score_units: Counts  # Σ of the selected class's probability in units of 2^-40; (rows, t) at t > 1 temperatures
    square_units: Counts  # Σ of its square, likewise
    histogram: Counts  # (rows, 256 t), one temperature after the other

    def __len__(self) -> int:
        return len(self.index)

    def take(self, places: list[int] | Counts) -> "Rows":
        """The rows at these places, in their order."""
        return Rows(*(getattr(self, name)[places] for name in FIELDS))


FIELDS = tuple(Rows.__dataclass_fields__)


def widths(header: EvidenceHeader) -> dict[str, int]:
    """How many numbers those columns have that have several."""
    found = {"votes": header.classes, "histogram": CELLS * header.kinds}
    return found | ({} if header.kinds == 1 else dict.fromkeys(("score_units", "square_units"), header.kinds))


def concatenate(parts: Iterable[Rows], header: EvidenceHeader) -> Rows:
    """All rows of several tables of rows."""
    kept, columns = list(parts), widths(header)
    if len(kept) == 1:
        return kept[0]
    empty = {name: np.zeros((0, columns[name]) if name in columns else 0, dtype=np.int64) for name in FIELDS}
    return Rows(**{name: np.concatenate([empty[name], *(getattr(part, name) for part in kept)]) for name in FIELDS})


def write_shard(
    path: Path,
    header: EvidenceHeader,
    rows: Rows,
    *,
    probe: list[float] | None = None,
    whole: bool = False,
    compact: bool = False,
    share_inputs: bool = False,
    temperature: float | None = None,
) -> None:
    """One Parquet file, written under a temporary name and renamed. A `whole` one has forgotten its chunks.

    A `compact` one is smaller by more than a third and takes seconds to write: its numbers are cut into bytes of like
    weight, and inputs with like answers stand together, which compress better; readers put them in order. With
    `share_inputs` inputs go to a file beside it. In a folder a shard is called by the digest of its bytes, so that no
    damaged file can vouch for itself. `temperature` is that of the evidence, where it is not the first.
    """
    if compact:
        rows = rows.take(_like_beside_like(rows))
    own = [name for name in FIELDS if not (share_inputs and name in SHARED)]
    columns = {name: _as_column(getattr(rows, name)) for name in own}
    metadata: dict[bytes, str] = {
        _KEY: json.dumps(header.as_dict()),
        _PROVENANCE: json.dumps(_provenance()),
        _PROBE: json.dumps(probe),
    }
    metadata |= {_WHOLE: "true"} if whole else {}
    metadata |= {} if temperature is None else {_AT: json.dumps(temperature)}
    if share_inputs:
        folder = path if path.is_dir() else path.parent
        metadata[_INPUTS] = write_inputs(folder, rows.index, {name: getattr(rows, name) for name in SHARED})
    table, buffer = pa.table(columns), io.BytesIO()
    how: dict[str, Any] = {"compression": "zstd"}
    if compact:
        places = [name if pa.types.is_integer(table[name].type) else f"{name}.list.element" for name in own]
        how = COMPACT | {"column_encoding": dict.fromkeys(places, SPLIT)}
    # Arrow's own schema would repeat the metadata, in a packed file a twenty-fifth of it.
    with pq.ParquetWriter(buffer, table.schema, write_page_checksum=True, store_schema=False, **how) as writer:
        writer.add_key_value_metadata(metadata)
        writer.write_table(table)
    content = buffer.getvalue()
    if path.is_dir():  # in which the file is called after what is in it
        path = path / f"shard-{named_by(content)}.parquet"
    try:
        with replacing(path) as part:
            part.write_bytes(content)
    except OSError as error:
        raise CertcalError(
            f"Evidence could not be written to {path.parent}: {error}. What was there is untouched."
        ) from error


def read_header(path: Path) -> EvidenceHeader:
    """The header of a shard."""
    named = re.fullmatch(r"shard-([0-9a-f]{40})\.parquet", path.name)
    if named is not None and path.is_file() and named[1] != named_by(path.read_bytes()):
        raise _unreadable(path, "it was damaged after it was written")
    metadata = _metadata(path)
    if _KEY not in metadata:
        raise _unreadable(path, "it is a Parquet file of something else")
    try:
        held = dict(json.loads(metadata[_KEY]))
        if held.get("schema") not in (1, 2, SCHEMA):
            own = f"its schema is version {held.get('schema')}, this certcal reads up to {SCHEMA}"
            raise _unreadable(path, own)
        return _checked(EvidenceHeader.from_dict(held))
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
        raise _unreadable(path, f"its header is damaged ({str(error).splitlines()[0]})") from error


def _checked(header: EvidenceHeader) -> EvidenceHeader:
    """The header, if every field has its type and a sense."""
    for one in fields(header):
        value: Any = getattr(header, one.name)
        wanted: Any = (int, float) if one.type is float else one.type
        if one.name not in ("stages", "temperatures") and (isinstance(value, bool) or not isinstance(value, wanted)):
            raise ValueError(f"{one.name} is {value!r}")
    counts = (header.classes, header.n0, header.chunk, header.looks, *header.stages)
    if not all(isinstance(count, int) and 1 <= count < 2**40 for count in counts):
        raise ValueError("a count is out of range")
    if header.schema > 1 and header.looks < len(header.stages):
        raise ValueError(f"{header.looks} looks are not {len(header.stages)}")
    right = all(isinstance(own, float) and 0 < own < math.inf for own in header.temperatures)
    if not right or (header.schema == SCHEMA) != bool(header.temperatures):
        raise ValueError(f"temperatures are {header.temperatures!r}")
    on_grid = header.grid > 0 and header.elements > 0
    if not {"torch": header.grid == 0, "philox-1": on_grid, "philox-2": on_grid}.get(header.noise, False):
        raise ValueError(f"noise is {header.noise!r} on a grid of {header.grid:g}, as this version does not know it")
    sizes = header.sigma > 0 and 0 <= header.grid < 1 and 0 <= header.elements < 2**40 and header.classes <= MAX_CLASSES
    if not (sizes and math.isfinite(header.sigma) and 0 <= header.seed < 2**63):
        raise ValueError("a number is out of range")
    return header


def _metadata(path: Path) -> dict[bytes, bytes]:
    try:
        return dict(pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, one_line(error)) from error


def read_shard(path: Path) -> tuple[EvidenceHeader, Rows]:
    """Header and rows of a shard, or an error that names the file."""
    header = read_header(path)
    try:
        # Not `read_table`, which imports pandas where it is installed.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            names, shared = file.schema_arrow.names, inputs_of(path)
            if sorted([*names, *(SHARED if shared else ())]) != sorted(FIELDS):
                raise _unreadable(path, f"its columns are {', '.join(names)}")
            found = _read_columns(file, names, widths(header))
            rows = Rows(**found | (read_inputs(path.parent, shared, found["index"]) if shared else {}))
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        raise _unreadable(path, one_line(error)) from error
    if trouble := trouble_in(header, rows):
        raise _unreadable(path, trouble)
    return header, rows


def trouble_in(header: EvidenceHeader, rows: Rows) -> str:
    """What no draws of a model with this header can have led to; nothing where all is well."""
    draws = (rows.stop - rows.first) * header.chunk
    tempered = rows.histogram.reshape(len(rows), header.kinds, CELLS).transpose(1, 0, 2)
    if not all((counts.sum(axis=1) == draws).all() for counts in (rows.votes, *tempered)):
        return "its counts do not add up to its draws"
    if len(rows) and min(own.min() for own in (rows.index, rows.first, rows.votes, rows.histogram)) < 0:
        return "it counts below 0"
    if len(rows) and max(rows.label.max(), rows.selected.max()) >= header.classes:
        return f"it has classes beyond the {header.classes} of its model"
    return ""


def inputs_of(path: Path) -> str:
    """The name of the file beside a shard that has what is known of its inputs; nothing where it has that itself."""
    name = _metadata(path).get(_INPUTS, b"").decode(errors="replace")
    if name and not re.fullmatch(r"inputs-[0-9a-f]{40}\.parquet", name):
        raise _unreadable(path, "the name of its file of inputs is damaged")
    return name


def _read_columns(file: pq.ParquetFile, names: Iterable[str], columns: dict[str, int]) -> dict[str, Counts]:
    """All rows, batch by batch: what Parquet needs to decode a batch is several times what it holds."""
    length = file.metadata.num_rows
    found = {name: np.empty((length, columns[name]) if name in columns else length, dtype=np.int64) for name in names}
    start = 0
    for batch in file.iter_batches(batch_size=_BATCH):
        for name, values in found.items():
            own = _as_array(batch.column(name), columns.get(name))
            if len(own) != len(batch):
                raise ValueError(f"{len(batch)} rows of {name} have {len(own)} values")
            values[start : start + len(batch)] = own
        start += len(batch)
    return found


def is_whole(path: Path) -> bool:
    """Whether a file was saved as a whole, without its chunks."""
    return _WHOLE in _metadata(path)


def read_temperature(path: Path, header: EvidenceHeader) -> float | None:
    """The temperature that evidence stood at when it was saved as a whole; None where it was the first."""
    stored = _metadata(path).get(_AT)
    by_text = {json.dumps(own).encode(): own for own in header.temperatures}
    if stored is not None and stored not in by_text:
        raise _unreadable(path, "its temperature is damaged")
    return None if stored is None else by_text[stored]


def read_probe(path: Path) -> list[float] | None:
    """The probe of the model that a shard is of; None in one that was saved as a whole."""
    try:
        stored: list[float] | None = json.loads(_metadata(path).get(_PROBE, b"null"))
        return None if stored is None else [float(value) for value in stored]
    except (ValueError, TypeError, RecursionError) as error:
        raise _unreadable(path, "its probe is damaged") from error


def check_same_probe(path: Path, probe: list[float] | None) -> None:
    """Refuse a model that answers fixed inputs otherwise than the one whose evidence this is."""
    stored = read_probe(path)
    if probe is None or stored is None:
        return
    from certcal.models import same_probe  # which loads torch; evaluations do without

    if not same_probe(probe, stored):
        raise InputError(
            f"Expected the model of the evidence in {path.parent}, but its outputs differ although its weights do not: "
            "a setting that is no tensor has changed. Use another folder for this model."
        )


def _like_beside_like(rows: Rows) -> Counts:
    """The places of rows by selected class, and by how sure the model is of it."""
    units = rows.score_units if rows.score_units.ndim == 1 else rows.score_units[:, 0]
    sure = units / (rows.stop - rows.first)
    return np.lexsort((sure, rows.selected))


def _provenance() -> dict[str, str]:
    """What wrote a shard and when: recorded, but no reason to refuse a merge."""
    written = datetime.now(UTC).isoformat(timespec="seconds")
    return {"written": written, "python": platform.python_version(), **versions_of("certcal", "torch", "numpy")}


def _as_column(values: Counts) -> pa.Array:
    flat = pa.array(values.ravel())
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _as_array(column: pa.Array, width: int | None) -> Counts:
    if width is None:
        return np.asarray(from_arrow(column), dtype=np.int64)
    lists = isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray)
    if not lists or set(column.value_lengths().unique().to_pylist()) - {width}:
        raise ValueError(f"not every row of a column has {width} numbers")
    return np.asarray(from_arrow(column.flatten()), dtype=np.int64).reshape(-1, width)


def _unreadable(path: Path, why: str) -> CertcalError:
    return CertcalError(f"Expected {path} to be certcal evidence, but {why.rstrip('.')}. Move it away to go on.")
