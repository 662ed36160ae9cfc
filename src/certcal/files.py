"""Files that appear whole or not at all, and what JSON, CSV and terminals can hold."""

import csv
import errno
import hashlib
import io
import json
import math
import os
import secrets
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from certcal.errors import InputError

SEAL = "sha256"  # of a JSON file, in itself


def versions_of(*packages: str) -> dict[str, str]:
    """The versions of packages, to be written beside results; of those that are installed: sources may be run, too."""
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def expanded(name: str, path: str | os.PathLike[str]) -> Path:
    """The path of an argument, with ~ for the user's home folder."""
    wanted = "be a path in a home folder that exists"
    with InputError.expecting(name, wanted, repr(str(path)), on=RuntimeError):  # ~nobody
        return Path(path).expanduser()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name once the block has succeeded, and vanishes otherwise."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        to_disk(part)  # whole before it gets its name, also after a power cut
        os.replace(part, path)
        to_disk(path.parent)
    finally:
        part.unlink(missing_ok=True)


def to_disk(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):  # file systems that cannot
            raise
    finally:
        os.close(handle)


def open_own(path: Path, flags: int) -> int:
    """A handle of a file in a folder that may be a stranger's: a link there is not followed."""
    try:
        return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError.expected(path.name, "be a file", f"{path}, a link to another place") from error
        raise


class HeldError(InputError):
    """Another process works in the folder."""


def lock_folder(folder: Path, name: str, doing: str, *, file: str = ".lock") -> int | None:
    """A lock that one process holds on a folder while it works there, freed by `os.close`; None where there is none."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    handle = open_own(folder / file, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise HeldError.expected(name, f"be a folder that no other process {doing}", str(folder)) from error
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    return handle


@contextmanager
def hold_folder(folder: Path, name: str, doing: str, *, file: str = ".lock", seconds: float = 60.0) -> Iterator[None]:
    """Within this context the folder's lock is ours; one that is held is waited for, but not for ever."""
    deadline, lock = time.monotonic() + seconds, None
    while True:
        try:
            lock = lock_folder(folder, name, doing, file=file)
            break
        except HeldError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def remove_litter(folder: Path) -> None:
    """Remove what `replacing` left in a folder when a process was killed; only under its lock."""
    for part in [] if folder.is_symlink() else folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """JSON content with a digest of itself, by which `unsealed` notices damage."""
    return content | {SEAL: _digest(content)}


def unsealed(read: Any) -> dict[str, Any]:
    """The content of a sealed file; of earlier versions' files, which have no seal, what they hold.

    Raises: ValueError if it is not as it was written.
    """
    if not isinstance(read, dict):
        raise ValueError("it holds no table")
    content = {key: value for key, value in read.items() if key != SEAL}
    if SEAL in read and read[SEAL] != _digest(content):
        raise ValueError("it was changed or damaged after it was written")
    return content


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """The same as dictionaries, lists and Python's own numbers, with None for NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: plain(own) for key, own in value.items()}
    if hasattr(value, "tolist"):  # an array, or a number of NumPy's
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(own) for own in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def printable(text: str) -> str:
    """The text with escapes for what steers a terminal, turns the direction of writing, or is no Unicode."""
    steering = ("Cc", "Cf", "Cs")  # control, format, and the halves in which Python keeps bytes of odd file names
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode()
        if char != "\n" and unicodedata.category(char) in steering
        else char
        for char in text
    )


def csv_text(heads: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    """A head and lines of values as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_as_cell(value) for value in line] for line in (heads, *lines))
    return text.getvalue()


def csv_of(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV, with every key that one of them has as a column."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    return csv_text(heads, ([row.get(key, "") for key in heads] for row in rows))


def _as_cell(value: Any) -> Any:
    """The value for a CSV file, where a text that programs would take for a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
