"""The attack folder of a run: what attacks left there, if it is about the run's evidence."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from certcal.attacks import ACE, CURVES, MOVED, SANDWICH, AceTable, Sandwich, from_plain, to_plain
from certcal.errors import InputError
from certcal.files import plain, sealed, unsealed
from certcal.report import ace_tables, attack_data, attack_diagrams, sandwich_tables
from certcal.runs.drawing import save_figure
from certcal.runs.folder import RunFolder
from certcal.runs.switch import Change
from certcal.smoothing import Evidence, evidence_digest

FOLDER = "attack"
_KEYS = {"inputs", "of", "holds", "rows", *CURVES, MOVED, "made_with", "provenance"}
UNFINISHED = "unfinished"  # among what a family was made with, while attacks are still to come


@dataclass(frozen=True, eq=False)
class Family:
    """One family of attacks: what it found, with which settings, evidence and model, when and where."""

    record: Sandwich | AceTable
    made_with: Mapping[str, Any]
    provenance: Mapping[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        return to_plain(self.record) | {"made_with": self.made_with, "provenance": self.provenance}


@dataclass(frozen=True, eq=False)
class Kept:
    """The families of attacks that a run's folder holds and that are about its evidence."""

    families: Mapping[str, Family]
    stale: tuple[str, ...]  # families left out, because the evidence has changed since
    broken: tuple[str, ...] = ()  # families left out, because their file is not as this version writes it

    @property
    def sandwich(self) -> Sandwich | None:
        """Attacks on the smoothed model."""
        return next((one.record for one in self.families.values() if isinstance(one.record, Sandwich)), None)

    @property
    def ace(self) -> AceTable | None:
        """Attacks on the network without noise."""
        return next((one.record for one in self.families.values() if isinstance(one.record, AceTable)), None)

    @property
    def left_out(self) -> str:
        """Which families are left out and why; empty if none is."""
        why = dict.fromkeys(self.stale, "the evidence has changed since")
        why |= {name: f"{FOLDER}/{name}.json is not as this version of certcal writes it" for name in self.broken}
        parts = [f"{name} left out, as {reason}" for name, reason in why.items()]
        begun = [(name, len(one.record)) for name, one in self.families.items() if UNFINISHED in one.made_with]
        return "; ".join([*parts, *(f"{name} is unfinished, with {count} attacks done" for name, count in begun)])

    def __bool__(self) -> bool:
        return bool(self.families)

    def metrics(self) -> dict[str, Any]:
        """What metrics.json says about attacks: rows and settings, without curves and pictures."""
        return {
            name: {key: value for key, value in family.as_dict().items() if key not in (*CURVES, MOVED)}
            for name, family in self.families.items()
        }

    def page(self, radius: float, certificates: dict[str, Any]) -> dict[str, Any] | None:
        """What a page that opens at a radius shows of attacks; None if there are none."""
        if not self and not self.left_out:
            return None
        return attack_data(self.sandwich, self.ace, radius=radius, certificates=certificates, left_out=self.left_out)

    def write_figures(self, into: Change, radius: float) -> None:
        """The figures of attacks, that of one radius at the radius closest to that given."""
        for name, panels in attack_diagrams(self.sandwich, self.ace, radius=radius).items():
            save_figure(into, name, *panels)


def kept_attacks(run: RunFolder, evidence: Evidence | None) -> Kept:
    """What the attack folder holds that fits the evidence."""
    found: dict[str, Family] = {}
    broken = []
    for name in (SANDWICH, ACE):
        try:
            family = read_family(run, name)
        except InputError:
            broken.append(name)
        else:
            found |= {} if family is None else {name: family}
    # Earlier versions compared files, which also say when they were written.
    known = (run.evidence_digest(),) if found and run.source.is_file() else ()
    if found and evidence is not None:
        known = (evidence_digest(evidence), *known)
    fitting = {name: own for name, own in found.items() if own.made_with.get("evidence") in known}
    return Kept(fitting, tuple(name for name in found if name not in fitting), tuple(broken))


def read_family(run: RunFolder, name: str) -> Family | None:
    """One family from its JSON file; None if there is none."""
    path = run.path / FOLDER / f"{name}.json"
    if not path.exists():
        return None
    try:
        read = unsealed(json.loads(path.read_text(encoding="utf-8")))
        if extra := read.keys() - _KEYS:
            raise ValueError(f"it has {', '.join(extra)}")
        return Family(from_plain(name, read), dict(read["made_with"]), read.get("provenance"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError.expected(
            "run", f"hold a {FOLDER}/{name}.json as certcal writes it (or none)", str(path)
        ) from error


def write_family(run: RunFolder, name: str, family: Family) -> None:
    """The tables of one family and its JSON file."""
    record = family.record
    tables = sandwich_tables(record) if isinstance(record, Sandwich) else ace_tables(record)
    with run.change() as change:
        for ending, text in tables.items():
            change.write(f"{FOLDER}/{name}.{ending}", text)
        change.write_json(f"{FOLDER}/{name}.json", sealed(plain(family.as_dict())))
