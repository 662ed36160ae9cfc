"""A study from start to end: train baselines, certify, fine-tune by each method, certify, select, draw."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from certcal.cluster import Cluster
from certcal.errors import InputError
from certcal.evaluation import Outcome, Selection, select
from certcal.report import Comparison, comparison_markdown, comparison_table, plot_changes, prepare_changes
from certcal.runs import RunFolder, save_figure
from certcal.scalars import check_number
from certcal.studies.paper import paper_table
from certcal.studies.study import Baseline, Study
from certcal.studies.sweep import Results, run_trials, where_to_run
from certcal.studies.trials import QUOTED, Stages, Tell, Trial, kept_outcomes, sweep_trials

SELECTION = "selection.json"


@dataclass(frozen=True)
class Reproduction:
    """What a study came to."""

    results: Results
    comparison: Comparison
    folder: Path


def study_trials(study: Study, folder: Path, *, like: Path | None = None) -> list[tuple[Trial, list[Trial]]]:
    """Each baseline as a trial, and those that fine-tune it; of those `like` another study, what that one selected."""
    stages = [(_baseline(study, one, folder), _tuned(study, one, folder)) for one in study.baseline]
    if like is None:
        return stages
    names = selected_models(like)
    kept = [(first, [one for one in tuned if one.name in names]) for first, tuned in stages]
    return [(first, tuned) for first, tuned in kept if tuned or first.name in names]


def run_study(
    study: Study,
    folder: Path,
    *,
    engine: str | Cluster = "local",
    per_device: int = 1,
    minutes: float | None = None,
    quote: bool = False,
    like: Path | None = None,
    progress: bool = True,
    tell: Tell = print,
) -> Reproduction:
    """The outcomes of a study with its table and figures in a folder; called again, it goes on.

    Models are trained one after the other here, some at once in processes of their own, or on the workers of a cluster;
    one that fails is left out of the table. After so many minutes, all keep how far they are and stop.

    Where the study screens models with fewer draws, `quote` trains nothing and certifies what is selected so far with
    all of them. `like` is the folder of a study that was run before: only what it selected is trained.

    Paper: Sec. 5, App. I, App. J.
    Raises: CertcalError or InputError if nothing came of any model.
    """
    run, where = RunFolder(folder), where_to_run(engine, per_device)
    stages: Stages = study_trials(study, folder, like=like)
    until = None
    if minutes is not None:
        until = time.time() + 60 * check_number("minutes", minutes, "be a number > 0", lambda value: value > 0)
    if until is not None and not isinstance(where, int):
        raise InputError.expected("minutes", "be left out on a cluster", minutes)
    if quote and study.about.screen is None:
        raise InputError.expected("quote", "be left out where all models get all draws (no about.screen)", quote)
    run.create()
    every = [one for first, tuned in stages for one in (first, *tuned)]
    if quote:
        screened = [own for one in every for own in kept_outcomes(one) or ()]
        named = {one.name: one for one in every}
        wanted = [(_quoted(study, named[name]), ()) for name in _chosen(study, screened)]
        if not wanted:
            raise InputError.expected("quote", "come after models were trained", f"none in {folder}")
        results = run_trials(run, wanted, where=where, until=until, progress=progress, tell=tell, table="quoted")
    else:
        results = run_trials(run, stages, where=where, until=until, progress=progress, tell=tell)
        screened = results.outcomes
    quoted = [own for one in every for own in kept_outcomes(_quoted(study, one)) or ()]  # also by earlier calls
    return Reproduction(results, write_study(run, study, screened, quoted), folder)


def selected_models(folder: Path) -> set[str]:
    """The names of the models that the study in a folder selected."""
    path, wanted = folder / SELECTION, "be the folder of a study that was run"
    if not path.is_file():
        raise InputError.expected("like", wanted, f"{folder}, without {SELECTION}")
    failures = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    with InputError.expecting("like", wanted, f"{path}, which cannot be read", on=failures):
        read = json.loads(path.read_text(encoding="utf-8"))
        return {name for one in read for score in ("ece", "brier") for name in one[score].values()}


def _chosen(study: Study, outcomes: Sequence[Outcome]) -> list[str]:
    """The names of the models that are selected, those at large radii first."""
    found = [select(outcomes, radius=radius) for radius in sorted(study.about.radii, reverse=True)] if outcomes else []
    return list(dict.fromkeys(one.model for own in found for best in (own.ece, own.brier) for one in best.values()))


def _quoted(study: Study, trial: Trial) -> Trial:
    """A trained trial that gets all draws, where its study screens with fewer."""
    certify = replace(trial.recipe.certify, n=study.all_draws)
    return replace(trial, recipe=replace(trial.recipe, certify=certify), later=(), outcome=QUOTED)


def write_study(
    run: RunFolder, study: Study, outcomes: Sequence[Outcome], quoted: Sequence[Outcome] = ()
) -> Comparison:
    """The table in the paper's layout and the figures; what is selected is shown as it was quoted, where it was."""
    shown = {(one.model, one.radius): one for one in [*outcomes, *quoted]}
    chosen = [_as_shown(select(outcomes, radius=radius), shown) for radius in study.about.radii]
    order = dict.fromkeys(one.method for one in outcomes)  # baselines come first
    table = comparison_table(chosen, paper_table(study.about.paper), methods=list(order))
    run.write("table.md", f"# {study.about.title}\n\n{comparison_markdown(table)}\n")
    run.write_json(SELECTION, [_plain(one) for one in chosen])
    methods = [one.name for one in study.method]
    for baseline in study.baseline:
        for radius in study.about.radii:
            start = [one for one in outcomes if (one.model, one.radius) == (baseline.name, radius)]
            tuned = [one for one in outcomes if one.baseline == baseline.name and one.radius == radius]
            certified = all(one.certified_ece == one.certified_ece for one in start)  # NaN: no input is certified there
            if start and certified and len(tuned) > 1:
                changes = prepare_changes(outcomes, baseline=baseline.name, radius=radius)
                name = f"changes_{baseline.name}_R{radius:g}"
                save_figure(run, name, lambda ax, own=changes: plot_changes(own, ax=ax, methods=methods))  # type: ignore[misc]
    return table


