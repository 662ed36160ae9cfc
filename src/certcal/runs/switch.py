"""Files of a run that are replaced together: written aside, switched at once, and finished by whoever comes next.

A change is written to a folder beside the run's files. Renaming that folder is the one moment at which it happens: what
is killed before leaves the files of before, and what is killed after is finished by the next command. The manifest
lists what certcal wrote, with digests: nothing else in the folder is ever replaced or removed.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from certcal.errors import InputError
from certcal.files import hold_folder, plain, sealed, to_disk, unsealed

MANIFEST, SWITCH, NEW = "manifest.json", ".switch", ".new-"
Digests = dict[str, str]  # by name


class Change:
    """Files on their way into a run folder; those that are not written anew stay, or go if they are dropped."""

    def __init__(self, staged: Path, before: Digests) -> None:
        self._staged, self._kept = staged, dict(before)

    def place(self, name: str) -> Path:
        """Where to write a file; folders on the way are made."""
        path = self._staged / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file."""
        self.place(name).write_bytes(content.encode() if isinstance(content, str) else content)

    def write_json(self, name: str, content: object) -> None:
        """Write a JSON file; numbers keep every digit."""
        self.write(name, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def drop(self, prefix: str) -> None:
        """Remove what was written before under names that begin so, unless it is written anew."""
        self._kept = {name: own for name, own in self._kept.items() if not name.startswith(prefix)}

    def manifest(self) -> Digests:
        """What the folder holds of certcal's after the change."""
        return self._kept | {name: digest_of(self._staged / name) for name in names_in(self._staged)}


@contextmanager
def steady(folder: Path) -> Iterator[None]:
    """Within this context no other process changes the folder, and what one left unfinished is finished."""
    with hold_folder(folder, "run", "is writing into"):
        _finish(folder)
        for one in folder.glob(f"{NEW}*"):
            shutil.rmtree(one, ignore_errors=True)
        yield


@contextmanager
def switching(folder: Path, *, adopt: bool) -> Iterator[Change]:
    """A change of the folder, which happens as a whole when the block has succeeded.

    `adopt` takes files without a manifest for certcal's own, as those of earlier versions are.
    """
    with steady(folder):
        before = read_manifest(folder)
        staged = Path(tempfile.mkdtemp(prefix=NEW, dir=folder))
        try:
            change = Change(staged, before or {})
            yield change
            files = change.manifest()
            for name in names_in(staged):
                _check_free(folder, name, owned=name in (before or {}) or (adopt and before is None))
            (staged / MANIFEST).write_text(json.dumps(sealed({"files": files}), indent=1), encoding="utf-8")
            for path in staged.rglob("*"):
                to_disk(path)
            os.chmod(staged, 0o755)
            staged.rename(folder / SWITCH)
            to_disk(folder)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        _finish(folder)


def read_manifest(folder: Path) -> Digests | None:
    """What certcal wrote into a folder; None if it kept no list.

    Raises: InputError if the list is not as it was written.
    """
    path = folder / MANIFEST
    try:
        files = unsealed(json.loads(path.read_text(encoding="utf-8")))["files"]
        if not all(isinstance(own, str) and _is_inside(name) for name, own in files.items()):
            raise ValueError("it names other places")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        wanted = f"hold a {MANIFEST} as certcal writes it (or none: then its files are taken as they are)"
        raise InputError.expected("run", wanted, f"{path}: {error}") from error
    return dict(plain(files))


def digest_of(path: Path) -> str:
    """SHA-256 of a file, empty if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def names_in(folder: Path) -> list[str]:
    """The files below a folder by their names in it; what links lead to is not theirs."""
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return sorted(name for name in found if name != MANIFEST)


def _finish(folder: Path) -> None:
    """Move what was switched into place, remove what is no longer listed, and last the new list; at any time again."""
    switch = folder / SWITCH
    if switch.is_symlink() or not switch.is_dir():
        return
    new = read_manifest(switch)
    if new is not None:
        for name in names_in(switch):
            if name in new and not (switch / name).is_symlink():  # certcal writes no links
                _check_free(folder, name, owned=True)
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(switch / name, folder / name)
        for name, own in (read_manifest(folder) or {}).items():
            # What somebody has changed since is theirs, and what a link leads to is not the run's.
            if name not in new and not _through_link(folder, name) and digest_of(folder / name) == own:
                (folder / name).unlink()
                with suppress(OSError):  # not empty, or not ours
                    if (folder / name).parent != folder:
                        (folder / name).parent.rmdir()
        os.replace(switch / MANIFEST, folder / MANIFEST)
        to_disk(folder)
    shutil.rmtree(switch, ignore_errors=True)


def _check_free(folder: Path, name: str, *, owned: bool) -> None:
    """Refuse to replace what certcal did not write, and to write through a link to another place."""
    if link := _through_link(folder, name):
        raise InputError.expected("run", "hold folders of its own", f"{link}, a link to another place")
    if not owned and os.path.lexists(folder / name):
        raise InputError.expected("run", "hold no files of others where its own go", f"{folder / name}")


def _through_link(folder: Path, name: str) -> Path | None:
    """The link on the way to a file of the folder, if there is one."""
    parents = [folder / parent for parent in PurePosixPath(name).parents if parent != PurePosixPath(".")]
    return next((parent for parent in parents if parent.is_symlink()), None)


def check_plain(folder: Path, written: Iterable[str]) -> None:
    """Refuse a folder in which something is no file and no folder, or a folder that is written to is a link.

    A pipe would be waited for without end, a device read without end, and what a link leads to is not the run's.

    Raises: InputError.
    """
    for place in (folder, *(folder / name for name in written)):
        if place != folder and place.is_symlink():
            raise InputError.expected("run", "hold folders of its own", f"{place}, a link to another place")
        for entry in list(os.scandir(place)) if place.is_dir() else ():
            if os.path.exists(entry.path) and not (entry.is_file() or entry.is_dir()):
                raise InputError.expected("run", "hold files and folders alone", f"{entry.path}, a pipe or a device")


def _is_inside(name: object) -> bool:
    path = PurePosixPath(str(name))
    return isinstance(name, str) and not path.is_absolute() and ".." not in path.parts and name == path.as_posix()
