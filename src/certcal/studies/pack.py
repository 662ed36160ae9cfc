"""A reference pack: evidence with its digests, from which anyone recomputes the rows of a table."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from certcal.errors import CertcalError, InputError, kind_of, one_line
from certcal.files import hold_folder, plain, replacing
from certcal.runs import RunFolder, digest_of
from certcal.scalars import guarded
from certcal.settings import BRIER_LOSS, build, read_toml
from certcal.smoothing import Evidence, inputs_of, load_evidence
from certcal.studies import pack_checks as checks
from certcal.studies.reference_rows import SPLITS, ReferenceRow, entry_rows

MANIFEST, ROWS, FOLDER, INPUTS = "manifest.toml", "rows.json", "evidence", "inputs-"
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]{0,99}")
_LATER = {one.name for one in fields(ReferenceRow) if one.default is not MISSING}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model's evidence, and what it does not say itself."""

    name: str
    data: str  # such as fashion-mnist, by which it stands beside a published table
    network: str
    method: str  # how the model was trained
    radii: tuple[float, ...]  # at which rows are made; none where it is only there to fit maps on
    sha256: str  # of the evidence file
    mapped: tuple[float, ...] = ()  # radii with rows after a map too
    fitted_on: str = ""  # the entry of the same model on other inputs that maps are fitted on; else random halves
    splits: int = SPLITS  # random halves, each in turn, that maps are judged on
    brier_loss: float = BRIER_LOSS  # by how much a map may raise the clean Brier score of all inputs
    freer: tuple[float, ...] = ()  # radii with rows after a map that may raise it by FREER_LOSS
    settings: str = ""  # of the training, in words
    baseline: str = ""  # that it was fine-tuned from
    train_seed: int | None = None
    chosen: str = ""  # how it came to be quoted
    source: str = "source not stated"  # who drew the evidence
    device: str = ""
    versions: dict[str, Any] = field(default_factory=dict)
    commit: str = ""
    train_seconds: float | None = None
    certify_seconds: float | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            wanted = "hold only small letters, digits and . _ + -, and begin with a letter or digit"
            raise InputError.expected("name", wanted, repr(self.name))
        if self.name.startswith(INPUTS):  # which are files beside the evidence
            raise InputError.expected("name", f"not begin with {INPUTS}", repr(self.name))
        for name in ("radii", "mapped", "freer"):
            own = getattr(self, name)
            if len(set(own)) < len(own) or not all(0 <= radius < math.inf for radius in own):
                raise InputError.expected(name, "hold different radii ≥ 0", list(own))
            if stray := sorted({*own} - {*self.radii}):
                raise InputError.expected(name, f"be among the radii {list(self.radii)}", f"{stray} in {self.name}")
        if not 1 <= self.splits <= 100:
            raise InputError.expected("splits", "be an integer from 1 to 100", self.splits)
        if not 0 <= self.brier_loss <= BRIER_LOSS:
            wanted = f"lie in [0, {BRIER_LOSS:g}] (maps that cost more are rows of `freer`)"
            raise InputError.expected("brier_loss", wanted, self.brier_loss)
        for name in ("train_seconds", "certify_seconds"):
            if (own := getattr(self, name)) is not None and not 0 <= own < math.inf:
                raise InputError.expected(name, "be a number ≥ 0", f"{own} in {self.name}")
        if strange := [key for key, own in self.versions.items() if not isinstance(own, str)]:
            raise InputError.expected("versions", "be texts", f"{self.versions[strange[0]]!r} in {self.name}")