def _baseline(study: Study, baseline: Baseline, folder: Path) -> Trial:
    recipe, place = study.training(baseline), folder / "baselines" / baseline.name
    if baseline.weights is not None:  # trained already: nothing to do but to certify
        recipe = replace(recipe, model=replace(recipe.model, weights=baseline.weights))
    return Trial(baseline.name, "AT" if baseline.objective.get("name") == "smoothadv" else "baseline", recipe, place,
                 baseline=baseline.name, trained=baseline.weights is not None, later=study.later)  # fmt: skip


def _tuned(study: Study, baseline: Baseline, folder: Path) -> list[Trial]:
    weights = Path(baseline.weights) if baseline.weights else folder / "baselines" / baseline.name / "model.pt"
    found: list[Trial] = []
    for method in study.method:
        place = folder / "tuned" / baseline.name / method.name.replace("*", "-star").replace(" ", "-")
        recipe = study.tuning(baseline, method, weights)
        made = sweep_trials(recipe, place, method=method.name, baseline=baseline.name)
        found += [replace(one, name=f"{baseline.name} {one.name}", later=study.later) for one in made]
    return found


def _as_shown(selection: Selection, shown: Mapping[tuple[str, float], Outcome]) -> Selection:
    """The same models, each as it was certified last."""
    ece, brier = (
        {method: shown[one.model, one.radius] for method, one in best.items()}
        for best in (selection.ece, selection.brier)
    )
    return replace(selection, ece=ece, brier=brier)


def _plain(selection: Selection) -> dict[str, Any]:
    chosen = {
        name: {method: one.model for method, one in getattr(selection, name).items()} for name in ("ece", "brier")
    }
    return {key: getattr(selection, key) for key in ("radius", "best_accuracy", "within")} | chosen
