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
from certcal.studies.trials import QUOTED, Stages, Tell, Trial, held_out_outcomes, kept_outcomes, sweep_trials

SELECTION, HELD_OUT = "selection.json", "held_out"
LIKE = "like.json"  # which of its models a study that is like another may choose by held-out images


@dataclass(frozen=True)
class Reproduction:
    """What a study came to."""

    results: Results
    comparison: Comparison
    folder: Path
    title: str = ""
    held_out: Comparison | None = None  # of the models that held-out training images choose; None without validations


def study_trials(study: Study, folder: Path, *, like: Path | None = None) -> list[tuple[Trial, list[Trial]]]:
    """Each baseline as a trial, and those that fine-tune it; of those `like` another study, what that one selected."""
    stages = [(_baseline(study, one, folder), _tuned(study, one, folder)) for one in study.baseline]
    if like is None:
        return stages
    names = selected_models(like)
    chosen = [(first, [one for one in tuned if one.name in names]) for first, tuned in stages]
    chosen = [(first, tuned) for first, tuned in chosen if tuned or first.name in names]
    if not chosen:
        wanted = "be the folder of a study that selected some of these models"
        raise InputError.expected("like", wanted, f"{like}, which selected {', '.join(sorted(names)) or 'none'}")
    return chosen


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

    Models are selected twice: as in the paper on the inputs that they are reported on, and on held-out training images
    where trainings validate. Where the study screens models with fewer draws, `quote` trains nothing and certifies what
    is selected so far, either way, with all of them. `like` is the folder of a study that was run before: only what it
    selected is trained.

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
    if like is not None:
        study = study.of(f"only what {like.name} selected")
        run.write_json(LIKE, sorted(selected_models(like, held_out=True)))
    elif not quote:
        (run.path / LIKE).unlink(missing_ok=True)
    every = [one for first, tuned in stages for one in (first, *tuned)]
    if quote:
        screened = [own for one in every for own in kept_outcomes(one) or ()]
        named, held_out = {one.name: one for one in every}, _held_out(run, stages, tell)
        names = dict.fromkeys(_chosen(study, screened) + _chosen(study, held_out))
        wanted = [(_quoted(study, named[name]), ()) for name in names]
        if not wanted:
            raise InputError.expected("quote", "come after models that certify inputs", f"none in {folder}")
        results = run_trials(run, wanted, where=where, until=until, progress=progress, tell=tell, table="quoted")
    else:
        results = run_trials(run, stages, where=where, until=until, progress=progress, tell=tell)
        screened, held_out = results.outcomes, _held_out(run, stages, tell)
    quoted = [own for one in every for own in kept_outcomes(_quoted(study, one)) or ()]  # also by earlier calls
    table, honest = write_study(run, study, screened, quoted, held_out)
    return Reproduction(results, table, folder, study.about.title, honest)


def selected_models(folder: Path, *, held_out: bool = False) -> set[str]:
    """The names of the models that the study in a folder selected; with `held_out`, by held-out images alone."""
    path, wanted = folder / SELECTION, "be the folder of a study that was run"
    if not path.is_file():
        raise InputError.expected("like", wanted, f"{folder}, without {SELECTION}")
    failures = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    with InputError.expecting("like", wanted, f"{path}, which cannot be read", on=failures):
        read = json.loads(path.read_text(encoding="utf-8"))
        chosen = [own for one in read for own in (one.get(HELD_OUT), *(() if held_out else (one,))) if own is not None]
        return {name for own in chosen for score in ("ece", "brier") for name in own[score].values()}


def _held_out(run: RunFolder, stages: Stages, tell: Tell) -> list[Outcome]:
    """What models came to on held-out images, of those among which such images alone may choose.

    Where test inputs of a study like this one have chosen what is trained, that is what held-out images chose there.
    """
    among = set(json.loads((run.path / LIKE).read_text(encoding="utf-8"))) if (run.path / LIKE).is_file() else None
    found: list[Outcome] = []
    for first, tuned in stages:
        if first.trained and first.recipe.validation.every:
            tell(
                f"warning: {first.name} came with its weights: it may have been trained on the images that choose here."
            )
        for one in (first, *tuned):
            if among is not None and one.name not in among:
                continue
            if _holding_out(one) != _holding_out(first):
                tell(
                    f"warning: {one} is left out where held-out images choose: {first.name} was trained on some of its."
                )
                continue
            found += held_out_outcomes(one, tell)
    return found


def _holding_out(trial: Trial) -> tuple[object, ...]:
    """What decides which training images are held out."""
    validation, data = trial.recipe.validation, trial.recipe.data
    return trial.recipe.train.seed, validation.fraction, validation.inputs, validation.every > 0, data


def _chosen(study: Study, outcomes: Sequence[Outcome]) -> list[str]:
    """The names of the models that are selected, those at large radii first."""
    radii = {one.radius for one in outcomes} & {*study.about.radii}
    found = [select(outcomes, radius=radius) for radius in sorted(radii, reverse=True)]
    return list(dict.fromkeys(one.model for own in found for best in (own.ece, own.brier) for one in best.values()))


def _quoted(study: Study, trial: Trial) -> Trial:
    """A trained trial that gets all draws, where its study screens with fewer."""
    certify = replace(trial.recipe.certify, n=study.all_draws)
    return replace(trial, recipe=replace(trial.recipe, certify=certify), later=(), outcome=QUOTED)


def write_study(
    run: RunFolder,
    study: Study,
    outcomes: Sequence[Outcome],
    quoted: Sequence[Outcome] = (),
    held_out: Sequence[Outcome] = (),
) -> tuple[Comparison, Comparison | None]:
    """The tables in the paper's layout and the figures; what is selected is shown as it was quoted, where it was.

    The second table is of models that `held_out` chooses, outcomes on held-out images: these too are shown as they came
    out on the test inputs.
    """
    shown = {(one.model, one.radius): one for one in [*outcomes, *quoted]}
    known = [one for one in held_out if (one.model, one.radius) in shown]
    radii = [radius for radius in study.about.radii if any(one.radius == radius for one in known)]
    chosen = [_as_shown(select(outcomes, radius=radius), shown) for radius in study.about.radii]
    honest = {radius: _as_shown(select(known, radius=radius), shown) for radius in radii}
    order = dict.fromkeys(one.method for one in outcomes)  # baselines come first
    paper = paper_table(study.about.paper)
    of_test = {key: own for key, own in (paper or {}).items() if key != "CA"}  # which is of test inputs
    table = comparison_table(chosen, paper, methods=list(order))
    second = comparison_table(list(honest.values()), of_test, methods=list(order)) if honest else None
    told = f"# {study.about.title}\n\n{comparison_markdown(table)}\n"
    if second is not None:
        told += f"\n## Chosen on held-out images\n\n{comparison_markdown(second, held_out=True)}\n"
    run.write("table.md", told)
    found = [_plain(one) | ({HELD_OUT: _plain(honest[one.radius])} if one.radius in honest else {}) for one in chosen]
    run.write_json(SELECTION, found)
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
    return table, second


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
