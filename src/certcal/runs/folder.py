"""A run folder: one place for what a run was made with, its evidence, and everything that follows from it."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from certcal.certificates import ConfidenceIntervals, table_of
from certcal.errors import CertcalError, InputError
from certcal.files import expanded, open_own, replacing
from certcal.settings import BoundsRunSettings, RunSettings, load_run, save_settings

BOUNDS = "bounds.parquet"  # of a run without noise, in place of evidence
CONFIG, EVIDENCE, SHARDS, SOURCES, LOG = "config.toml", "evidence.parquet", "shards", "provenance.json", "log.txt"


class RunFolder:
    """The files of a run. Everything but config, evidence, provenance and log can be made again from the evidence."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def named(cls, name: str | os.PathLike[str]) -> "RunFolder":
        """The folder of a path, or of a bare name below runs/."""
        path = expanded("run", name)
        bare = isinstance(name, str) and path.name == name and not (path / CONFIG).is_file()
        return cls(Path("runs") / path if bare else path)

    @classmethod
    def existing(cls, name: str | os.PathLike[str]) -> "RunFolder":
        """A run folder that has evidence, or bounds in its place."""
        run = cls.named(name)
        if not run.path.is_dir():
            raise InputError.expected("run", "be a run folder", f"{run.path}, which does not exist")
        if not run.config.is_file():
            raise InputError.expected("run", f"be a run folder with a {CONFIG}", str(run.path))
        if not run.source.is_file() and not any(run.shards.glob("shard-*")):
            raise InputError.expected("run", f"hold {EVIDENCE} (make it with `certcal certify`)", str(run.path))
        return run

    @property
    def config(self) -> Path:
        """The settings of the run."""
        return self.path / CONFIG

    @property
    def evidence(self) -> Path:
        """The evidence, complete."""
        return self.path / EVIDENCE

    @property
    def bounds(self) -> Path:
        """The certificates of a run without noise."""
        return self.path / BOUNDS

    @property
    def source(self) -> Path:
        """From what results are made: the bounds of a run without noise, or else the evidence."""
        return self.bounds if self.bounds.is_file() else self.evidence

    @property
    def shards(self) -> Path:
        """The evidence as it came, from which sampling goes on."""
        return self.path / SHARDS

    def create(self) -> None:
        """Make the folder, or say why it cannot be written."""
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn what the system says when the folder cannot be written into one line that names it."""
        try:
            yield
        except CertcalError:
            raise
        except OSError as error:
            got = f"{self.path} ({error.strerror or error})"
            raise InputError.expected("run", "be a folder that can be written", got) from error

    @contextmanager
    def kept_if_refused(self, name: str, *, unless: str = "") -> Iterator[None]:
        """Put a file back as it was, or away if there was none and nothing fits `unless`, if the run is refused."""
        path = self.path / name
        before = path.read_bytes() if path.exists() else None
        try:
            yield
        except InputError:
            if before is not None:
                path.write_bytes(before)
            elif not (unless and any(self.path.glob(unless))):
                path.unlink(missing_ok=True)
            raise

    def settings(self) -> RunSettings | BoundsRunSettings:
        """The settings in config.toml."""
        return load_run(self.config)

    def save_settings(self, settings: RunSettings | BoundsRunSettings) -> None:
        """Keep the settings in config.toml."""
        save_settings(settings, self.config)

    def sources(self) -> dict[str, dict[str, Any]]:
        """What is recorded of the sampling: data, classes, evidence, versions, device, wall time; empty if nothing."""
        path = self.path / SOURCES
        if not path.exists():
            return {}
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError.expected("run", f"hold a readable {SOURCES}", f"{path}: {error}") from error
        if not isinstance(read, dict) or not all(isinstance(part, dict) for part in read.values()):
            raise InputError.expected("run", f"hold a {SOURCES} as certcal writes it", str(path))
        return read

    def evidence_digest(self) -> str:
        """SHA-256 of the evidence, or of the bounds in its place."""
        return hashlib.sha256(self.source.read_bytes()).hexdigest()

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of the run, whole or not at all; folders on the way are made."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def write_bounds(self, name: str, bounds: Sequence[ConfidenceIntervals]) -> Path:
        """Write certificates as Parquet, one row per input and radius."""
        import pyarrow.parquet as pq

        path = self.path / name
        with replacing(path) as part:
            pq.write_table(table_of(bounds), part, compression="zstd", use_dictionary=False)  # bounds hardly repeat
        return path

    def write_json(self, name: str, content: Any) -> Path:
        """Write a JSON file of the run; numbers keep every digit."""
        return self.write(name, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def log(self, line: str) -> None:
        """Add a line with the time to the log."""
        with open(open_own(self.path / LOG, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {line}\n")
