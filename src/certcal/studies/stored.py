"""What tables and figures of the paper are drawn from: runs, studies, packs and evidence files, and their data sets."""

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from certcal.data import dataset_names
from certcal.errors import InputError, renaming, several
from certcal.evaluation import Outcome
from certcal.files import expanded
from certcal.runs import RunFolder
from certcal.smoothing import Evidence, load_evidence
from certcal.studies.pack import FOLDER, MANIFEST, Entry, Pack
from certcal.studies.starts import paired_outcomes
from certcal.studies.study import load_study, study_names
from certcal.studies.trials import OUTCOME, as_outcome

RUN, STUDY, PACK, FILE = "a run folder", "a folder of `certcal reproduce`", "a reference pack", "an evidence file"
TRACK = "paper"  # of a pack's rows: those with the paper's bounds
_IN_PYTHON = "given in Python"  # the data of a run that was not made by the command line
_CONFIG, _EVIDENCE, _RESULTS = "config.toml", "evidence.parquet", "results.json"


@dataclass(frozen=True)
class Model:
    """One model's evidence, which is read when it is wanted."""

    name: str
    data: str  # empty if nothing says it
    read: Callable[[], Evidence]
    seed: int | None = None  # of its training, if that is recorded


@dataclass(frozen=True)
class Source:
    """What one `--from` names."""

    path: Path
    kind: str
    data: tuple[str, ...]  # names of the data sets, as far as they are recorded

    @classmethod
    def found(cls, name: str | os.PathLike[str]) -> "Source":
        """The source of a path, or of a name below runs/; a path that exists is taken first.

        Raises: InputError if there is none.
        """
        if not str(name):
            raise InputError.expected("from", "be a folder, a file, or a name below runs/", "an empty name")
        path = expanded("from", name)
        places = [place for place in (path, Path("runs") / path) if place.exists()]
        if not places:
            raise InputError.expected("from", "be a folder or file that exists, or a name below runs/", str(path))
        known = [(place, kind) for place in places if (kind := _kind(place))]
        if not known:
            wanted = f"be {RUN}, {STUDY}, {PACK} or {FILE}"
            why = "which is no .parquet file" if places[0].is_file() else "which holds none of their files"
            raise InputError.expected("from", wanted, f"{places[0]}, {why}")
        place, kind = known[0]
        if kind == PACK:
            data = [one.data for one in _pack(place).entry]
        elif kind == FILE:
            data = [one.data for _, one in _entry_of(place)]
        else:
            data = [_recorded(folder) for folder in (_folders(place) if kind == STUDY else [place])]
        return cls(place, kind, tuple(dict.fromkeys(filter(None, data))))

    def check_data(self, wanted: str) -> str:
        """What to warn of where nothing says that the source is about a data set.

        Raises: InputError if it is about another one.
        """
        if not wanted:
            return ""
        named = {*dataset_names(), *study_names()}  # what is not among them, such as a folder, may be anything
        if self.kind == PACK:
            others = [] if wanted in self.data else list(self.data)
        else:
            others = [one for one in self.data if one != wanted and one in named]
        if others:
            raise InputError.expected("from", f"be about {wanted}", f"{self.path}, which is about {', '.join(others)}")
        if wanted in self.data:
            return ""
        about = f"is about {', '.join(self.data)}" if self.data else "does not record its data set"
        return f"{self.path} {about}: nothing says that this is {wanted}."

    def models(self, data: str, *, every: bool) -> list[Model]:
        """The models with evidence; of a pack every first one of its data set and σ, or `every` one of the first seed.

        Raises: InputError if there is no evidence where it should be.
        """
        if self.kind == PACK:
            pack, entries = _pack(self.path), _entries(_pack(self.path), data)
            chosen = entries if every else _baselines(pack, entries)
            return [Model(one.name, one.data, _reader(pack, one), one.train_seed) for one in chosen]
        label = self.data[0] if len(self.data) == 1 else ""
        if self.kind == FILE:
            for pack, entry in _entry_of(self.path):
                return [Model(entry.name, entry.data, _reader(pack, entry))]
            return [Model(self.path.stem, label, lambda: _loaded(self.path))]
        if self.kind == RUN:
            return [Model(self.path.name, label, lambda: _loaded(_run(self.path)))]
        if not every:
            raise InputError.expected("from", f"be {RUN}, {PACK} or {FILE}", f"{self.path}, a folder of models")
        below = sorted(self.path.rglob(_EVIDENCE))
        return [Model(path.parent.name, label, lambda own=path: _loaded(own)) for path in below]  # type: ignore[misc]

    def how_made(self, data: str) -> str:
        """Network, epochs, draws and inputs of a pack's models, and what the study of that data has instead."""
        return _how_made(data, *_compared(_pack(self.path), data)) if self.kind == PACK else ""

    def outcomes(self, data: str, *, paired: bool = False) -> dict[str, list[Outcome]]:
        """What came of the models, by data set; of a pack, by the paper's bounds and of the first seed.

        `paired`: of a pack, models fine-tuned and the baselines that they started from.

        Raises: InputError if the source keeps no such results.
        """
        if self.kind == PACK:
            pack = _pack(self.path)
            names = dict.fromkeys(one.data for one in _entries(pack, data))
            return {own: paired_outcomes(pack, own, TRACK) if paired else _pack_outcomes(pack, own) for own in names}
        wanted = f"be {STUDY} or {PACK}"
        if self.kind != STUDY:
            raise InputError.expected("from", wanted, f"{self.path}, {self.kind}")
        failures = (OSError, ValueError, TypeError, AttributeError, RecursionError)
        got = f"{self.path}, whose {_RESULTS} cannot be read"
        with InputError.expecting("from", wanted, got, on=failures):
            rows = json.loads((self.path / _RESULTS).read_text(encoding="utf-8"))
            made = [as_outcome(row) for row in rows if "failed" not in row]
        return {", ".join(self.data): made}


