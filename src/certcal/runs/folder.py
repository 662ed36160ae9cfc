"""A run folder: one place for what a run was made with, its evidence, and everything that follows from it."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from certcal.certificates import ConfidenceIntervals, table_of
from certcal.errors import CertcalError, InputError
from certcal.files import expanded, open_own, unsealed
from certcal.runs.switch import MANIFEST, SWITCH, Change, check_plain, digest_of, read_manifest, steady, switching
from certcal.settings import (
    BoundsRunSettings,
    CertifySettings,
    DataSettings,
    EvaluateSettings,
    ModelSettings,
    RunSettings,
    load_run,
    settings_text,
)
from certcal.smoothing import Evidence, inputs_of, load_evidence

Tell = Callable[[str], None]  # gets a line on what is done
IN_PYTHON = "given in Python"  # the model and data of a run that was not made by the command line
BOUNDS = "bounds.parquet"  # of a run without noise, in place of evidence
GROUPS = "groups.parquet"  # what a table of bounds says of its inputs beside them
CONFIG, EVIDENCE, SHARDS, SOURCES = "config.toml", "evidence.parquet", "shards", "provenance.json"
LOG, WEIGHTS, MAP = "log.txt", "model.pt", "map.json"
FOLDERS = (SHARDS, SWITCH, "attack", "figures", "recalibration", "tables", "tensorboard")  # which certcal writes to
# Files that say that a folder which is not certcal's is somebody's.
RESERVED = (
    CONFIG, EVIDENCE, BOUNDS, GROUPS, SHARDS, SOURCES, LOG, MANIFEST, "certificates.parquet", "certificates.tsv",
    "metrics.json", "report.html", "results.csv", "results.json", "table.md", "train.toml", "sweep.toml",
)  # fmt: skip


class RunFolder:
    """The files of a run. Everything but config, evidence, provenance and log can be made again from the evidence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.evidence, self.bounds = path / CONFIG, path / EVIDENCE, path / BOUNDS
        self.shards = path / SHARDS  # the evidence as it came, from which sampling goes on

    @classmethod
    def named(cls, name: str | os.PathLike[str]) -> "RunFolder":
        """The folder of a path, or of a bare name below runs/."""
        path = expanded("run", name)
        if not str(name):
            raise InputError.expected("run", "be a folder, or a name below runs/", "an empty name")
        if any("\ud800" <= char <= "\udfff" for char in str(path)):  # bytes, which PyArrow cannot open
            raise InputError.expected("run", "have a path of Unicode characters", ascii(str(path)))
        here = any((path / own).is_file() for own in (CONFIG, EVIDENCE))
        run = cls(Path("runs") / path if isinstance(name, str) and path.name == name and not here else path)
        check_plain(run.path, FOLDERS)
        if (run.path / SWITCH).is_dir():  # a process was killed on the way: finish what it began
            with run.steady():
                pass
        return run

    @classmethod
    def existing(cls, name: str | os.PathLike[str]) -> "RunFolder":
        """A run folder that has evidence, or bounds in its place."""
        run = cls.named(name)
        if not run.path.is_dir():
            if (below := Path("runs") / run.path).is_dir():  # such as mine/recalibration
                return cls.existing(below)
            _refuse_others(name)
            raise InputError.expected("run", "be a run folder", f"{run.path}, which does not exist")
        if run.evidence.is_file() or (run.config.is_file() and any(run.shards.glob("shard-*"))):
            return run
        if not run.config.is_file():
            _refuse_others(name)
            raise InputError.expected("run", f"be a run folder with a {CONFIG} or {EVIDENCE}", str(run.path))
        if not run.source.is_file():
            raise InputError.expected("run", f"hold {EVIDENCE} (make it with `certcal certify`)", str(run.path))
        return run

    def has_draws(self) -> bool:
        return self.evidence.is_file() or any(self.shards.glob("shard-*.parquet"))

    @property
    def source(self) -> Path:
        """From what results are made: the bounds of a run without noise, or else the evidence."""
        return self.bounds if self.bounds.is_file() else self.evidence

    def create(self) -> None:
        """Make the folder, or say why it cannot be written; files of others that a run would replace are refused."""
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            if not self._is_ours():
                taken = next((name for name in RESERVED if (self.path / name).exists()), None)
                if taken is not None:
                    wanted = "be a run folder, or one without files where a run's own go"
                    raise InputError.expected("run", wanted, f"{self.path}, which holds {taken}")
            with self.change():
                pass

    def _is_ours(self) -> bool:
        """Whether certcal made the folder; earlier versions kept no manifest."""
        made = self.config.is_file() and (self.bounds.is_file() or self.has_draws())
        trained = any((self.path / name).is_file() for name in ("train.toml", "sweep.toml"))
        return (self.path / MANIFEST).exists() or made or trained

    @contextmanager
    def change(self) -> Iterator[Change]:
        """Files to be written, which take their places together when the block has succeeded."""
        with self.writing(), switching(self.path, adopt=self._is_ours()) as change:
            yield change

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Within this context no other process changes the folder."""
        with self.writing(), steady(self.path):
            yield

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
        """Put a file back as it was, or away if there was none and nothing fits `unless`, if the run fails."""
        path = self.path / name
        before = path.read_bytes() if path.exists() else None
        try:
            yield
        except Exception:
            with self.change() as change:
                if before is not None:
                    change.write(name, before)
                elif not (unless and any(self.path.glob(unless))):
                    change.drop(name)
            raise

    def settings(self) -> RunSettings | BoundsRunSettings:
        """The settings in config.toml; of evidence alone, what its header says."""
        if self.config.is_file():
            return load_run(self.config)
        return settings_from(load_evidence(self.evidence), EvaluateSettings())

    def save_settings(self, settings: RunSettings | BoundsRunSettings) -> None:
        self.write(CONFIG, settings_text(settings))

    def sources(self) -> dict[str, dict[str, Any]]:
        """What is recorded of the sampling: data, classes, evidence, versions, device, wall time; empty if nothing."""
        path = self.path / SOURCES
        if not path.exists():
            return {}
        try:
            read = unsealed(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError.expected("run", f"hold a readable {SOURCES}", f"{path}: {error}") from error
        if not all(isinstance(part, dict) for part in read.values()):
            raise InputError.expected("run", f"hold a {SOURCES} as certcal writes it", str(path))
        return read

    def changed(self) -> list[str]:
        """Files that are not as certcal wrote them, or are gone."""
        written = read_manifest(self.path) or {}
        return [name for name, own in written.items() if digest_of(self.path / name) != own]

    def evidence_digest(self) -> str:
        """SHA-256 of the evidence, or of the bounds in its place."""
        return digest_of(self.source)

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the run, whole or not at all; folders on the way are made."""
        with self.change() as change:
            change.write(name, content)

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file of the run; numbers keep every digit."""
        with self.change() as change:
            change.write_json(name, content)

    def log(self, line: str) -> None:
        """Add a line with the time to the log."""
        with open(open_own(self.path / LOG, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {line}\n")


def _refuse_others(name: str | os.PathLike[str]) -> None:
    """Refuse a file or a reference pack by what it is, and say what to do with it."""
    path = expanded("run", name)
    inputs = ""
    if path.is_file():
        kind, own, listed = "a file", str(name), ""
        with suppress(CertcalError):  # no Parquet file
            inputs = str(path.with_name(shared)) if (shared := inputs_of(path)) else ""
    elif (path / "manifest.toml").is_file():  # as `Pack` has it
        kind, own = "a reference pack", f"{path / 'evidence'}/NAME.parquet"
        inputs = f"{path / 'evidence'}/inputs-*.parquet"
        listed = f" `certcal reference list {name}` has its names."
    else:
        return
    what = InputError.expected("run", f"be a run folder, or a folder that holds {EVIDENCE}", f"{name}, which is {kind}")
    too = f" and {inputs} to FOLDER" if inputs else ""
    copy = f" Copy {own} to FOLDER/{EVIDENCE}{too}, and name FOLDER." if own.endswith(".parquet") else ""
    raise InputError(f"{what}{copy}{listed}")


def settings_from(evidence: Evidence, evaluate: EvaluateSettings) -> RunSettings:
    """The settings of a run whose evidence was drawn in Python: what it says itself."""
    header = evidence.header
    drawn = CertifySettings(
        sigma=header.sigma, n=int(evidence.draws.max()), n0=header.n0, seed=header.seed, outputs=header.outputs,
        temperatures=header.temperatures or None,
    )  # fmt: skip
    model, data = ModelSettings(name=IN_PYTHON), DataSettings(name=IN_PYTHON)
    return RunSettings(model=model, data=data, certify=drawn, evaluate=evaluate)


def save_bounds(bounds: Sequence[ConfidenceIntervals], path: Path) -> None:
    """Write certificates as Parquet, one row per input and radius."""
    pq.write_table(
        table_of(bounds),
        path,
        compression="zstd",
        use_dictionary=["radius"],  # bounds hardly repeat
        column_encoding=dict.fromkeys(("index", "label", "predicted"), "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    )
