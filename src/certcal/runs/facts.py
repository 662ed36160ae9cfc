"""How a run came about: versions, commits, device and time as they are recorded, and all of it as lines for people."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from certcal.errors import several
from certcal.evaluation import Report, Rounding
from certcal.files import printable, versions_of
from certcal.report import number
from certcal.runs.folder import RunFolder
from certcal.scalars import exactly
from certcal.settings import PREDICTION_SHARE
from certcal.smoothing import Evidence

_OURS = Path(__file__).resolve().parents[1]  # src/certcal
_PACKAGES = ("certcal", "numpy", "scipy", "pyarrow", "torch")
Sources = dict[str, dict[str, Any]]  # what `RunFolder.sources` gives
_OBJECTIVES = {"brier": "Brier score", "log": "log score", "calibration": "calibration error"}


def title(run: RunFolder, report: Report, sources: Sources) -> str:
    """Data, model and noise in one line."""
    data, model = sources.get("data", {}), sources.get("model", {})
    folder = run.path.parent if report.recalibration is not None else run.path
    names = [data.get("name") or printable(folder.name), model.get("name"), _temperature(model, report)]
    own = report.bounds[0]
    how = f"{own.norm}, {own.method}" if report.evidence is None else f"σ = {report.evidence.header.sigma:g}"
    words = [str(name) for name in names if name] + [how]
    return " · ".join(words + ["recalibrated"] * (report.recalibration is not None))


def facts(report: Report, sources: Sources, circumstances: dict[str, Any]) -> list[tuple[str, str]]:
    """What an auditor would ask: model, data, noise, draws, levels, versions, device, time."""
    model, data, sampling = (sources.get(key, {}) for key in ("model", "data", "certify"))
    own = report.bounds[0]
    reading = "α for both certificates together" if own.split_alpha else "α for each of two certificates"
    if own.split_alpha and own.prediction_share != PREDICTION_SHARE:
        reading += f", {own.prediction_share!r} of it for the class"
    chance = f"α = {report.alpha!r} per input ({reading}), δ = {report.delta!r} for the whole set"
    lines = [
        ("model", _model(model)),
        ("model fingerprint", report.evidence.header.model if report.evidence else model.get("fingerprint")),
        ("data", _joined(data.get("name"), several(report.inputs), "×".join(map(str, data.get("shape") or [])))),
        *(_noise(report.evidence, sources) if report.evidence else ()),
        ("temperature", _temperature(model, report) and f"logits divided by {_divisor(model, report):g}"),
        ("perturbations", f"{own.norm}, {own.domain}" if report.evidence is None else ""),
        ("error probability", chance if report.level else "none: the bounds are stated to be proven"),
        ("failed certificates allowed for", f"{report.failures} of {report.inputs:,}"),
        ("guaranteed ECE", _claims(report)),
        ("confidence certificate", str(report.method)),
        ("population", str(report.population)),
        ("recalibration", _map(report)),
        ("bins", f"{len(report.bins)}"),
        ("average certified radius", number(report.average_certified_radius, Rounding.DOWN)),
        ("bounds", _joined(*(sources.get("bounds", {}).get(key) for key in ("from", "by")))),
        ("widened", sources.get("bounds", {}).get("widened")),
        ("sampled" if report.evidence else "certified", _circumstances(sampling)),
        ("evaluated", _circumstances(circumstances)),
        ("commit of the working folder", circumstances.get("commit")),
    ]
    return [(name, str(value)) for name, value in lines if value]


def _model(model: dict[str, Any]) -> str:
    weights = model and (model.get("weights") or "no checkpoint given: the network as its name gives it")
    size = model.get("parameters")
    return _joined(model.get("name"), weights, size is not None and f"{size:,} parameters")


def _noise(evidence: Evidence, sources: Sources) -> list[tuple[str, str]]:
    header, draws = evidence.header, evidence.draws
    each = f"{draws.min():,}" if draws.min() == draws.max() else f"{draws.min():,} to {draws.max():,}"
    return [
        ("noise", f"Gaussian, σ = {header.sigma:g}, seed {header.seed}, generator {header.noise}"),
        ("draws per input", f"{header.n0:,} to select the class and {each} to certify"),
        ("draws to certify, all inputs", f"{int(draws.sum()):,}"),
        ("looks at the draws", _looks(evidence)),
        ("draws added after a report", _added(sources, int(draws.sum()))),
        ("precision", header.precision),
    ]


def _looks(evidence: Evidence) -> str:
    header = evidence.header
    others = int((~header.planned(evidence.draws)).sum())
    if header.looks == 1 and not others:
        return ""
    stages = ", ".join(f"{stage:,}" for stage in header.stages)
    told = f"{header.looks} planned, after {stages} draws" if stages else "none known to be planned"
    if others:
        told += f"; {others:,} of {len(evidence):,} inputs have another number, and wider limits that hold at every one"
    return told


def _added(sources: Sources, draws: int) -> str:
    """How many of the draws of all inputs came between each earlier report and the next one."""
    counts = [*(count for count in sources.get("added", {}).get("draws", []) if count < draws), draws]
    return "; ".join(f"{after - before:,} after one of {before:,}" for before, after in pairwise(counts))


def _divisor(model: dict[str, Any], report: Report) -> float:
    """What logits are divided by in all: by the model itself, and where its scores were counted."""
    return float((model.get("temperature") or 1.0) * report.temperature)


def _temperature(model: dict[str, Any], report: Report) -> str:
    told = model.get("temperature") is not None or report.temperature != 1
    return f"temperature {_divisor(model, report):g}" if told else ""


def _map(report: Report) -> str:
    if report.recalibration is None:
        return ""
    about = report.recalibration.about
    radii = ", ".join(map(exactly, about.get("radii", [])))
    return _joined(
        f"{report.recalibration.kind} map",
        about.get("objective") and f"fitted to the certified {_OBJECTIVES[about['objective']]}",
        radii and f"at R = {radii}",
        "clean_weight" in about and f"clean weight {about['clean_weight']:g}",
    )


def _claims(report: Report) -> str:
    """By which way the guaranteed calibration error is least at each radius, if several were tried."""
    known = [row for row in report if row.claims]
    told = ", ".join(f"{row.claim} at R = {exactly(row.radius)}" for row in known)
    return f"the least of {', '.join(known[0].claims)}: {told}" if known else ""


def _circumstances(record: dict[str, Any]) -> str:
    if not record:
        return ""
    versions = ", ".join(f"{name} {number}" for name, number in record.get("versions", {}).items())
    threads = f", {several(record['threads'], 'thread')}" if record.get("threads") else ""
    engine = f" with {record['engine']}" if record.get("engine") else ""
    device = f"on {record['device']}{threads}{engine}" if record.get("device") else None
    commit = f"certcal at {record['certcal_commit']}" if record.get("certcal_commit") else None
    return _joined(record.get("date"), device, f"{record.get('seconds', 0):,.1f} s", versions, commit)


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def doubts(sources: Sources) -> list[str]:
    """What the checks found before the run, as texts for any page: a received folder may hold anything there."""
    found = sources.get("checks", {}).get("warnings")
    return [printable(one) for one in found if isinstance(one, str)] if isinstance(found, list) else []


def how_far(evidence: Evidence | None, sources: Sources) -> str | None:
    """How far a run is whose evidence is not all that was asked for."""
    data = sources.get("data", {})
    inputs, draws = data.get("inputs", 0), data.get("draws", 0)
    if evidence is None or not draws:
        return None
    done = evidence.header.planned(evidence.draws) | (evidence.draws >= draws)  # at a look, or with draws added
    if len(evidence) >= inputs and done.all():
        return None
    each = f"{evidence.draws.min():,}" + f" to {evidence.draws.max():,}" * bool(np.ptp(evidence.draws))
    fewer = "" if each == f"{draws:,}" else f", with {each} of {draws:,} draws each"
    return f"So far it is about {len(evidence):,} of {inputs:,} inputs{fewer}. The rest may change every number."


def provenance(*, seconds: float, device: str | None = None) -> dict[str, Any]:
    """Versions, the commits of certcal and of the working folder, machine, device, wall time and date."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 2),
        "device": device,
        "commit": git_commit(Path(os.curdir)),
        **_of_process(),
    }


@cache
def _of_process() -> dict[str, Any]:
    """What stays the same while a process runs: its machine, and what it has loaded."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "versions": versions_of(*_PACKAGES),
        "certcal_commit": git_commit(_OURS, ours=True),  # as of when it is first asked for; three calls of git
    }


def git_commit(folder: Path, *, ours: bool = False) -> str | None:
    """The commit that a folder is at; None outside a repository. In our own checkout it is marked if files differ.

    Elsewhere it is not: to compare files git runs programs that the repository names, its filters and its monitor.
    """
    found = (_git(folder, "rev-parse", "--short=12", "HEAD") or "").strip() or None
    checkout = _git(folder, "rev-parse", "--show-toplevel") if ours and found else None
    if checkout is None or Path(checkout.strip()) != _OURS.parents[1]:
        return found
    return found and found + "-dirty" * bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))


def _git(folder: Path, *words: str) -> str | None:
    """What git answers, without hooks; None if it does not."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
