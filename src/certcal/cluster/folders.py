"""Folders of clusters that were started for a run; those of programs that were killed are removed by the next one."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_PREFIX, _LOCK = "certcal-ray-", "driver.lock"


@contextmanager
def cluster_folder(place: Path | None = None) -> Iterator[Path]:
    """A new folder, locked by this program as long as it lives, and removed at the end."""
    # Ray's sockets lie in this folder, and their names may have a hundred characters.
    place = place or Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())
    _remove_stale(place)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    lock = os.open(folder / "new", os.O_CREAT | os.O_RDWR)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "new").rename(folder / _LOCK)  # only now: whoever sees a lock sees it held, or its holder dead
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_stale(place: Path) -> None:
    """Remove folders whose program is gone: the system lets go of its lock, also in another container."""
    for path in place.glob(f"{_PREFIX}*/{_LOCK}") if fcntl is not None else ():
        with suppress(OSError):  # somebody else's, or removed a moment ago
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
            finally:
                os.close(lock)
