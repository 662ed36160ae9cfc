"""A study from start to end: train baselines, certify, fine-tune by each method, certify, select, draw."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from certcal.cluster import Cluster
from certcal.evaluation import Outcome, Selection, select
from certcal.report import Comparison, comparison_markdown, comparison_table, plot_changes, prepare_changes
from certcal.runs import RunFolder, save_figure
from certcal.studies.study import Baseline, Study, paper_table
from certcal.studies.sweep import Results, Tell, run_trials, where_to_run
from certcal.studies.trials import Trial, sweep_trials


@dataclass(frozen=True)
class Reproduction:
    """What a study came to."""

    results: Results
    comparison: Comparison
    folder: Path


def study_trials(study: Study, folder: Path) -> list[tuple[Trial, list[Trial]]]:
    """Each baseline as a trial, and those that fine-tune it."""
    return [(_baseline(study, one, folder), _tuned(study, one, folder)) for one in study.baseline]


def run_study(
    study: Study,
    folder: Path,
    *,
    engine: str | Cluster = "local",
    per_device: int = 1,
    progress: bool = True,
    tell: Tell = print,
) -> Reproduction:
    """The outcomes of a study with its table and figures in a folder; called again, it goes on.

    Models are trained one after the other here, some at once in processes of their own, or on the workers of a cluster;
    one that fails is left out of the table.

    Paper: Sec. 5, App. I, App. J.
    Raises: CertcalError or InputError if nothing came of any model.
    """
    run, where, stages = RunFolder(folder), where_to_run(engine, per_device), study_trials(study, folder)
    run.create()
    results = run_trials(run, stages, where=where, progress=progress, tell=tell)
    return Reproduction(results, write_study(run, study, results.outcomes), folder)


def write_study(run: RunFolder, study: Study, outcomes: list[Outcome]) -> Comparison:
    """The table in the paper's layout and the figures."""
    chosen = [select(outcomes, radius=radius) for radius in study.about.radii]
    order = dict.fromkeys(one.method for one in outcomes)  # baselines come first
    table = comparison_table(chosen, paper_table(study.about.paper), methods=list(order))
    run.write("table.md", f"# {study.about.title}\n\n{comparison_markdown(table)}\n")
    run.write_json("selection.json", [_plain(one) for one in chosen])
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
                 baseline=baseline.name, trained=baseline.weights is not None)  # fmt: skip


def _tuned(study: Study, baseline: Baseline, folder: Path) -> list[Trial]:
    weights = Path(baseline.weights) if baseline.weights else folder / "baselines" / baseline.name / "model.pt"
    found: list[Trial] = []
    for method in study.method:
        place = folder / "tuned" / baseline.name / method.name.replace("*", "-star").replace(" ", "-")
        recipe = study.tuning(baseline, method, weights)
        made = sweep_trials(recipe, place, method=method.name, baseline=baseline.name)
        found += [replace(one, name=f"{baseline.name} {one.name}") for one in made]
    return found


def _plain(selection: Selection) -> dict[str, Any]:
    chosen = {
        name: {method: one.model for method, one in getattr(selection, name).items()} for name in ("ece", "brier")
    }
    return {key: getattr(selection, key) for key in ("radius", "best_accuracy", "within")} | chosen
