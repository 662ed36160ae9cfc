"""From evidence to everything a run folder shows: certificates, metrics, tables and the page."""

import io
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from certcal.errors import InputError
from certcal.metrics.binning import choose_bins
from certcal.report import (
    Report,
    caveats,
    evaluate,
    explanation,
    guarantee,
    page_data,
    prepare_reliability,
    to_csv,
    to_latex,
    to_markdown,
)
from certcal.report.content import default_view, plain
from certcal.report.html import render_page
from certcal.runs.attack_files import attack_metrics, attack_page, kept_attacks, write_attack_figures
from certcal.runs.certify import radii_of
from certcal.runs.drawing import write_figures
from certcal.runs.facts import facts, title
from certcal.runs.folder import SOURCES, RunFolder
from certcal.runs.provenance import provenance
from certcal.runs.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings
from certcal.smoothing import Evidence

IN_PYTHON = "given in Python"  # the model and data of a run that was not made by the command line


def evaluate_run(run: RunFolder, asked: EvaluateSettings, *, figures: bool = True) -> Report:
    """The evaluation of a run's evidence; certificates, metrics, tables, figures and page are written to its folder.

    Paper: Sec. 5.   Errs: as `certcal.evaluate` does.
    """
    start = time.perf_counter()
    settings = replace(run.settings(), evaluate=asked)
    report = evaluate_evidence(run, asked)
    with run.writing():
        run.create()
        run.save_settings(settings)
    _write_all(run, report, figures=figures, seconds=time.perf_counter() - start)
    return report


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
    from certcal.smoothing import save_evidence

    run = RunFolder(Path(folder))
    run.create()
    with run.writing():
        save_evidence(report.evidence, run.evidence)
        settings = settings_of(report)
        if settings is not None:
            run.save_settings(settings)
    return _write_all(run, report, figures=figures, seconds=0.0, recalibration=recalibration)


def settings_of(report: Report) -> RunSettings | None:
    """The settings with which the command line makes the same report from its evidence; None if it has no words for it.

    It knows neither bins of the user's own nor maps.
    """
    header, size = report.evidence.header, len(report.bins)
    if report.recalibration is not None or not np.array_equal(report.bins.edges, choose_bins(size, None).edges):
        return None
    asked = EvaluateSettings(
        radii=tuple(row.radius for row in report.rows),
        alpha=report.alpha,
        delta=report.delta,
        method=str(report.method),
        joint=report.split_alpha,
        population=str(report.population),
        n_bins=size,
    )
    drawn = CertifySettings(sigma=header.sigma, n=int(report.evidence.draws.max()), n0=header.n0, seed=header.seed)
    model, data = ModelSettings(name=IN_PYTHON), DataSettings(name=IN_PYTHON)
    return RunSettings(model=model, data=data, certify=drawn, evaluate=asked)


def _write_all(
    run: RunFolder,
    report: Report,
    *,
    figures: bool,
    seconds: float,
    recalibration: Mapping[str, Any] | None = None,
) -> Path:
    start = time.perf_counter()
    with run.writing():
        write_certificates(run, report)
        run.write("tables/radii.csv", to_csv(report))
        run.write("tables/radii.md", to_markdown(report))
        run.write("tables/radii.tex", to_latex(report))
        shutil.rmtree(run.path / "figures", ignore_errors=True)  # those of an earlier evaluation
        if figures:
            write_all_figures(run, report)
        circumstances = provenance(seconds=seconds + time.perf_counter() - start)
        run.write_json("metrics.json", describe(run, report) | {"provenance": circumstances})
        page = write_page(run, report, circumstances, recalibration=recalibration)
        run.log(f"evaluate: {len(report)} radii, {report.inputs} inputs, method {report.method}")
    return page


def rewrite_report(run: RunFolder, *, figures: bool = True) -> Path:
    """Where the page of a run is, made again from its evidence as it was last evaluated, with its figures.

    Paper: —; run folders are ours.
    """
    start = time.perf_counter()
    report = evaluate_evidence(run, run.settings().evaluate)
    with run.writing():
        if figures:
            write_all_figures(run, report)
        page = write_page(run, report, provenance(seconds=time.perf_counter() - start))
        run.log(f"report: {page.name} written again")
    return page


def refresh_results(run: RunFolder, *, figures: bool = True) -> dict[str, Any]:
    """What metrics.json says of attacks, after it, the page and the attacks' figures were written again."""
    start = time.perf_counter()
    report = evaluate_evidence(run, run.settings().evaluate)
    with run.writing():
        if figures:
            write_attack_figures(run, kept_attacks(run), report.rows[default_view(report)].radius)
        circumstances = provenance(seconds=time.perf_counter() - start)
        metrics = describe(run, report)
        run.write_json("metrics.json", metrics | {"provenance": circumstances})
        write_page(run, report, circumstances)
    return dict(metrics["attack"] or {})


