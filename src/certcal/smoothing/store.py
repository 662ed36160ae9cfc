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


class EvidenceStore:
    """A folder of shards that share one header."""

    def __init__(
        self, folder: str | os.PathLike[str], header: EvidenceHeader, *, probe: list[float] | None = None
    ) -> None:
        self.folder, self.header, self._probe = Path(folder), header, probe
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError.expected(
                "store", "be a folder that can be written", f"{folder} ({error.strerror})"
            ) from error
        self._lock = _lock(self.folder)
        try:
            for shard in self.shards():
                check_same_header(read_header(shard), header, str(self.folder))
                _check_same_probe(shard, probe)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def shards(self) -> list[Path]:
        """The complete shards, in the order of their names."""
        return sorted(self.folder.glob("shard-*.parquet"))

    def append(self, rows: Rows) -> None:
        """Keep rows in a shard of their own."""
        write_shard(self.folder / f"shard-{uuid.uuid4().hex}.parquet", self.header, rows, probe=self._probe)

    def rows(self) -> Rows:
        """All rows of all shards."""
        return concatenate((read_shard(path)[1] for path in self.shards()), self.header.classes)


def load_evidence(path: str | os.PathLike[str]) -> Evidence:
    """The evidence in a folder of shards, or in one Parquet file.

    Paper: —; evidence that outlives a run is ours.
    """
    return merge_shards([path])


def _shards_of(place: Path) -> list[Path]:
    shards = sorted(place.glob("shard-*.parquet")) if place.is_dir() else [place]
    if not place.exists() or not shards:
        raise InputError.expected("path", "be an evidence file or a folder of shards", str(place))
    return shards


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
    write_shard(Path(path), evidence.header, rows, whole=True)


def merge_shards(paths: Iterable[str | os.PathLike[str]]) -> Evidence:
    """The evidence of several shards, or folders of them, together.

    Their headers must agree and no chunk may come twice.
    """
    header, parts = None, []
    places = [Path(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    shards = [shard for place in places for shard in _shards_of(place)]
    for path in shards:
        found, rows = read_shard(path)
        if len(shards) > 1 and _WHOLE in pq.read_schema(path).metadata:
            raise InputError.expected(
                "paths", "name shards", f"{path}, which was saved as a whole and merges with nothing"
            )
        if header is not None:
            header = found if len(found.stages) > len(header.stages) else header
            check_same_header(found, header, str(path))
        header = header or found
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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        pq.write_table(table, temporary, compression="zstd")
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())  # whole on the disk before it gets its name
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


def _check_same_probe(path: Path, probe: list[float] | None) -> None:
    """Refuse a model that answers a fixed input otherwise than the one whose evidence this is."""
    stored = json.loads((pq.read_schema(path).metadata or {}).get(_PROBE, b"null"))
    if probe is None or stored is None or len(probe) != len(stored):
        return
    scale = 1.0 + max(map(abs, stored))
    # Other machines and thread counts round otherwise; settings such as a temperature change far more.
    if not all(abs(new - old) <= 1e-3 * scale for new, old in zip(probe, stored, strict=True)):
        raise InputError(
            f"Expected the model of the evidence in {path.parent}, but its outputs differ although its weights do not: "
            "a setting that is no tensor has changed. Use another folder for this model."
        )


def _lock(folder: Path) -> int | None:
    """A lock that one process holds while it samples into a folder; None where the system has none."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise InputError.expected("store", "be a folder that no other process is sampling into", str(folder)) from error
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    return handle


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