@dataclass(frozen=True)
class Pack:
    """A folder with entries, their evidence and their rows."""

    folder: Path
    entry: tuple[Entry, ...]

    @classmethod
    @guarded
    def read(cls, folder: str | Path) -> "Pack":
        """The pack in a folder.

        Raises: InputError if there is none, or two entries have one name.
        """
        path = Path(folder)
        if not (path / MANIFEST).is_file():
            raise _no_pack(path)
        with InputError.expecting("pack", f"hold a {MANIFEST} of its entries", on=OverflowError):
            entries = build(_Entries, read_toml(path / MANIFEST), str(path / MANIFEST)).entry
        names = [one.name for one in entries]
        if twice := next((one for one in names if names.count(one) > 1), None):
            raise InputError.expected("pack", "name each entry once", f"{twice} twice")
        return cls(path, entries)

    @property
    def evidence_folder(self) -> Path:
        """Where all evidence is."""
        return self.folder / FOLDER

    def file(self, entry: Entry) -> Path:
        """Where the evidence of an entry is."""
        return self.evidence_folder / f"{entry.name}.parquet"

    def evidence(self, entry: Entry) -> Evidence:
        """The evidence of an entry, as its digest says.

        Raises: InputError if the file is missing or another one.
        """
        if problem := self.problem(entry):
            raise InputError.expected("pack", "hold the evidence that its manifest names", problem)
        return load_evidence(self.file(entry))

    def problem(self, entry: Entry) -> str:
        """What is wrong with the evidence file of an entry; nothing if it is the one that was added."""
        path = self.file(entry)
        if path.is_symlink():  # what it leads to is nobody's to send
            return f"{entry.name}: {path} is a link to another place"
        if not path.is_file():
            return f"{entry.name}: {path} is missing"
        if digest_of(path) != entry.sha256:
            return f"{entry.name}: {path} is not the file that was added"
        with suppress(CertcalError):  # what is no evidence is told by those who read it
            if (inputs := inputs_of(path)) and path.with_name(inputs).is_symlink():
                return f"{entry.name}: {path.with_name(inputs)} is a link to another place"
        return ""

    def problems(self) -> list[str]:
        """What is wrong with the pack: with its evidence, and where its rows are not those that the manifest says."""
        return self.evidence_problems() + self.row_problems()

    def evidence_problems(self) -> list[str]:
        """What is wrong with its evidence: missing, changed, a link, of nobody, the same twice, with other labels."""
        return checks.evidence_problems(self)

    def row_problems(self) -> list[str]:
        """Which rows are missing, too many, or of no entry."""
        return checks.row_problems(self.folder / ROWS, self.entry, self._stored())

    def recompute(self, names: Iterable[str] = (), *, approximate: bool = False) -> list[ReferenceRow]:
        """The rows of the entries named, of all by default, from their evidence; `approximate` as for `entry_rows`."""
        chosen = [one for one in self.entry if not names or one.name in set(names)]
        return [row for one in chosen for row in self.made(one, approximate=approximate)]

    def made(self, entry: Entry, *, approximate: bool = False) -> list[ReferenceRow]:
        """The rows of one entry, from the evidence.

        Raises: InputError if maps are to be fitted on inputs that they are judged on, or for another model.
        """
        own, fit = self.evidence(entry), None
        if entry.fitted_on:
            known = {one.name: one for one in self.entry}
            if entry.fitted_on not in known:
                raise InputError.expected("fitted_on", "name an entry of the pack", repr(entry.fitted_on))
            fit = self.evidence(known[entry.fitted_on])
            if set(fit.content.tolist()) & set(own.content.tolist()):
                raise InputError.expected("fitted_on", "hold other inputs than its own", repr(entry.fitted_on))
            if fit.header.model != own.header.model or fit.header.sigma != own.header.sigma:
                raise InputError.expected("fitted_on", "be of the same model and σ", repr(entry.fitted_on))
        how = {name: getattr(entry, name) for name in ("mapped", "freer", "brier_loss", "splits")}
        return entry_rows(entry.name, own, entry.radii, fit=fit, approximate=approximate, **how)

    def rows(self) -> list[ReferenceRow]:
        """The rows as they are stored, without those of no entry: a command was killed before it named that one.

        Raises: InputError if they are damaged, or one stands twice.
        """
        names = {one.name for one in self.entry}
        return [row for row in self._stored() if row.entry in names]

    def _stored(self) -> list[ReferenceRow]:
        path = self.folder / ROWS
        failures = (OSError, ValueError, RecursionError)
        with InputError.expecting(
            "pack", f"hold a {ROWS} of its rows", lambda why: f"{path} ({one_line(why)})", on=failures
        ):
            read = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(read, list):
            raise InputError.expected("pack", f"hold a {ROWS} with a list of its rows", f"{kind_of(read)} in {path}")
        found = [ReferenceRow.of(row, f"row {place} in {path}") for place, row in enumerate(read, 1)]
        keys = Counter(row.key for row in found)
        if twice := next((key for key, count in keys.items() if count > 1), None):
            raise InputError.expected("pack", "hold each row once", f"{checks.named(twice)} twice in {path}")
        return found

    def store(self, made: Sequence[ReferenceRow], names: Iterable[str] = ()) -> list[str]:
        """Store rows of the entries named, of all by default, and tell what changed.

        An ACCE that was not made again is kept.
        """
        some, own = set(names), {one.name for one in self.entry}
        with hold_folder(self.folder, "pack", "is writing rows of"):
            before = self._stored() if some or (self.folder / ROWS).is_file() else []
            known = {row.key: row.acce for row in before}
            rows = [
                replace(row, acce=known.get(row.key, math.nan))
                if math.isnan(row.acce) and checks.may_have_acce(row)
                else row
                for row in made
            ]
            later = {one.name for one in Pack.read(self.folder).entry} - own  # added while these were made
            kept = [row for row in before if row.entry in later or (some and row.entry not in some)]
            self.write_rows([*kept, *rows])
        same = {row.key for row in kept}
        return checks.differences([row for row in before if row.key not in same], rows)

    def write_rows(self, rows: Sequence[ReferenceRow]) -> None:
        """Store the rows, one to a line, without what is not known of every row."""
        told = [{key: value for key, value in plain(vars(row)).items() if value is not None or key not in _LATER}
                for row in rows]  # fmt: skip
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in told)
        with replacing(self.folder / ROWS) as part:
            part.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _no_pack(path: Path) -> InputError:
    """What is there instead of a pack, and what to do with a run."""
    how = "a file" if path.is_file() else "which has none" if path.is_dir() else "which does not exist"
    for run in map(RunFolder, (path, Path("runs") / path)):
        if run.config.is_file() or run.evidence.is_file():
            what = InputError.expected("pack", f"be a folder with a {MANIFEST}", f"{run.path}, which is a run folder")
            return InputError(f"{what} Add it with: certcal reference add PACK --run {run.path} --name NAME")
    return InputError.expected("pack", f"be a folder with a {MANIFEST}", f"{path}, {how}")


@dataclass(frozen=True, kw_only=True)
class _Entries:
    entry: tuple[Entry, ...] = ()
