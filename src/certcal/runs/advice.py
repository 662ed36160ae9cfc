"""What a run's report advises: where its guaranteed error comes from, and what would lower it."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.evaluation import Report, planned_draws, split_gap
from certcal.recalibration import held_out_scores
from certcal.report import advice_section, by_radius, default_view
from certcal.runs.folder import RunFolder
from certcal.settings import is_program
from certcal.smoothing import Evidence

SPLITS = 3  # by which the effect of recalibration is foreseen


def advise(report: Report, run: RunFolder) -> dict[str, Any] | None:
    """The section of a report on its guaranteed error, None for mapped confidences and bounds from elsewhere.

    Paper: —; estimates.
    """
    evidence = report.evidence
    if report.recalibration is not None or evidence is None:
        return None
    report = by_radius(report)
    name, anew = _commands(run, (evidence.header.seed + 1) % 2**63)
    wanted = planned_draws(evidence)
    # Draws beyond the plan would have limits that hold at every number of draws, which are wider.
    more = f"make {wanted:,} draws, in a new run, so that they are planned", anew(f"n{wanted}", f"--n {wanted}")
    if wanted in evidence.header.stages:
        more = f"go on to the {wanted:,} draws that are planned", f"certcal certify {name}"
    return advice_section(
        split_gap(report),
        sigma=evidence.header.sigma,
        draws=int(evidence.draws.max()),
        more=more,
        tempered=partial(_tempered, evidence, run),
        recalibrate=f"certcal recalibrate {name}",
        recalibrated=_recalibrated(report),
    )


def _commands(run: RunFolder, seed: int) -> tuple[str, Callable[[str, str], str]]:
    """What a run is called on the command line, and the command for one like it but for some options.

    It gets another seed: with the same one it would hold the draws by which its options were chosen.
    """
    path, model = run.path, run.sources().get("model", {}).get("name")
    name = path.name if path == Path("runs") / path.name else str(path)

    def anew(suffix: str, options: str) -> str:
        if model is None:  # made in Python
            return ""
        own = f" --model {shlex.quote(model)}" if ":" in model else " --trust" if is_program(model) else ""
        new, config = shlex.quote(f"{name}-{suffix}"), shlex.quote(str(run.config))
        return f"certcal certify {new} --config {config}{own} {options} --seed {seed}"

    return shlex.quote(name), anew


def _tempered(evidence: Evidence, run: RunFolder, value: str) -> tuple[str, str]:
    """The way to logits that are divided by so much more; which of those drawn for is best, the fitting half says."""
    name, anew = _commands(run, (evidence.header.seed + 1) % 2**63)
    known = float(value) * evidence.temperature
    if known in evidence.header.temperatures:
        return (
            f"divide logits by {known:g}, at which scores were counted too",
            f"certcal recalibrate {name} --automatic",
        )
    before = run.sources().get("model", {}).get("temperature") or 1.0  # by which logits were divided already
    options = f"--temperature {float(value) * before:g}"
    return f"divide logits by {value} (more) before smoothing, in a new run", anew(f"t{value}", options)


def _recalibrated(report: Report) -> dict[float, float]:
    """About the guaranteed error that a map would leave at the radius shown first, on inputs it was not fitted on."""
    shown = default_view(report)
    row, bounds = report.rows[shown], report.bounds[shown]
    with suppress(InputError):  # nothing to learn from
        before, after = held_out_scores([bounds], n_bins=len(report.bins), repeats=SPLITS).mean(row.radius)
        # Both on the half that is held out, whose sampling error is larger; the gain is what carries over.
        return {row.radius: max(0.0, row.joint_ece - (before.certified_ece - after.certified_ece))}
    return {}
