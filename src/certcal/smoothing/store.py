"""The evidence on disk: a folder of Parquet shards that only ever grows, so that runs resume and shards merge.

A shard holds what was drawn since the last one, one row per input and run of chunks. It is written under a temporary
name and renamed, so that it is there whole or not at all; the header travels in every shard.
"""

import json
import os
import platform
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from certcal.errors import CertcalError, InputError
from certcal.smoothing.evidence import CELLS, SCORE_UNIT, Counts, Evidence, EvidenceHeader, check_same_header

_KEY, _PROVENANCE = b"certcal.evidence", b"certcal.provenance"


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


class EvidenceStore:
    """A folder of shards that share one header."""

    def __init__(self, folder: str | os.PathLike[str], header: EvidenceHeader) -> None:
        self.folder, self.header = Path(folder), header
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError.expected(
                "store", "be a folder that can be written", f"{folder} ({error.strerror})"
            ) from error
        for shard in self.shards():
            check_same_header(read_header(shard), header, str(self.folder))

    def shards(self) -> list[Path]:
        """The complete shards, in the order of their names."""
        return sorted(self.folder.glob("shard-*.parquet"))

    def append(self, rows: Rows) -> None:
        """Keep rows in a shard of their own."""
        write_shard(self.folder / f"shard-{uuid.uuid4().hex}.parquet", self.header, rows)

    def rows(self) -> Rows:
        """All rows of all shards."""
        return concatenate((read_shard(path)[1] for path in self.shards()), self.header.classes)


def load_evidence(path: str | os.PathLike[str]) -> Evidence:
    """The evidence in a folder of shards, or in one Parquet file.

    Paper: —; evidence that outlives a run is ours.
    """
    place = Path(path)
    shards = sorted(place.glob("shard-*.parquet")) if place.is_dir() else [place]
    if not place.exists() or not shards:
        raise InputError.expected("path", "be an evidence file or a folder of shards", str(place))
    return merge_shards(shards)


def save_evidence(evidence: Evidence, path: str | os.PathLike[str]) -> None:
    """Write evidence to one Parquet file, whole or not at all.

    Paper: —; evidence that outlives a run is ours.
    """
    chunks = evidence.draws // evidence.header.chunk
    rows = Rows(
        evidence.index,
        evidence.content,
        evidence.label,
        evidence.selected,
        np.zeros_like(chunks),
        chunks,
        evidence.votes,
        np.rint(evidence.score_sum / SCORE_UNIT).astype(np.int64),
        np.rint(evidence.score_square_sum / SCORE_UNIT).astype(np.int64),
        evidence.histogram,
    )
    write_shard(Path(path), evidence.header, rows)


def merge_shards(paths: Iterable[Path]) -> Evidence:
    """The evidence of several shards together; their headers must agree and no chunk may come twice."""
    header, parts = None, []
    for path in paths:
        found, rows = read_shard(path)
        if header is not None:
            check_same_header(found, header, str(path))
        header = found
        parts.append(rows)
    if header is None:
        raise InputError.expected("paths", "name at least one shard", "none")
    return sum_rows(concatenate(parts, header.classes), header)


def sum_rows(rows: Rows, header: EvidenceHeader) -> Evidence:
    """Rows of the same input added up, in the order of the inputs."""
    check_disjoint(rows)
    index, first, inverse = np.unique(rows.index, return_index=True, return_inverse=True)

    def total(values: Counts) -> Counts:
        sums = np.zeros((len(index), *values.shape[1:]), dtype=np.int64)
        np.add.at(sums, inverse, values)
        return sums

    return Evidence(
        header,
        index,
        rows.content[first],
        rows.label[first],
        rows.selected[first],
        total(rows.stop - rows.first) * header.chunk,
        total(rows.votes),
        total(rows.score_units).astype(np.float64) * SCORE_UNIT,
        total(rows.square_units).astype(np.float64) * SCORE_UNIT,
        total(rows.histogram),
    )


def check_disjoint(rows: Rows) -> None:
    """Refuse rows that count a chunk twice or disagree about an input."""
    order = np.lexsort((rows.first, rows.index))
    index, first, stop = rows.index[order], rows.first[order], rows.stop[order]
    same = index[1:] == index[:-1]
    for trouble, flags in (
        ("the same draws are counted twice", same & (first[1:] < stop[:-1])),
        ("two different inputs are recorded", same & (np.diff(rows.content[order]) != 0)),
        ("two selected classes are recorded", same & (np.diff(rows.selected[order]) != 0)),
        ("two labels are recorded", same & (np.diff(rows.label[order]) != 0)),
    ):
        if flags.any():
            raise CertcalError(f"Evidence cannot be merged: {trouble} for input {index[1:][flags][0]}.")


def concatenate(parts: Iterable[Rows], classes: int) -> Rows:
    """All rows of several tables of rows."""
    kept = list(parts)
    widths = {"votes": (classes,), "histogram": (CELLS,)}
    empty = {name: np.zeros((0, *widths.get(name, ())), dtype=np.int64) for name in FIELDS}
    return Rows(**{name: np.concatenate([empty[name], *(getattr(part, name) for part in kept)]) for name in FIELDS})


def write_shard(path: Path, header: EvidenceHeader, rows: Rows) -> None:
    """One Parquet file, written under a temporary name and renamed."""
    columns = {}
    for name in FIELDS:
        values = getattr(rows, name)
        columns[name] = pa.array(values) if values.ndim == 1 else _as_lists(values)
    metadata = {_KEY: json.dumps(asdict(header)), _PROVENANCE: json.dumps(_provenance())}
    table = pa.table(columns).replace_schema_metadata(metadata)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        pq.write_table(table, temporary, compression="zstd")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
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
    if fields.get("schema") != EvidenceHeader.schema:
        raise _unreadable(
            path, f"its schema is version {fields.get('schema')}, this certcal reads {EvidenceHeader.schema}"
        )
    return EvidenceHeader(**fields)


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
    return header, Rows(**{name: _as_array(table.column(name), widths.get(name)) for name in FIELDS})


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
    return CertcalError(
        f"Expected {path} to be certcal evidence, but {why}. Move it away to go on with the other shards."
    )