def write_all_figures(run: RunFolder, report: Report) -> None:
    """The figures of an evaluation and those of attacks on its evidence."""
    write_figures(run, report)
    write_attack_figures(run, kept_attacks(run), report.rows[default_view(report)].radius)


def evaluate_evidence(run: RunFolder, asked: EvaluateSettings) -> Report:
    """The evaluation alone; writes nothing."""
    evidence = load_run_evidence(run)
    options = vars(asked) | {"radii": radii_of(asked, evidence.header.sigma)}
    return evaluate(evidence, split_alpha=options.pop("joint"), **options)


def load_run_evidence(run: RunFolder) -> Evidence:
    """The evidence of a run, if it is the one that the run was made with."""
    from certcal.smoothing import load_evidence

    evidence = load_evidence(run.evidence)
    recorded = run.sources().get("evidence", {}).get("sha256")
    if recorded is not None and recorded != run.evidence_digest():
        wanted = f"hold the {run.evidence.name} that its {SOURCES} was written with"
        raise InputError.expected("run", wanted, f"another one in {run.path}")
    return evidence


def describe(run: RunFolder, report: Report) -> dict[str, Any]:
    """The evaluation as plain data: what metrics.json holds beside the circumstances of its making."""
    header = report.evidence.header
    return {
        "title": title(run, report),
        "guarantee": guarantee(report, default_view(report)),
        "guarantees": [guarantee(report, position) for position in range(len(report))],
        "explanation": explanation(report, default_view(report)),
        "caveats": caveats(report),
        "inputs": report.inputs,
        "population": str(report.population),
        "alpha": report.alpha,
        "delta": report.delta,
        "failures_allowed": report.failures,
        "method": str(report.method),
        "split_alpha": report.split_alpha,
        "bins": report.bins.edges.tolist(),
        "sigma": header.sigma,
        "seed": header.seed,
        "draws": int(report.evidence.draws.sum()),
        "looks": header.looks,
        "stages": list(header.stages),
        "model": header.model,
        "precision": header.precision,
        "average_certified_radius": report.average_certified_radius,
        "recalibration": _map(report),
        "rows": [plain(row) for row in report.as_dicts()],
        "per_bin": [_per_bin(report, position) for position in range(len(report))],
        "sampling": run.sources(),
        "attack": attack_metrics(kept_attacks(run)),
    }


def _map(report: Report) -> dict[str, Any] | None:
    own = report.recalibration
    return None if own is None else {"kind": own.kind} | dict(own.about)


def write_certificates(run: RunFolder, report: Report) -> None:
    """One row per input and radius as Parquet, and the certified radii as a log in the field's format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from certcal.certificates import certify_radii, write_certification_log
    from certcal.files import replacing

    evidence, count = report.evidence, len(report.bounds)
    columns: dict[str, Any] = {
        "index": np.tile(evidence.index, count),
        "label": np.tile(evidence.label, count),
        "predicted": np.tile(evidence.selected, count),
        "correct": np.tile(evidence.correct, count),
        "radius": np.repeat([own.radius for own in report.bounds], report.inputs),
        **{
            name: np.concatenate([getattr(own, name) for own in report.bounds])
            for name in ("confidence", "lower", "upper", "certified", "certified_radius")
        },
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd")
    run.write("certificates.parquet", buffer.getvalue())
    share = report.alpha / 2 if report.split_alpha else report.alpha  # of the radius alone, as in the Parquet file
    with replacing(run.path / "certificates.tsv") as part:
        write_certification_log(part, certify_radii(evidence, alpha=share))


def write_page(
    run: RunFolder,
    report: Report,
    circumstances: dict[str, Any],
    *,
    recalibration: Mapping[str, Any] | None = None,
) -> Path:
    """The page that people read, report.html."""
    classes = run.sources().get("data", {}).get("classes")
    page = page_data(
        report,
        title=title(run, report),
        created=str(circumstances["date"]),
        facts=facts(run, report, circumstances),
        classes=classes,
        recalibration=recalibration,
    )
    own = {
        "alpha": report.alpha,
        "method": str(report.method),
        "split_alpha": report.split_alpha,
        "n_bins": len(report.bins),
    }
    attack = attack_page(kept_attacks(run), report.rows[default_view(report)].radius, own)
    return run.write("report.html", render_page(page | {"attack": attack}))


def _per_bin(report: Report, position: int) -> dict[str, Any] | None:
    curves, worst = prepare_reliability(report, position), report.worst[position]
    if curves is None or worst is None:
        return None
    named = {
        name: {key: _plain(getattr(curve, key)) for key in ("count", "confidence", "accuracy")}
        for name, curve in zip(("clean", "worst"), curves, strict=True)
    }
    signs = [] if worst.signs is None else worst.signs.tolist()
    return {"radius": report.rows[position].radius, **named, "signs": signs}


def _plain(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
