"""Evaluate the evidence of a run, and write what follows from it into the run's folder."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from certcal.certificates import ConfidenceIntervals, intervals_by_radius
from certcal.errors import InputError, several
from certcal.evaluation import Report, evaluate
from certcal.files import expanded
from certcal.metrics import choose_bins
from certcal.runs.attack_files import FOLDER as ATTACKS
from certcal.runs.facts import Sources
from certcal.runs.folder import BOUNDS, CONFIG, EVIDENCE, GROUPS, MAP, SOURCES, RunFolder, settings_from
from certcal.runs.groups import group_columns
from certcal.runs.results import Results
from certcal.runs.switch import Change
from certcal.scalars import guarded
from certcal.settings import EvaluateSettings, RunSettings, settings_text
from certcal.smoothing import Evidence, load_evidence, load_so_far, save_evidence
from certcal.worstcase import alpha_for_set


@guarded
def evaluate_run(
    run: RunFolder,
    asked: EvaluateSettings,
    *,
    bounds: Sequence[ConfidenceIntervals] | None = None,
    figures: bool = True,
    card: bool = False,
) -> Results:
    """The evaluation of a run's evidence; certificates, metrics, tables, figures and page are written to its folder.

    `bounds` are those of a run without noise, where they have just been read. `card` asks for a model card's section.

    Paper: Sec. 5.   Errs: as `certcal.evaluate` does.
    """
    start, settings = time.perf_counter(), replace(run.settings(), evaluate=asked)
    with run.change() as change:  # from reading on: all that is written is of one evidence
        report = _report(run, asked, bounds)
        results = Results(run, report, start, images=asked.images, altered=tuple(run.changed()))
        change.write(CONFIG, settings_text(settings))
        results.write(change, figures=figures, card=card)
    radii, inputs = several(len(report), "radius", "radii"), several(report.inputs)
    run.log(f"evaluate: {radii}, {inputs}, method {report.method}")
    return results


@guarded
def copy_run(run: RunFolder, place: str | PathLike[str]) -> RunFolder:
    """A folder with the evidence of a run, its settings and its attacks, to be evaluated beside it.

    Paper: —; run folders are ours.
    Raises: InputError if the folder holds something else.
    """
    copy = RunFolder(expanded("out", place))
    if copy.path.exists() and any(copy.path.iterdir()):
        same = run.source.is_file() and copy.source.is_file() and copy.evidence_digest() == run.evidence_digest()
        if not same or copy.path.resolve() == run.path.resolve():
            raise InputError.expected("out", "be a new folder, or one with a copy of this evidence", str(place))
    copy.create()
    attacks = [path for path in (run.path / ATTACKS).rglob("*") if path.is_file()]
    own = [run.path / name for name in (EVIDENCE, BOUNDS, GROUPS, CONFIG, SOURCES) if (run.path / name).is_file()]
    with copy.change() as change:
        if not run.source.is_file():
            save_evidence(load_run_evidence(run), change.place(EVIDENCE))
        for path in (*own, *attacks):
            change.write(str(path.relative_to(run.path)), path.read_bytes())
    return copy


@guarded
def write_results(
    report: Report,
    folder: str | PathLike[str],
    *,
    figures: bool = True,
    recalibration: Mapping[str, Any] | None = None,
) -> Path:
    """Where the page is, after a report's evidence and everything that follows from it were written to a folder.

    For an evaluation made in Python, this gives what `certcal evaluate` leaves behind: certificates, metrics.json,
    tables, figures and report.html. `recalibration`, from `recalibration_section`, adds that part to the page.

    Paper: —; run folders are ours.
    """
    results = Results(RunFolder(expanded("folder", folder)), report, time.perf_counter())
    results.run.create()
    with results.run.change() as change:
        write_into(change, results, figures=figures, recalibration=recalibration)
    return results.page


def write_into(change: Change, results: Results, *, figures: bool, recalibration: Mapping[str, Any] | None) -> None:
    """Write the evidence of an evaluation, its settings where they have words, and everything that follows from it."""
    if results.report.evidence is not None:
        save_evidence(results.report.evidence, change.place(EVIDENCE))
    settings = settings_of(results.report)
    if settings is not None:
        change.write(CONFIG, settings_text(settings))
    results.write(change, figures=figures, recalibration=recalibration)


def settings_of(report: Report) -> RunSettings | None:
    """The settings with which the command line makes the same report from its evidence; None if it has no words for it.

    It knows neither bins of the user's own nor maps.
    """
    size = len(report.bins)
    own_bins = not np.array_equal(report.bins.edges, choose_bins(size, None).edges)
    if report.evidence is None or report.recalibration is not None or own_bins:
        return None
    at = report.evidence.temperature if report.evidence.header.temperatures else None
    return settings_from(report.evidence, replace(report.asked, n_bins=size, at_temperature=at))


@guarded
def rewrite_report(run: RunFolder, *, figures: bool = True, card: bool = False) -> Results:
    """The evaluation of a run as it was last asked for, after everything that follows from it was written again.

    Paper: —; run folders are ours.
    """
    return evaluate_run(run, run.settings().evaluate, figures=figures, card=card)


def evaluate_again(run: RunFolder, **changes: Any) -> Report:
    """The evaluation of a run's evidence with some settings changed; writes nothing."""
    return _report(run, replace(run.settings().evaluate, **changes))


