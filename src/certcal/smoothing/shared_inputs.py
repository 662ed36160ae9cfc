"""What is known of inputs without a model, in a file beside the evidence, that evidence of the same inputs shares.

Hashes of inputs do not compress. Kept once, a pack of many models on the same inputs is smaller by a fifteenth.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from certcal.errors import CertcalError
from certcal.files import replacing
from certcal.smoothing.evidence import Counts

SHARED = ("content", "label")
COMPACT: dict[str, Any] = {
    "compression": "brotli", "compression_level": 11, "use_dictionary": False, "write_statistics": False
}  # fmt: skip
SPLIT = "BYTE_STREAM_SPLIT"  # bytes of like weight together, which compress better
_NAMES = ["index", *SHARED]


def write_inputs(folder: Path, index: Counts, columns: dict[str, Counts]) -> str:
    """Keep inputs in a folder, in a file called by what it holds, which may be there already; its name."""
    order = np.argsort(index)
    own = {"index": index[order], **{name: columns[name][order] for name in SHARED}}
    name, path = _name_of(own), folder / _name_of(own)
    try:
        if not path.is_symlink() and path.is_file() and _holds(path, index):
            return name
        with replacing(path) as part:
            encoding = dict.fromkeys(_NAMES, SPLIT)
            pq.write_table(pa.table(own), part, store_schema=False, column_encoding=encoding, **COMPACT)
    except OSError as error:
        raise CertcalError(f"The inputs of evidence could not be written to {folder}: {error}.") from error
    return name


def read_inputs(folder: Path, name: str, index: Counts) -> dict[str, Counts]:
    """What a file of inputs says of those at `index`, which are all that it holds.

    Raises: CertcalError if it is missing, damaged or of other inputs.
    """
    path = folder / name
    if not path.is_file():
        raise _unusable(path, "it is missing")
    try:
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
            if schema.names != _NAMES or {*schema.types} != {pa.int64()} or rows != len(index):  # before it is decoded
                raise _unusable(path, "it has others")
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise _unusable(path, "it was damaged") from error
    if any(table[key].null_count for key in _NAMES):
        raise _unusable(path, "it was damaged")
    own = {key: table[key].to_numpy() for key in _NAMES}
    order = np.argsort(index)
    if _name_of(own) != name or (own["index"] != index[order]).any():
        raise _unusable(path, "it has others" if _name_of(own) == name else "it is not what its name says")
    back = np.argsort(order)
    return {key: own[key][back] for key in SHARED}


def _unusable(path: Path, why: str) -> CertcalError:
    told = f"Expected {path} to hold the inputs of evidence beside it, but {why}."
    return CertcalError(f"{told} Copy this file again from where the evidence came from.")


def _holds(path: Path, index: Counts) -> bool:
    try:
        read_inputs(path.parent, path.name, index)
    except CertcalError:
        return False
    return True


def _name_of(own: dict[str, Counts]) -> str:
    """By what it holds, so that no damaged file can vouch for itself, whatever wrote it."""
    held = b"".join(np.ascontiguousarray(own[key], dtype="<i8").tobytes() for key in _NAMES)
    return f"inputs-{named_by(held)}.parquet"


def named_by(content: bytes) -> str:
    """What a file is called after."""
    return hashlib.sha256(content).hexdigest()[:40]
