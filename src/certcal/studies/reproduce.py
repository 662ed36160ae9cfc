"""A study from start to end: train baselines, certify, fine-tune by each method, certify, select, draw."""

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
from certcal.studies.held_out import HELD_OUT, SELECTION, Candidates, selected_models
from certcal.studies.paper import paper_table
from certcal.studies.study import Baseline, Study, folder_of
from certcal.studies.sweep import Results, check_data, run_trials, where_to_run
from certcal.studies.trials import QUOTED, Stages, Tell, Trial, kept_outcomes, sweep_trials


@dataclass(frozen=True)
class Reproduction:
    """What a study came to."""

    results: Results
    comparison: Comparison
    folder: Path
    title: str = ""
    held_out: Comparison | None = None  # of the models that held-out training images choose; None without validations


@dataclass(frozen=True)
class Unfinished:
    """How many models a table is of, where some of the study are missing."""

    models: int
    done: int
    failed: int

    def __str__(self) -> str:
        if self.done == self.models:
            return ""
        return f"Of {self.done} of {self.models} models" + (f"; {self.failed} failed" if self.failed else "") + "."


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
    Raises: CertcalError or InputError if data are missing, and nothing is written then, or nothing came of any model.
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
    if isinstance(where, int) and not quote:
        check_data(one for first, tuned in stages for one in (first, *tuned))
    if like is not None and like.resolve() == folder.resolve():
        raise InputError.expected("like", "be the folder of another study", f"{like}, into which this one goes")
    candidates = Candidates.of(run)
    run.create()
    if like is not None:
        study = study.of(f"only what {like.name} selected")
        candidates.let_in(selected_models(like, held_out=True))
    every = [one for first, tuned in stages for one in (first, *tuned)]
    if quote:
        screened = [own for one in every for own in kept_outcomes(one) or ()]
        named, held_out = {one.name: one for one in every}, candidates.outcomes(stages, tell, like=like)
        names = dict.fromkeys(_chosen(study, screened) + _chosen(study, held_out))
        wanted = [(_quoted(study, named[name]), ()) for name in names]
        if not wanted:
            raise InputError.expected("quote", "come after models that certify inputs", f"none in {folder}")
        results = run_trials(run, wanted, where=where, until=until, progress=progress, tell=tell, table="quoted")
    else:
        results = run_trials(run, stages, where=where, until=until, progress=progress, tell=tell)
        if like is None and all(kept_outcomes(one) for one in every):
            candidates.let_in({one.name for one in every}, only=False)
        screened, held_out = results.outcomes, candidates.outcomes(stages, tell, like=like)
    quoted = [own for one in every for own in kept_outcomes(_quoted(study, one)) or ()]  # also by earlier calls
    if like is None and not {one.name for one in every} <= (candidates.names or {one.name for one in every}):
        study = study.of("partly what another study selected")
    unfinished = Unfinished(len(every), len({one.model for one in screened}), len(results.failures))
    table, honest = write_study(run, study, screened, quoted, held_out, told=str(unfinished))
    return Reproduction(results, table, folder, study.about.title, honest)


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
    *,
    told: str = "",
) -> tuple[Comparison, Comparison | None]:
    """The tables in the paper's layout and the figures, with what is told of them.

    What is selected is shown as it was quoted, once all of a table was: fewer draws would pass for larger errors. The
    second table is of models that `held_out` chooses, outcomes on held-out images: these too are shown as they came out
    on the test inputs.
    """
    screened, certified_last = ({(one.model, one.radius): one for one in own} for own in (outcomes, quoted))
    known = [one for one in held_out if (one.model, one.radius) in screened]
    radii = [radius for radius in study.about.radii if any(one.radius == radius for one in known)]
    chosen, draws = _as_certified(
        [select(outcomes, radius=radius) for radius in study.about.radii], screened, certified_last
    )
    selected, honest_draws = _as_certified([select(known, radius=radius) for radius in radii], screened, certified_last)
    honest = dict(zip(radii, selected, strict=True))
    order = dict.fromkeys(one.method for one in outcomes)  # baselines come first
    paper = paper_table(study.about.paper)
    of_test = {key: own for key, own in (paper or {}).items() if key != "CA"}  # which is of test inputs
    table = comparison_table(chosen, paper, methods=list(order), outcomes=outcomes)
    # As in the second table: chosen by the CA of held-out images, with errors of the test inputs.
    seen = [replace(screened[one.model, one.radius], certified_accuracy=one.certified_accuracy) for one in known]
    second = comparison_table(list(honest.values()), of_test, methods=list(order), outcomes=seen) if honest else None
    told = " ".join(filter(None, (told, f"Settings: {study.changed}." if study.changed else "")))
    page = f"# {study.about.title}\n\n{told}\n\n" if told else f"# {study.about.title}\n\n"
    page += f"{comparison_markdown(table)}\n{_draws(study, draws)}"
    if second is not None:
        page += f"\n## Chosen on held-out images\n\n{comparison_markdown(second, held_out=True)}\n"
        page += _draws(study, honest_draws)
    run.write("table.md", page)
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
        place = folder / "tuned" / baseline.name / folder_of(method.name)
        recipe = study.tuning(baseline, method, weights)
        made = sweep_trials(recipe, place, method=method.name, baseline=baseline.name)
        found += [replace(one, name=f"{baseline.name} {one.name}", later=study.later) for one in made]
    return found


Made = Mapping[tuple[str, float], Outcome]


def _as_certified(selections: list[Selection], screened: Made, quoted: Made) -> tuple[list[Selection], bool]:
    """The same models as they were quoted, and that they were, if all were; else as they were screened."""
    names = {(one.model, one.radius) for own in selections for best in (own.ece, own.brier) for one in best.values()}
    whole = bool(names) and names <= quoted.keys()
    made = quoted if whole else screened

    def shown(best: Mapping[str, Outcome]) -> dict[str, Outcome]:
        return {method: made[one.model, one.radius] for method, one in best.items()}

    return [replace(own, ece=shown(own.ece), brier=shown(own.brier)) for own in selections], whole


def _draws(study: Study, quoted: bool) -> str:
    """With how many draws a table's models are certified, where a study screens them."""
    if study.about.screen is None:
        return ""
    if quoted:
        return f"\nErrors with {study.all_draws:,} draws; CA and the choice with {study.about.screen:,}.\n"
    more = f"`--quote` certifies what is selected with all {study.all_draws:,}"
    return f"\nScreened with {study.about.screen:,} draws: {more}.\n"


def _plain(selection: Selection) -> dict[str, Any]:
    chosen = {
        name: {method: one.model for method, one in getattr(selection, name).items()} for name in ("ece", "brier")
    }
    return {key: getattr(selection, key) for key in ("radius", "best_accuracy", "within")} | chosen
