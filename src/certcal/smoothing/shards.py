"""One Parquet shard of evidence: rows of finished chunks, with the header of what they were drawn from.

It is written under a temporary name and renamed, so that it is there whole or not at all.
"""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from certcal.errors import CertcalError, InputError
from certcal.files import replacing
from certcal.models import same_probe
from certcal.smoothing.evidence import CELLS, Counts, EvidenceHeader

_KEY, _PROVENANCE = b"certcal.evidence", b"certcal.provenance"
_PROBE, _WHOLE = b"certcal.probe", b"certcal.whole"


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
    score_units: Counts  # Σ of the selected class's probability in units of 2^-40
    square_units: Counts  # Σ of its square, likewise
    histogram: Counts  # (rows, 256)

    def __len__(self) -> int:
        return len(self.index)


FIELDS = tuple(Rows.__dataclass_fields__)


def concatenate(parts: Iterable[Rows], classes: int) -> Rows:
    """All rows of several tables of rows."""
    kept = list(parts)
    widths = {"votes": (classes,), "histogram": (CELLS,)}
    empty = {name: np.zeros((0, *widths.get(name, ())), dtype=np.int64) for name in FIELDS}
    return Rows(**{name: np.concatenate([empty[name], *(getattr(part, name) for part in kept)]) for name in FIELDS})


def write_shard(
    path: Path, header: EvidenceHeader, rows: Rows, *, probe: list[float] | None = None, whole: bool = False
) -> None:
    """One Parquet file, written under a temporary name and renamed. A `whole` one has forgotten its chunks."""
    columns = {}
    for name in FIELDS:
        values = getattr(rows, name)
        columns[name] = pa.array(values) if values.ndim == 1 else _as_lists(values)
    metadata: dict[bytes, str] = {
        _KEY: json.dumps(asdict(header)),
        _PROVENANCE: json.dumps(_provenance()),
        _PROBE: json.dumps(probe),
    }
    metadata |= {_WHOLE: "true"} if whole else {}
    table = pa.table(columns).replace_schema_metadata(metadata)
    try:
        with replacing(path) as part:
            pq.write_table(table, part, compression="zstd")
            with open(part, "rb") as written:
                os.fsync(written.fileno())  # whole on the disk before it gets its name
    except OSError as error:
        raise CertcalError(
            f"Evidence could not be written to {path.parent}: {error}. What was there is untouched."
        ) from error


def read_header(path: Path) -> EvidenceHeader:
    """The header of a shard."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, str(error).splitlines()[0]) from error
    if _KEY not in metadata:
        raise _unreadable(path, "it is a Parquet file of something else")
    fields = json.loads(metadata[_KEY])
    if fields.get("schema") not in (1, EvidenceHeader.schema):
        raise _unreadable(
            path, f"its schema is version {fields.get('schema')}, this certcal reads up to {EvidenceHeader.schema}"
        )
    return EvidenceHeader(**(fields | {"stages": tuple(fields["stages"])}))


def read_shard(path: Path) -> tuple[EvidenceHeader, Rows]:
    """Header and rows of a shard, or an error that names the file."""
    header = read_header(path)
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, str(error).splitlines()[0]) from error
    if set(table.column_names) != set(FIELDS):
        raise _unreadable(path, f"its columns are {', '.join(table.column_names)}")
    widths = {"votes": header.classes, "histogram": CELLS}
    rows = Rows(**{name: _as_array(table.column(name), widths.get(name)) for name in FIELDS})
    draws = (rows.stop - rows.first) * header.chunk
    if not all((counts.sum(axis=1) == draws).all() for counts in (rows.votes, rows.histogram)):
        raise _unreadable(path, "its counts do not add up to its draws")
    return header, rows


def is_whole(path: Path) -> bool:
    """Whether a file was saved as a whole, without its chunks."""
    return _WHOLE in (pq.read_schema(path).metadata or {})


def read_probe(path: Path) -> list[float] | None:
    """The probe of the model that a shard is of; None in one that was saved as a whole."""
    stored: list[float] | None = json.loads((pq.read_schema(path).metadata or {}).get(_PROBE, b"null"))
    return stored


def check_same_probe(path: Path, probe: list[float] | None) -> None:
    """Refuse a model that answers fixed inputs otherwise than the one whose evidence this is."""
    stored = read_probe(path)
    if probe is not None and stored is not None and not same_probe(probe, stored):
        raise InputError(
            f"Expected the model of the evidence in {path.parent}, but its outputs differ although its weights do not: "
            "a setting that is no tensor has changed. Use another folder for this model."
        )


def _provenance() -> dict[str, str]:
    """What wrote a shard and when: recorded, but no reason to refuse a merge."""
    written = datetime.now(UTC).isoformat(timespec="seconds")
    versions = {name: version(name) for name in ("certcal", "torch", "numpy")}
    return {"written": written, "python": platform.python_version(), **versions}


def _as_lists(values: Counts) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _as_array(column: pa.ChunkedArray, width: int | None) -> Counts:
    whole = column.combine_chunks()
    if width is None:
        return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.asarray(whole.flatten().to_numpy(zero_copy_only=False), dtype=np.int64).reshape(-1, width)


def _unreadable(path: Path, why: str) -> CertcalError:
    return CertcalError(f"Expected {path} to be certcal evidence, but {why.rstrip('.')}. Move it away to go on.")
