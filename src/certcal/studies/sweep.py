"""A sweep: trials run here or on a cluster, and one table of what came of them, failures too."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from certcal import runs  # whose functions load torch when they are called
from certcal.cluster import Cluster, as_cluster
from certcal.data import dataset_names, dataset_splits
from certcal.errors import CertcalError, InputError
from certcal.evaluation import Outcome
from certcal.files import csv_text, plain
from certcal.runs import RunFolder
from certcal.settings import Beside, DataSettings, recipe_text
from certcal.studies.recipes import SweepRecipe
from certcal.studies.trials import (
    QUOTED,
    Failure,
    Finished,
    Stages,
    Tell,
    Trial,
    attempt,
    kept_doubts,
    kept_outcomes,
    sweep_trials,
)

NO_START = "the model that it starts from failed"


@dataclass(frozen=True)
class Results:
    """What came of trials, in their order."""

    outcomes: list[Outcome]
    failures: list[Failure]
    rows: list[dict[str, Any]]  # the table, as JSON knows it
    left: int = 0  # trials for which there was no time


def run_sweep(
    recipe: SweepRecipe,
    folder: Path,
    *,
    engine: str | Cluster = "local",
    per_device: int = 1,
    progress: bool = True,
    tell: Tell = print,
) -> Results:
    """What came of each trial of a sweep, also in results.csv and results.json; called again, it goes on.

    Trials run one after the other here, some at once in processes of their own, or on the workers of a cluster, to the
    same results. A trial that fails does not keep the others from running.

    Paper: App. I.
    Raises: CertcalError or InputError if data are missing, and nothing is written then, or nothing came of any trial.
    """
    run = RunFolder(folder)
    made = sweep_trials(recipe, folder)
    cluster = where_to_run(engine, per_device)
    if isinstance(cluster, int):
        check_data(made)
    run.create()
    run.write("sweep.toml", recipe_text(recipe))
    return run_trials(run, [(one, ()) for one in made], where=cluster, progress=progress, tell=tell)


def check_data(trials: Iterable[Trial]) -> None:
    """Open the data of trials that are to be run, once each: what is missing would fail in all of them.

    Raises: InputError or CertcalError if they cannot be opened.
    """
    left = [one for one in trials if kept_outcomes(one) is None]
    learning = [one.recipe.data for one in left if not one.trained and one.outcome != QUOTED]
    parts = [("data", "train", one) for one in learning] + [("test", "test", one.recipe.test) for one in left]
    needed = {(section, repr(one)): (section, one.split or usual, one) for section, usual, one in parts}.values()
    named = [(section, split, one) for section, split, one in needed if one.name in dataset_names()]
    missing = [own for own in named if not own[2].download and _is_missing(own[1], own[2])]
    if missing:
        got = " and ".join(f"{one.name} {split}" for _, split, one in missing)
        commands = (f"`certcal data {one.name} --split {split}{f' --root {one.root}' if one.root else ''} --download`"
                    for _, split, one in missing)  # fmt: skip
        allow = " ".join(f"--set {section}.download=true" for section, *_ in missing)
        raise InputError.expected("data", "be here", f"no {got}: get it by {' and '.join(commands)}, or add {allow}")
    for section, _, one in needed:
        runs.load_data(runs.training_part(one) if section == "data" else one)


def _is_missing(split: str, data: DataSettings) -> bool:
    return dataset_splits(data.name, root=data.root).get(split, "") is None


def where_to_run(engine: str | Cluster, per_device: int) -> Cluster | int:
    """A cluster, or how many trials run here at once."""
    cluster, beside = as_cluster(engine), Beside(per_device=per_device)
    if cluster is not None and beside.per_device > 1:
        wanted = "be 1 on a cluster, whose workers share a GPU by --gpus-per-worker"
        raise InputError.expected("per_device", wanted, per_device)
    return beside.per_device if cluster is None else cluster


def run_trials(
    run: RunFolder,
    stages: Stages,
    *,
    where: Cluster | int,
    until: float | None = None,
    progress: bool,
    tell: Tell,
    table: str = "results",
) -> Results:
    """Run trials that share a folder, until a time of `time.time`, and keep the table of those that are done."""
    every = [one for first, others in stages for one in (first, *others)]
    found: dict[Path, list[Outcome] | Failure] = {}
    results = Results([], [], [])
    steps = _here(stages, until, progress, tell) if where == 1 else _side_by_side(where, run, stages, until, tell)
    for trial, came in steps:
        if isinstance(came, list) and (doubts := kept_doubts(trial)):  # a table shows a guessing model like any other
            tell(f"warning: {trial}: {' '.join(doubts)}")
        if came is not None:
            found[trial.folder] = came
            results = _table(run, table, [found[one.folder] for one in every if one.folder in found])
    if not results.outcomes:
        raise _nothing_came_of(results.failures)
    return replace(results, left=len(every) - len(found))


def _here(stages: Stages, until: float | None, progress: bool, tell: Tell) -> Finished:
    place, count = 0, sum(1 + len(others) for _, others in stages)
    for first, others in stages:
        starts = True
        for trial in (first, *others):
            place += 1
            tell(f"[{place}/{count}] {trial}")
            came = attempt(trial, until=until, progress=progress, tell=tell) if starts else Failure.of(trial, NO_START)
            if came is None:
                return
            if isinstance(came, Failure):
                starts = starts and trial is not first
                tell(f"failed: {came.failed}")
            yield trial, came


def _side_by_side(where: Cluster | int, run: RunFolder, stages: Stages, until: float | None, tell: Tell) -> Finished:
    from certcal.studies.beside import beside, share

    done, count = 0, sum(1 + len(others) for _, others in stages)
    if isinstance(where, int):
        tell(f"{count} trials, {where} at once")
        finished = beside(stages, where, until)
    else:
        tell(f"{count} trials on a Ray cluster")
        finished = share(where, run.path, stages)
    for trial, came in finished:
        if came is None:
            continue
        hopeless = [others for first, others in stages if first is trial and isinstance(came, Failure)]
        left_out = [(other, Failure.of(other, NO_START)) for others in hopeless for other in others]
        for one, result in [(trial, came), *left_out]:
            done += 1
            tell(f"[{done}/{count}] {one}: " + (f"failed: {result.failed}" if isinstance(result, Failure) else "done"))
            yield one, result


def _table(run: RunFolder, name: str, found: list[list[Outcome] | Failure]) -> Results:
    """Write the table, with every digit; a trial that failed has one row, with the reason."""
    every = [one for came in found for one in (came if isinstance(came, list) else [came])]
    rows = [{key: value for key, value in asdict(one).items() if key != "wrong_input"} for one in every]
    heads = [*Outcome.__dataclass_fields__, "failed"]
    if all(isinstance(one, Failure) for one in every):  # nothing came yet: what is there stays
        return Results([], [one for one in every if isinstance(one, Failure)], [])
    run.write(f"{name}.csv", csv_text(heads, ([row.get(key, "") for key in heads] for row in rows)))
    run.write_json(f"{name}.json", plain(rows))
    failures = [one for one in every if isinstance(one, Failure)]
    return Results([one for one in every if isinstance(one, Outcome)], failures, plain(rows))


def _nothing_came_of(failures: list[Failure]) -> CertcalError:
    if not failures:
        return CertcalError("The time ran out before the first model was done: the same command goes on.")
    reasons = list(dict.fromkeys(one.failed for one in failures if one.failed != NO_START))
    kind = InputError if all(one.wrong_input for one in failures if one.failed != NO_START) else CertcalError
    return kind(reasons[0] if len(reasons) == 1 else f"All {len(failures)} trials failed, the first so: {reasons[0]}")
