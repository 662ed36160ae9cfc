"""Files that appear whole or not at all, and what JSON can hold."""

import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certcal.errors import InputError


def expanded(name: str, path: str | os.PathLike[str]) -> Path:
    """The path of an argument, with ~ for the user's home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # ~nobody
        raise InputError.expected(name, "be a path in a home folder that exists", repr(str(path))) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name once the block has succeeded, and vanishes otherwise."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def lock_folder(folder: Path, name: str, doing: str) -> int | None:
    """A lock that one process holds on a folder while it works there, freed by `os.close`; None where there is none."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise InputError.expected(name, f"be a folder that no other process {doing}", str(folder)) from error
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    return handle


def plain(value: Any) -> Any:
    """The same as dictionaries, lists and Python's own numbers, with None for NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: plain(own) for key, own in value.items()}
    if hasattr(value, "tolist"):  # an array, or a number of NumPy's
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(own) for own in value]
    return None if isinstance(value, float) and math.isnan(value) else value
