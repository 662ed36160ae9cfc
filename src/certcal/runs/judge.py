"""Whether a run, or its recalibration, meets requirements."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from certcal.errors import InputError
from certcal.evaluation import ANY_BINNING, Judgement, Report, Requirement, evaluate, judge
from certcal.recalibration import load_map
from certcal.runs.evaluate import evaluate_again, load_run_evidence, terms_of
from certcal.runs.facts import how_far
from certcal.runs.folder import MAP, RunFolder
from certcal.scalars import guarded
from certcal.smoothing import Evidence


@guarded
def judge_run(run: RunFolder, requirements: Iterable[str]) -> list[Judgement]:
    """Whether a run meets requirements, at their radii and otherwise evaluated as it was last; writes nothing.

    The folder `recalibration` of a run stands for its map, on the inputs that were held out of the fitting.

    Paper: —; requirements are ours.
    """
    asked = [Requirement.parse(text) for text in requirements]
    if not asked:
        raise InputError.expected("require", "hold at least one requirement", "none")
    changes: dict[str, Any] = {"radii": tuple(one.radius for one in asked)}
    changes |= {"any_binning": True} if any(one.metric in ANY_BINNING for one in asked) else {}
    whole, drawn = run, None
    if (run.path / MAP).is_file():
        whole = RunFolder(run.path.parent)
        report, drawn = _recalibrated(run, whole, changes)
    else:
        report = evaluate_again(run, **changes)
    if told := how_far(drawn or report.evidence, whole.sources()):
        raise InputError(f"{whole.path} is not finished and cannot be judged. {told} Finish it with `certcal certify`.")
    return judge(report, asked)


def _recalibrated(inner: RunFolder, whole: RunFolder, changes: dict[str, Any]) -> tuple[Report, Evidence]:
    """The recalibrated confidences of the inputs held out, asked as the run was last, and the evidence of all."""
    from certcal.smoothing import load_evidence

    if whole.bounds.is_file():
        raise InputError.expected("run", "hold the evidence of a smoothed model", f"bounds in {whole.path}")
    asked = whole.settings().evaluate
    evidence, own = load_run_evidence(whole, asked.at_temperature), load_map(inner.path / MAP)
    held = evidence.select(np.flatnonzero(np.isin(evidence.index, load_evidence(inner.evidence).index)))
    questions = asked.questions | terms_of(asked, evidence) | {"groups": ()} | changes
    return evaluate(held, recalibration=None if own.kind == "identity" else own, **questions), evidence
