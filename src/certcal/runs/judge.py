"""Whether a run, or its recalibration, meets requirements."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from certcal.errors import InputError
from certcal.evaluation import ANY_BINNING, Judgement, Report, Requirement, evaluate, judge
from certcal.recalibration import AnyMap, caution_about, load_map
from certcal.runs.evaluate import evaluate_again, load_run_evidence, terms_of
from certcal.runs.facts import doubts, how_far
from certcal.runs.folder import MAP, RunFolder
from certcal.scalars import exactly, guarded
from certcal.smoothing import Evidence, load_evidence


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


def caution_for(run: RunFolder, judged: Iterable[Judgement]) -> str:
    """What a reader of judgements has to know: what the checks found, and of the map that they are about.

    A map's certificates hold at every radius, whatever it was fitted at: that is a remark, and no refusal.
    """
    mapped = (run.path / MAP).is_file()
    told = doubts((RunFolder(run.path.parent) if mapped else run).sources())
    if mapped and (own := load_map(run.path / MAP)).kind != "identity":
        told += [caution_about(own), _elsewhere(own, sorted({one.requirement.radius for one in judged}))]
    return " ".join(filter(None, told))


def _elsewhere(own: AnyMap, radii: list[float]) -> str:
    """That a map is judged at radii that it was not fitted at."""
    fitted = own.about.get("radii", radii)
    others = [radius for radius in radii if radius not in fitted]
    if not others:
        return ""
    at, judged = (", ".join(map(exactly, some)) for some in (fitted, others))
    return f"The map was fitted at R = {at} and is judged at R = {judged}, where its certificate holds too."


def _recalibrated(inner: RunFolder, whole: RunFolder, changes: dict[str, Any]) -> tuple[Report, Evidence]:
    """The recalibrated confidences of the inputs held out, asked as the run was last, and the evidence of all."""
    if whole.bounds.is_file():
        raise InputError.expected("run", "hold the evidence of a smoothed model", f"bounds in {whole.path}")
    asked = whole.settings().evaluate
    evidence, own = load_run_evidence(whole, asked.at_temperature), load_map(inner.path / MAP)
    held = evidence.select(np.flatnonzero(np.isin(evidence.index, load_evidence(inner.evidence).index)))
    questions = asked.questions | terms_of(asked, evidence) | {"groups": ()} | changes
    return evaluate(held, recalibration=None if own.kind == "identity" else own, **questions), evidence
