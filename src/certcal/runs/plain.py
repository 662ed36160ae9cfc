"""Runs without noise: certificates from elsewhere, kept in a run folder and evaluated like any other."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from certcal.certificates import ConfidenceIntervals, intervals_by_radius, intervals_from_log
from certcal.errors import CertcalError, InputError
from certcal.evaluation import as_given
from certcal.files import plain, sealed
from certcal.runs.facts import provenance
from certcal.runs.folder import BOUNDS, CONFIG, EVIDENCE, GROUPS, SOURCES, RunFolder, Tell, save_bounds
from certcal.runs.groups import columns_beside
from certcal.runs.switch import digest_of
from certcal.scalars import exactly, guarded, one_or_more
from certcal.settings import (
    BoundsRunSettings,
    BoundsSettings,
    Norm,
    build_sections,
    merged,
    read_toml,
    settings_text,
)

LOG = ".tsv"  # certification logs of the field
NOT_NAMED = "not named"  # the model or data of bounds that nobody named any for


@guarded
def import_bounds(
    run: RunFolder,
    table: Path,
    stated: BoundsSettings,
    asked: dict[str, Any],
    config: Path | None = None,
    *,
    tell: Tell = lambda text: None,
) -> tuple[ConfidenceIntervals, ...]:
    """The certificates of a table, after they were copied into the folder of a run without noise.

    `asked` are settings of the evaluation. `config` may have more of them, and name model and data in its sections
    [model] and [data]: attacks need these.

    What makes one wonder about the table is told, and kept for the page.

    Paper: —; run folders are ours.
    Raises: InputError if the table is malformed, or the folder holds the evidence of a smoothed model or other bounds.
    """
    start = time.perf_counter()
    if run.evidence.is_file():
        wanted = f"be a folder without {EVIDENCE}: bounds from elsewhere are another run"
        raise InputError.expected("run", wanted, str(run.path))
    before = run.sources().get("bounds", {}).get("from")
    if run.bounds.is_file() and before != str(table):
        wanted = "be a new folder, or one with the bounds of the same table"
        raise InputError.expected("run", wanted, f"those of {before or 'a certifier'} in {run.path}")
    read = merged(read_toml(run.config if run.config.is_file() else None), read_toml(config))
    parts = {name: read.get(name, {"name": NOT_NAMED}) for name in ("model", "data")}
    asked = {**read.get("evaluate", {}), **asked} if config else asked
    source = str(config or "options")
    settings = build_sections(BoundsRunSettings, {**parts, "bounds": {}, "evaluate": asked}, source)
    asked_at = settings.evaluate
    bounds = _read(table, stated, asked_at.radii or asked_at.open_at, asked.get("alpha"))
    if math.isnan(bounds[0].alpha):
        raise InputError.expected("alpha", "be given for a table that does not state it: 0 if it is proven", "none")
    if stated.norm is None and bounds[0].norm == Norm.DECLARED:
        wanted = f"be given for a table that does not state it: one of {', '.join(Norm)}"
        raise InputError.expected("norm", wanted, "none")
    settings = replace(settings, bounds=stated, evaluate=replace(settings.evaluate, alpha=bounds[0].alpha))
    as_given(bounds, None, None)  # refuses what a report would, before anything is written
    if settings.data.name != NOT_NAMED:
        _check_labels(settings, bounds[0])
    about: dict[str, dict[str, Any]] = {"bounds": {"from": str(table)}}
    if warnings := _doubts(bounds):
        about["checks"] = {"warnings": warnings, "scan": []}
    for warning in warnings:
        tell(f"warning: {warning}")
    keep_bounds(run, settings, bounds, about, seconds=time.perf_counter() - start)
    beside = None if table.suffix == LOG else columns_beside(table, bounds)
    with run.change() as change:
        if beside is None:
            change.drop(GROUPS)
        else:
            pq.write_table(beside, change.place(GROUPS), write_page_checksum=True)
    return bounds


def _check_labels(settings: BoundsRunSettings, own: ConfidenceIntervals) -> None:
    """Refuse labels that are not those of the data that is named, where it is here."""
    from certcal.runs.load import load_data  # which takes torch

    try:
        data = load_data(settings.data, settings.model)
    except CertcalError:  # an attack will say what is missing
        return
    labels = dict(zip(data.index.tolist(), data.labels.tolist(), strict=True))
    for index, label in zip(own.index.tolist(), own.label.tolist(), strict=True):
        if labels.get(index) != label:
            there = f"{labels[index]} there" if index in labels else f"no such input in {data.name}"
            raise InputError.expected("label", "be that of the data by its index", f"{label} at index {index}, {there}")


def _doubts(bounds: Sequence[ConfidenceIntervals]) -> list[str]:
    """What looks like an ordinary mistake, and may be none."""
    own, told = bounds[0], []
    most = max(one.radius for one in bounds)
    if own.norm == Norm.LINF and most > 1:
        told.append(
            f"R = {exactly(most)} in ℓ∞ is more than inputs in [0, 1] can differ: were radii meant in steps of 1/255?"
        )
    right = float(own.correct.mean())
    for off, word in ((1, "minus"), (-1, "plus")):
        shifted = float((own.label - off == own.predicted).mean())
        if shifted >= right + 0.25 and shifted > 0.5:
            told.append(
                f"{right:.0%} of the predictions are the label, and {shifted:.0%} the label {word} 1: do labels and "
                "predictions count classes from the same number?"
            )
    return told


def _read(table: Path, stated: BoundsSettings, radii: Any, alpha: float | None) -> tuple[ConfidenceIntervals, ...]:
    """The certificates of a table, or of a certification log."""
    if table.suffix != LOG:
        for name in ("sigma", "rounded_down"):
            if getattr(stated, name):
                raise InputError.expected(name, f"come with a certification log, {LOG}, as --bounds", table.name)
        return intervals_by_radius(table, radii=radii, norm=stated.norm, alpha=alpha, domain=stated.domain)
    if not table.is_file():
        raise InputError.expected("bounds", "be a file that exists", str(table))
    for name, value in (("sigma", stated.sigma), ("alpha", alpha), ("radii", radii)):
        if value is None:
            raise InputError.expected(name, "be given for a certification log, which does not say it", "none")
    for name in ("norm", "domain"):
        if getattr(stated, name) not in (None, "l2", "everywhere"):
            wanted = "be left out: a certification log is of ℓ2, anywhere"
            raise InputError.expected(name, wanted, getattr(stated, name))
    assert stated.sigma is not None
    assert alpha is not None
    return tuple(
        intervals_from_log(table, sigma=stated.sigma, radius=radius, alpha=alpha, rounded=not stated.rounded_down)
        for radius in sorted({*one_or_more("radii", radii)})
    )


def keep_bounds(
    run: RunFolder,
    settings: BoundsRunSettings,
    bounds: Sequence[ConfidenceIntervals],
    about: dict[str, dict[str, Any]],
    *,
    seconds: float,
    device: str | None = None,
) -> None:
    """Write certificates into a run folder, with settings and provenance."""
    run.create()
    with run.change() as change:
        save_bounds(bounds, place := change.place(BOUNDS))
        change.write(CONFIG, settings_text(settings))
        named = {
            key: {"name": part.name}
            for key, part in (("model", settings.model), ("data", settings.data))
            if part.name != NOT_NAMED
        }
        facts = {"evidence": {"sha256": digest_of(place)}, "certify": provenance(seconds=seconds, device=device)}
        trained = {key: value for key, value in run.sources().items() if key == "train"}
        change.write_json(SOURCES, sealed(plain(trained | merged(named, about) | facts)))
    run.log(f"bounds: {len(bounds)} radii, {len(bounds[0])} inputs, {bounds[0].method}")
