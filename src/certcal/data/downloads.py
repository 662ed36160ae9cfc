"""The files of a named data set: where they are, how they get there, whole and verified, and what to say if not."""

import gzip
import hashlib
import os
import secrets
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

from certcal.data.catalog import Download, Layout, NamedDataset
from certcal.errors import CertcalError, InputError, one_line
from certcal.files import expanded, replacing

PathLike = str | os.PathLike[str]
TIMEOUT = 60.0  # seconds without a byte
_FAILURES = (OSError, EOFError, zlib.error, HTTPException, tarfile.TarError, CertcalError)


def data_folders(root: PathLike | None = None) -> list[Path]:
    """Where data is looked for, in this order: `root`, $CERTCAL_DATA, the user's cache. Downloads go into the first."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "certcal" / "data"
    named = [root, os.environ.get("CERTCAL_DATA")]
    return [*(expanded("root", folder) for folder in named if folder), cache]


def download_folder(dataset: NamedDataset, root: PathLike | None) -> Path:
    """Where the downloaded files of a data set go."""
    return data_folders(root)[0] / dataset.layouts[0].folders[0]


def find_files(dataset: NamedDataset, split: str, root: PathLike | None) -> tuple[Layout, list[Path]] | None:
    """The files of a split, in reading order, and the layout they are in; None if no folder has all of them."""
    for folder, layout in _places(dataset, root):
        spelled = [[folder / name for name in names if (folder / name).is_file()] for names in layout.files[split]]
        if all(spelled):
            return layout, [paths[0] for paths in spelled]
    return None


def fetch_files(dataset: NamedDataset, split: str, root: PathLike | None) -> None:
    """Download what a split is made of, except files that are there already."""
    folder = download_folder(dataset, root)
    for item in dataset.downloads[split]:
        if not all((folder / name).is_file() for name in item.members or (item.file,)):
            fetch(item, folder)


def missing_files(dataset: NamedDataset, split: str, root: PathLike | None) -> InputError:
    """The error that says which files are expected where, and how to get them."""
    names = ", ".join(spellings[0] for spellings in dataset.layouts[0].files[split])
    looked = ", ".join(map(str, (*data_folders(root), *dataset.installed)))
    package = f", or install the Debian package {dataset.package}" if dataset.package else ""
    hint = (
        f"Put them into {download_folder(dataset, root)}, or allow a download (download=True, --download) where there "
        f"is a network{package}"
    )
    return InputError.expected(
        "root", f"lead to the {dataset.name} {split} files {names}", f"none or not all of them in {looked}. {hint}"
    )


def _places(dataset: NamedDataset, root: PathLike | None) -> Iterator[tuple[Path, Layout]]:
    for base in data_folders(root):
        for layout in dataset.layouts:
            yield from ((base / folder, layout) for folder in layout.folders)
        # The MNIST family shares its file names, so loose files are taken only from where the user points at.
        if root is not None and base == expanded("root", root):
            yield from ((base, layout) for layout in dataset.layouts)
    for layout in dataset.layouts:
        yield from ((folder, layout) for folder in dataset.installed)


def fetch(item: Download, folder: Path) -> None:
    """Put the file, or the members of the archive, into `folder`; each appears whole and verified or not at all.

    Raises: CertcalError, in one line, if no address serves the right file.
    """
    problems = []
    for url in item.urls:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fetch_from(url, item, folder)
            return
        except _FAILURES as error:
            problems.append(f"{url} ({_reason(error)})")
    files = ", ".join(item.members or (item.file,))
    raise CertcalError(
        f"Could not download {item.file} from {'; '.join(problems)}. Without a network, put {files} into {folder}."
    )


def _fetch_from(url: str, item: Download, folder: Path) -> None:
    part = folder / f".{item.file}.{secrets.token_hex(4)}.part"
    try:
        _transfer(url, part)
        _verify(item, part)
        if item.members:
            _extract(part, item.members, folder)
        else:
            os.replace(part, folder / item.file)
    finally:
        part.unlink(missing_ok=True)


def _transfer(url: str, part: Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "certcal"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response, part.open("wb") as file:
        shutil.copyfileobj(response, file, 1 << 20)
        promised = response.headers.get("Content-Length")
    if promised is not None and part.stat().st_size != int(promised):
        raise CertcalError(f"the connection ended after {part.stat().st_size} of {promised} bytes")


def _verify(item: Download, part: Path) -> None:
    algorithm = {32: "md5", 64: "sha256"}[len(item.digest)]
    opener = gzip.open if item.unpacked else open
    with opener(part, "rb") as file:
        # MD5 is what was published; it guards against damage here, not against forgery.
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    if digest != item.digest:
        raise CertcalError(f"{algorithm} is {digest} instead of {item.digest}")


def _extract(archive: Path, members: tuple[str, ...], folder: Path) -> None:
    found = set()
    with tarfile.open(archive) as tar:
        for entry in tar:
            # Only the last part of a member's name is used, so that an archive cannot write elsewhere.
            name = entry.name.rsplit("/", 1)[-1]
            if name in members and (source := tar.extractfile(entry)) is not None:
                with replacing(folder / name) as part, part.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                found.add(name)
    if missing := set(members) - found:
        raise CertcalError(f"the archive lacks {', '.join(sorted(missing))}")


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return " ".join(str(error.reason).split())
    return one_line(error)
