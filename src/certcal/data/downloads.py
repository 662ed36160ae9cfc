"""Downloads that are kept only if their checksum is right."""

import gzip
import hashlib
import os
import secrets
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from certcal.errors import CertcalError, one_line
from certcal.files import replacing

TIMEOUT = 60.0  # seconds without a byte
_FAILURES = (OSError, EOFError, zlib.error, HTTPException, tarfile.TarError, CertcalError)


@dataclass(frozen=True)
class Download:
    """One published file: where it is served, how to know it, and what it becomes.

    The digest is an MD5 (32 hexadecimal digits) or SHA-256 (64) of the file as served or, with `unpacked`, of what a
    .gz file contains, which stays the same when a mirror compresses it anew.
    """

    file: str
    urls: tuple[str, ...]  # tried in turn
    digest: str
    unpacked: bool = False
    members: tuple[str, ...] = ()  # what to take out of a tar archive, which itself is not kept


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
        digest = hashlib.new(algorithm, usedforsecurity=False)
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != item.digest:
        raise CertcalError(f"{algorithm} is {digest.hexdigest()} instead of {item.digest}")


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