def radii_of(run: RunFolder) -> tuple[float, ...]:
    """The radii that a run was last evaluated at."""
    settings = run.settings()
    if isinstance(settings, RunSettings):
        return settings.evaluate.radii_at(settings.certify.sigma)
    return settings.evaluate.radii or tuple(own.radius for own in load_run_bounds(run))


def load_run_evidence(run: RunFolder, temperature: float | None = None) -> Evidence:
    """The evidence of a run, if it is the one that the run was made with, at one of its temperatures."""
    if not run.evidence.is_file():
        found = load_so_far(run.shards)
    elif (run.path / MAP).is_file():
        wanted = "be a run itself: `certcal check` alone takes its recalibration"
        raise InputError.expected("run", wanted, f"the recalibration of {run.path.parent}")
    else:
        found = _planned(load_evidence(run.evidence), run)
    known = found.header.temperatures or (1.0,)
    if temperature is not None and temperature not in known:
        counted = ", ".join(f"{own:g}" for own in known)
        wanted = f"be one that scores were counted at, {counted} (others: --temperatures of certify, in a new folder)"
        raise InputError.expected("at_temperature", wanted, temperature)
    return found if temperature is None else found.at_temperature(temperature)


def _planned(evidence: Evidence, run: RunFolder) -> Evidence:
    """Evidence with the looks that were planned: an earlier version kept no plan with it."""
    header, settings, sources = evidence.header, run.settings(), _check_source(run)
    if header.schema != 1 or "added" in sources or not isinstance(settings, RunSettings):
        return evidence
    # The folder knows it: no draws came after a report.
    asked = settings.certify
    plan = tuple(-(-draws // header.chunk) * header.chunk for draws in asked.stages or (asked.n,))
    return replace(evidence, header=replace(header, looks=len(plan), stages=plan))


def _report(run: RunFolder, asked: EvaluateSettings, bounds: Sequence[ConfidenceIntervals] | None = None) -> Report:
    data = _data_file(run) if asked.groups else None
    whole = run.sources().get("data", {}).get("of") if asked.groups else None
    if run.bounds.is_file():
        given = bounds or load_run_bounds(run)
        if asked.at_temperature is not None:
            raise InputError.expected("at_temperature", "be left out for bounds from elsewhere", asked.at_temperature)
        groups = group_columns(asked.groups, index=given[0].index, data=data, whole=whole, beside=run.path / GROUPS)
        return evaluate(given, **asked.questions | {"groups": groups})
    evidence = load_run_evidence(run, asked.at_temperature)
    groups = group_columns(asked.groups, index=evidence.index, data=data, whole=whole)
    told = {"radii": asked.radii_at(evidence.header.sigma), "groups": groups}
    return evaluate(evidence, **asked.questions | terms_of(asked, evidence) | told)


def terms_of(asked: EvaluateSettings, evidence: Evidence, inputs: int | None = None) -> dict[str, Any]:
    """What `confidence_bounds` is asked, with α as given or by the rule of `alpha_for_set`.

    The rule sees how many draws were planned, not how many were made: those may depend on what was drawn. `inputs` are
    those of the run, where the evidence is of some of them.
    """
    if not asked.alpha_for_set:
        return asked.terms
    planned = max(evidence.header.stages, default=int(evidence.draws.max()))
    return asked.terms | {"alpha": alpha_for_set(inputs or len(evidence), draws=planned, delta=asked.delta)}


def _data_file(run: RunFolder) -> str | None:
    """Where the inputs of a run come from, as far as this folder and the place where it was made can tell."""
    settings = run.settings()
    if not isinstance(settings, RunSettings):
        return None
    name, recorded = settings.data.name, run.sources().get("data", {}).get("path")
    return recorded if recorded is not None and not Path(name).is_file() else name


def load_run_bounds(run: RunFolder) -> tuple[ConfidenceIntervals, ...]:
    """The certificates of a run without noise, if they are those that the run was made with."""
    _check_source(run)
    if GROUPS in run.changed():
        raise InputError.expected("run", f"hold {GROUPS} as certcal wrote it", f"another one in {run.path}")
    return intervals_by_radius(run.bounds)


def _check_source(run: RunFolder) -> Sources:
    """What is recorded of a run, if its evidence, or the bounds in its place, are those that it was recorded with."""
    sources = run.sources()
    recorded = sources.get("evidence", {}).get("sha256")
    if recorded is not None and recorded != run.evidence_digest():
        wanted = f"hold the {run.source.name} that its {SOURCES} was written with"
        raise InputError.expected("run", wanted, f"another one in {run.path}")
    return sources
