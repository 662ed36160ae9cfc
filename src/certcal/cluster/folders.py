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

PREFIX = "certcal-ray-"


@contextmanager
def cluster_folder(place: Path | None = None) -> Iterator[Path]:
    """A new folder, locked by this program as long as it lives, and removed at the end."""
    # Ray's sockets lie in this folder, and their names may have a hundred characters.
    place = place or Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())
    for other in place.glob(f"{PREFIX}*"):
        with suppress(OSError), _locked(other):  # unless it is somebody else's, or its program lives
            shutil.rmtree(other, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}", dir=place))
    with _locked(new):
        folder = new.rename(place / new.name.removeprefix("new-"))  # only now: whoever sees it sees it locked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which the system lets go of when a program ends, also in another container."""
    if fcntl is None:
        yield  # type: ignore[unreachable]
        return
    held = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(held)