def _kind(path: Path) -> str:
    if path.is_file():
        return FILE if path.suffix == ".parquet" else ""
    if (path / MANIFEST).is_file():
        return PACK
    if (path / _RESULTS).is_file():
        return STUDY
    if any((path / name).exists() for name in (_CONFIG, _EVIDENCE)):
        return RUN
    return STUDY if next(path.rglob(_EVIDENCE), None) else ""


def _folders(study: Path) -> Iterator[Path]:
    yield from (path.parent for name in (OUTCOME, _CONFIG) for path in sorted(study.rglob(name)))


def _recorded(folder: Path) -> str:
    """The data set that a run or trial says it was certified on; empty if it says nothing."""
    try:
        if (folder / OUTCOME).is_file():
            name = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["trial"]["recipe"]["test"]["name"]
        else:
            name = tomllib.loads((folder / _CONFIG).read_text(encoding="utf-8"))["data"]["name"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return "" if name == _IN_PYTHON else str(name)


def _renamed() -> AbstractContextManager[None]:
    return renaming(dict.fromkeys(("run", "pack", "paths", "path", "evidence", "shard"), "from"))


def _pack(folder: Path) -> Pack:
    with _renamed():
        return Pack.read(folder)


def _loaded(path: Path) -> Evidence:
    with _renamed():
        return load_evidence(path)


def _reader(pack: Pack, entry: Entry) -> Callable[[], Evidence]:
    def read() -> Evidence:
        with _renamed():
            return pack.evidence(entry)

    return read


def _run(folder: Path) -> Path:
    with _renamed():
        run = RunFolder.existing(folder)
    return run.evidence if run.evidence.is_file() else run.path


def _entry_of(file: Path) -> Iterator[tuple[Pack, Entry]]:
    """The pack and entry of an evidence file, if it lies in a pack."""
    folder = file.resolve().parent
    if folder.name == FOLDER and (folder.parent / MANIFEST).is_file():
        pack = _pack(folder.parent)
        yield from ((pack, one) for one in pack.entry if one.name == file.stem)


def _entries(pack: Pack, data: str) -> list[Entry]:
    """Entries with rows, of the first seed, of a data set if one is named, each with the network most common there.

    What was trained again with that seed is left out: the best of several trainings would be too good.
    """
    first = [one for one in pack.entry if one.radii and not one.train_seed and not one.name.endswith("-again")]
    own = [one for one in first if data in ("", one.data)]
    networks: dict[str, Counter[str]] = {}
    for one in pack.entry:
        if one.radii:
            networks.setdefault(one.data, Counter())[one.network] += 1
    return [one for one in own if one.network == networks[one.data].most_common(1)[0][0]]


def _baselines(pack: Pack, entries: list[Entry]) -> list[Entry]:
    """The first entry of each data set and σ that was not fine-tuned, by rising σ."""
    first: dict[tuple[str, float], Entry] = {}
    for one in entries:
        if not one.baseline:
            first.setdefault((one.data, _reader(pack, one)().header.sigma), one)
    order = list(dict.fromkeys(one.data for one in entries))
    return [first[key] for key in sorted(first, key=lambda key: (order.index(key[0]), key[1]))]


def _compared(pack: Pack, data: str) -> tuple[dict[str, Entry], list[int], int]:
    """Entries that have as many inputs as most, by name, with the least and most draws and the inputs.

    Errors of other inputs are not compared.
    """
    entries = _entries(pack, data)
    drawn = {one.name: (len(own.draws), int(own.draws.min()), int(own.draws.max()))
             for one in entries for own in [_reader(pack, one)()]}  # fmt: skip
    usual = Counter(inputs for inputs, *_ in drawn.values()).most_common(1)[0][0]
    kept = {one.name: one for one in entries if drawn[one.name][0] == usual}
    draws = sorted(own for name in kept for own in drawn[name][1:])
    return kept, sorted({draws[0], draws[-1]}), usual


def _pack_outcomes(pack: Pack, data: str) -> list[Outcome]:
    """The rows of a pack as outcomes of its models. Baselines have the names that what was tuned from them says."""
    entries, *_ = _compared(pack, data)
    tuned_from = {one.baseline.lower(): one.baseline for one in entries.values() if one.baseline}
    names = {}
    for one in entries.values():
        short = re.sub(r"-seed\d+$", "", one.name.removeprefix(f"{data}-"))
        names[one.name] = one.name if one.baseline else tuned_from.get(short, tuned_from.get(one.name, short))
    with _renamed():
        rows = [row for row in pack.rows() if row.track == TRACK and row.entry in entries]
    return [
        Outcome(entries[row.entry].method, names[row.entry], row.radius, row.certified_accuracy, row.certified_ece,
                row.certified_brier, baseline=entries[row.entry].baseline or names[row.entry])
        for row in rows
        if row.certified_accuracy > 0
    ]  # fmt: skip


def _how_made(data: str, entries: dict[str, Entry], draws: list[int], inputs: int) -> str:
    starts = (re.match(r"(\d+) epochs", one.settings) for one in entries.values() if not one.baseline)
    epochs = sorted({int(found[1]) for found in starts if found})
    told, study = [next(iter(entries.values())).network], load_study(data) if data in study_names() else None
    wanted = {} if study is None else {"epochs": study.train.get("epochs"), "draws": study.all_draws}
    for unit, ours in (("epochs", epochs), ("draws", draws)):
        if ours:
            instead = f" where the study has {wanted[unit]:,}" if wanted.get(unit) and ours != [wanted[unit]] else ""
            told.append(f"{'–'.join(f'{one:,}' for one in ours)} {unit}{instead}")
    return ", ".join([*told, several(inputs)])
