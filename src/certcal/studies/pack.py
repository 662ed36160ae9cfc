"""A reference pack: evidence with its digests, from which anyone recomputes the rows of a table."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.files import hold_folder, plain, remove_litter, replacing
from certcal.runs import RunFolder, digest_of
from certcal.scalars import guarded
from certcal.settings import BRIER_LOSS, build, read_toml, toml_list
from certcal.smoothing import Evidence, evidence_digest, load_evidence, save_evidence
from certcal.studies.reference_rows import LOOSE, PLAIN, SPLITS, ReferenceRow, entry_rows

MANIFEST, ROWS, FOLDER = "manifest.toml", "rows.json", "evidence"
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]{0,99}")
_LATER = {one.name for one in fields(ReferenceRow) if one.default is not MISSING}
_HEAD = "What each evidence file is of; `certcal reference` verifies and recomputes."


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
            raise InputError.expected("pack", f"be a folder with a {MANIFEST}", str(folder))
        entries = build(_Entries, read_toml(path / MANIFEST), str(path / MANIFEST)).entry
        names = [one.name for one in entries]
        if twice := next((one for one in names if names.count(one) > 1), None):
            raise InputError.expected("pack", "name each entry once", f"{twice} twice")
        return cls(path, entries)

    def file(self, entry: Entry) -> Path:
        """Where the evidence of an entry is."""
        return self.folder / FOLDER / f"{entry.name}.parquet"

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
        if not path.is_file():
            return f"{entry.name}: {path} is missing"
        return "" if digest_of(path) == entry.sha256 else f"{entry.name}: {path} is not the file that was added"

    def problems(self) -> list[str]:
        """What is wrong with the pack's files: missing, changed, or not in the manifest."""
        known = {self.file(one) for one in self.entry}
        stray = sorted({*(self.folder / FOLDER).glob("*")} - known)
        found = [problem for one in self.entry if (problem := self.problem(one))]
        return found + [f"{path} is not in the manifest" for path in stray]

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
        """The rows as they are stored."""
        try:
            read = json.loads((self.folder / ROWS).read_text(encoding="utf-8"))
            found = [ReferenceRow.of(row) for row in read]
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise InputError.expected("pack", f"hold a {ROWS} of its rows", f"{self.folder} ({error})") from error
        keys = [row.key for row in found]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InputError.expected("pack", "hold each row once", f"{_named(twice)} twice in {self.folder / ROWS}")
        return found

    def store(self, made: Sequence[ReferenceRow], names: Iterable[str] = ()) -> list[str]:
        """Store rows of the entries named, of all by default, and tell what changed.

        An ACCE that was not made again is kept.
        """
        before = self.rows() if names or (self.folder / ROWS).is_file() else []
        known, named = {row.key: row.acce for row in before}, set(names)
        rows = [replace(row, acce=known.get(row.key, math.nan)) if math.isnan(row.acce) else row for row in made]
        self.write_rows([*(row for row in before if named and row.entry not in named), *rows])
        return differences([row for row in before if not named or row.entry in named], rows)

    def write_rows(self, rows: Sequence[ReferenceRow]) -> None:
        """Store the rows, one to a line, without what is not known of every row."""
        told = [{key: value for key, value in plain(vars(row)).items() if value is not None or key not in _LATER}
                for row in rows]  # fmt: skip
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in told)
        with replacing(self.folder / ROWS) as part:
            part.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class _Entries:
    entry: tuple[Entry, ...] = ()


def differences(stored: Sequence[ReferenceRow], made: Sequence[ReferenceRow]) -> list[str]:
    """Where stored rows differ from rows that were made again: missing, too many, or other numbers.

    An ACCE that is not stored, or was not made again, is not compared.
    """
    before, after = ({row.key: row for row in rows} for rows in (stored, made))
    numbers = [one.name for one in fields(ReferenceRow) if one.name not in ("entry", "track", "radius")]
    found = [f"{_named(key)}: not stored" for key in after.keys() - before.keys()]
    found += [f"{_named(key)}: stored, but no evidence gives it" for key in before.keys() - after.keys()]
    for key in before.keys() & after.keys():
        for name in numbers:
            one, other = getattr(before[key], name), getattr(after[key], name)
            fitted = key[1] not in PLAIN and name not in ("certified_accuracy", "brier_all_before")
            slack = LOOSE if name == "acce" or fitted else 1e-9
            missing = math.isnan(one + other) if name == "acce" else math.isnan(one) and math.isnan(other)
            if not (missing or abs(one - other) <= slack):
                found.append(f"{_named(key)}: {name} is {other:.6f}, stored as {one:.6f}")
    return sorted(found)


def _named(key: tuple[str, str, float]) -> str:
    return f"{key[0]}, {key[1]}, R = {key[2]:g}"


@guarded
def add_to_pack(folder: str | Path, evidence: Evidence, entry: Mapping[str, Any], *, approximate: bool = False) -> Pack:
    """The pack with one more entry: evidence, manifest and rows are written; the folder is made if it is missing.

    Paper: —; reference packs are ours.
    Raises: InputError if another entry has that name already.
    """
    path = Path(folder)
    if (path / FOLDER).is_symlink():  # a stranger's pack may lead elsewhere
        raise InputError.expected("pack", "hold folders of its own", f"{path / FOLDER}, a link to another place")
    (path / FOLDER).mkdir(parents=True, exist_ok=True)
    with hold_folder(path, "pack", "is adding to"):
        for place in (path, path / FOLDER):
            remove_litter(place)
        return _with_entry(path, evidence, entry, approximate)


def _with_entry(path: Path, evidence: Evidence, entry: Mapping[str, Any], approximate: bool) -> Pack:
    """The manifest is written last: without it an entry is not there, and the same command adds it again."""
    pack = Pack.read(path) if (path / MANIFEST).is_file() else Pack(path, ())
    own = build(Entry, dict(entry) | {"sha256": ""}, "entry")
    names, file = {one.name: one for one in pack.entry}, pack.file(own)
    if before := names.get(own.name):
        same = replace(before, sha256="") == own and evidence_digest(pack.evidence(before)) == evidence_digest(evidence)
        if same:  # it was added, and the command did not live to say so
            return pack
        raise InputError.expected("name", "be new in the pack", repr(own.name))
    save_evidence(evidence, file, compact=True)
    own = replace(own, sha256=digest_of(file))
    new = Pack(path, (*pack.entry, own))
    try:
        made = new.made(own, approximate=approximate)
    except InputError:
        file.unlink()
        raise
    new.write_rows([*(row for row in (pack.rows() if names else []) if row.entry in names), *made])
    with replacing(path / MANIFEST) as part:
        part.write_text(toml_list("entry", new.entry, head=_HEAD), encoding="utf-8")
    return new


def entry_of_run(run: RunFolder, **facts: Any) -> dict[str, Any]:
    """What a run folder knows of an entry, changed by what is given."""
    sources, settings = run.sources(), run.settings()
    train, certify = (sources.get(key) or {} for key in ("train", "certify"))
    known = {
        "data": settings.data.name,
        "network": settings.model.name,
        "method": (train.get("objective") or {}).get("name"),
        "radii": settings.evaluate.radii,
        "device": certify.get("device"),
        "versions": certify.get("versions"),
        "commit": certify.get("certcal_commit"),
        "train_seconds": train.get("seconds"),
        "certify_seconds": certify.get("seconds"),
    }
    return {key: value for key, value in (known | facts).items() if value is not None}
