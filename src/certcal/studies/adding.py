"""Adding to a reference pack: a run's evidence, what is known of it, and the rows that it gives."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from certcal.certificates import certified_radius
from certcal.errors import CertcalError, InputError
from certcal.files import hold_folder, remove_litter, replacing
from certcal.runs import RunFolder, digest_of
from certcal.scalars import guarded
from certcal.settings import build, toml_list
from certcal.smoothing import Evidence, evidence_digest, inputs_of, save_evidence
from certcal.studies.pack import FOLDER, MANIFEST, ROWS, Entry, Pack
from certcal.studies.pack_checks import Together
from certcal.studies.reference_rows import ALPHA

_HEAD = "What each evidence file is of; `certcal reference` verifies and recomputes."
_OURS = (FOLDER, ROWS, ".lock")  # all that a pack has until its first entry is whole
_FAR = 4  # σ, from where on even 200 000 draws that agree certify nothing


@guarded
def add_to_pack(folder: str | Path, evidence: Evidence, entry: Mapping[str, Any], *, approximate: bool = False) -> Pack:
    """The pack with one more entry: evidence, manifest and rows are written; the folder is made if it is missing.

    An entry without `brier_loss` gets the one that most entries of its data set have.

    Paper: —; reference packs are ours.
    Raises: InputError if another entry has that name or evidence already, or other labels for inputs of its data set,
        or if the folder holds something else.
    """
    path = Path(folder)
    _check_place(path)
    (path / FOLDER).mkdir(parents=True, exist_ok=True)
    with hold_folder(path, "pack", "is adding to"):
        for place in (path, path / FOLDER):
            remove_litter(place)
        return _with_entry(path, evidence, entry, approximate)


def _check_place(path: Path) -> None:
    if (path / FOLDER).is_symlink():  # a stranger's pack may lead elsewhere
        raise InputError.expected("pack", "hold folders of its own", f"{path / FOLDER}, a link to another place")
    wanted = "be a pack, an empty folder, or a folder that is yet to be made"
    for place in (path, path / FOLDER):
        if place.exists() and not place.is_dir():
            raise InputError.expected("pack", wanted, f"{place}, a file")
    if path.is_dir() and not (path / MANIFEST).is_file():
        held = sorted(one.name for one in path.iterdir() if one.name not in _OURS and not one.name.endswith(".part"))
        if held:
            raise InputError.expected("pack", wanted, f"{path}, which holds {held[0]}")


def _with_entry(path: Path, evidence: Evidence, entry: Mapping[str, Any], approximate: bool) -> Pack:
    """The manifest is written last: without it an entry is not there, and the same command adds it again."""
    pack = Pack.read(path) if (path / MANIFEST).is_file() else Pack(path, ())
    own = build(Entry, _as_others(pack, entry) | {"sha256": ""}, f"entry {entry.get('name', '')}".strip())
    names, file = {one.name: one for one in pack.entry}, pack.file(own)
    if before := names.get(own.name):
        same = replace(before, sha256="") == own and evidence_digest(pack.evidence(before)) == evidence_digest(evidence)
        if same:  # it was added, and the command did not live to say so
            return pack
        raise InputError.expected("name", "be new in the pack", repr(own.name))
    _check_radii(own, evidence)
    _check_new(pack, own, evidence)
    rows = pack.rows() if names else []
    there = {*file.parent.glob("inputs-*")}
    save_evidence(evidence, file, compact=True, share_inputs=True)
    own = replace(own, sha256=digest_of(file))
    new = Pack(path, (*pack.entry, own))
    try:
        made = new.made(own, approximate=approximate)
    except (InputError, CertcalError):
        inputs = file.with_name(inputs_of(file))
        for stray in {file, inputs} - there:  # inputs that other entries have stay
            stray.unlink()
        raise
    new.write_rows([*rows, *made])
    with replacing(path / MANIFEST) as part:
        part.write_text(toml_list("entry", new.entry, head=_HEAD), encoding="utf-8")
    return new


def _as_others(pack: Pack, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry, with the limit that most others of its data set have where it gives none: rows are compared."""
    known = Counter(one.brier_loss for one in pack.entry if one.data == entry.get("data"))
    return ({"brier_loss": known.most_common(1)[0][0]} if known else {}) | dict(entry)


def _check_radii(own: Entry, evidence: Evidence) -> None:
    """Rows where nothing can be certified would only fill the table."""
    sigma, draws = evidence.header.sigma, evidence.draws.max(initial=1)
    reached = np.nan_to_num(certified_radius(draws, draws, sigma=sigma, alpha=ALPHA)).item()
    far = [radius for radius in own.radii if radius >= max(_FAR * sigma, reached)]
    if far:
        wanted = f"lie below {_FAR} σ = {_FAR * sigma:g}, from where on nothing is certified even if all draws agree"
        raise InputError.expected("radii", wanted, far)


def _check_new(pack: Pack, own: Entry, evidence: Evidence) -> None:
    """One model under two names would be two on a leaderboard, and an input has one label."""
    together = Together()
    for one in pack.entry:
        together.problems(one.name, one.data, pack.evidence(one))
    if problems := together.problems(own.name, own.data, evidence):
        raise InputError.expected("evidence", "be new and of the labels that its data set has in the pack", problems[0])


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
