"""Trials: models to train and certify, each in a folder of its own, whatever process that happens in."""

import csv
import json
import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from certcal import runs  # whose functions load torch when they are called
from certcal.errors import CertcalError, InputError
from certcal.evaluation import Outcome
from certcal.files import plain, replacing, sealed, unsealed
from certcal.interrupts import time_limit
from certcal.runs import RunFolder, evaluate_run
from certcal.scalars import guarded
from certcal.settings import RunSettings, build, merged
from certcal.studies.recipes import SweepRecipe, SweepSettings, describe, grid_size, numbered

Tell = Callable[[str], None]
OUTCOME, QUOTED, ERROR = "outcome.json", "quoted.json", "error.txt"
_AT = "_at_"  # between a score and its radius, in the log of a training
_ACCURACY = f"certified_accuracy{_AT}"
_SCORES = ("accuracy", "ece", "brier")
NO_CHECKS = " --no-checks goes on all the same."  # what checks add for `certcal certify`


@dataclass(frozen=True)
class Trial:
    """One model to train and certify, and where: all that a worker elsewhere needs to know."""

    name: str
    method: str
    recipe: SweepRecipe
    folder: Path
    settings: str = ""  # what distinguishes it, in words
    baseline: str = ""
    trained: bool = False  # its model's weights are final
    later: tuple[int, ...] = ()  # more draws, with which it may be certified again
    outcome: str = OUTCOME  # the file that keeps what it came to; QUOTED: only certified, with more draws

    def __str__(self) -> str:
        """The trial in a line."""
        if not self.baseline:
            return self.settings or self.name
        return f"{self.baseline}: {self.method}" + f" ({self.settings})" * bool(self.settings)


@dataclass(frozen=True)
class Failure:
    """A trial that nothing came of, and why."""

    method: str
    model: str
    baseline: str
    settings: str
    failed: str  # why, in a line
    wrong_input: bool = False  # what it was given is wrong

    @classmethod
    def of(cls, trial: Trial, error: Exception | str) -> "Failure":
        """A trial's failure, from what was raised."""
        why = str(error).strip() or type(error).__name__
        if not isinstance(error, CertcalError | str):
            why = f"{type(error).__name__}: {why.splitlines()[0]}"
        return cls(trial.method, trial.name, trial.baseline, trial.settings, why, isinstance(error, InputError))


Came = list[Outcome] | Failure | None  # of a trial; None if its time ran out
Finished = Iterator[tuple[Trial, Came]]
Stages = Sequence[tuple[Trial, Sequence[Trial]]]  # trials, and for each those that start from its weights


@guarded
def sweep_trials(recipe: SweepRecipe, folder: Path, *, method: str = "", baseline: str = "") -> list[Trial]:
    """The trials of a recipe, each with its settings and folder.

    Paper: App. I.
    """
    if recipe.machine.devices * recipe.machine.nodes > 1:
        wanted = "be 1 for trials (train the large model with `certcal train`, or share trials out over devices)"
        raise InputError.expected("devices", wanted, recipe.machine.devices * recipe.machine.nodes)
    combinations = numbered(recipe.sweep)
    width, own = len(str(grid_size(recipe.sweep))), method or recipe.objective.name
    return [
        Trial(
            f"{own} {place:0{width}}",
            own,
            _changed(recipe, changes),
            folder / f"trial-{place:0{width}}",
            describe(changes),
            baseline,
        )
        for place, changes in combinations.items()
    ]


@guarded
def run_trial(trial: Trial, *, progress: bool = False, tell: Tell = lambda text: None) -> list[Outcome]:
    """What a trial came to at each radius; trained and certified where that was not done before."""
    run = RunFolder(trial.folder)
    kept = kept_outcomes(trial, tell)
    if kept is not None:
        return kept
    if not trial.trained and trial.outcome != QUOTED:
        runs.train_run(run, trial.recipe, progress=progress, tell=tell)
    weights = str(trial.recipe.model.weights if trial.trained else run.path / "model.pt")
    rows, doubts = _certify(trial, run, weights, progress=progress)
    outcomes = [
        Outcome(
            method=trial.method,
            model=trial.name,
            baseline=trial.baseline,
            settings=trial.settings,
            radius=row.radius,
            certified_accuracy=row.certified_accuracy,
            certified_ece=row.certified_ece,
            certified_brier=row.certified_brier,
        )
        for row in rows
    ]
    found = [plain(asdict(one)) for one in outcomes]
    run.write_json(trial.outcome, sealed({"trial": _facts(trial), "outcomes": found, "doubts": doubts}))
    return outcomes


def kept_outcomes(trial: Trial, tell: Tell = lambda text: None) -> list[Outcome] | None:
    """What the trial came to before, if it was the same one; what is damaged is made again."""
    path = trial.folder / trial.outcome
    if not path.is_file():
        return None
    try:
        read = unsealed(json.loads(path.read_text(encoding="utf-8")))
        return [as_outcome(row) for row in read["outcomes"]] if _filled(read["trial"]) == _facts(trial) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        tell(f"{path} is damaged and made again: {error}")
        return None


def held_out_outcomes(trial: Trial, tell: Tell = lambda text: None) -> list[Outcome]:
    """What a trial that was trained here came to on held-out training images after its last epoch, if it validates."""
    recipe, path = trial.recipe, trial.folder / "log.csv"
    if trial.trained or recipe.validation.every == 0 or kept_outcomes(replace(trial, outcome=OUTCOME)) is None:
        return []
    try:
        text = path.read_text(encoding="utf-8")
        last: dict[str, str] = [{}, *csv.DictReader(text.splitlines())][-1]  # the last epoch validates in any case
        radii = [name.removeprefix(_ACCURACY) for name in last if name.startswith(_ACCURACY)]
        if last.get("epoch") != str(recipe.train.epochs) or not radii or not text.endswith("\n"):
            raise ValueError(f"it does not end with the certified metrics of epoch {recipe.train.epochs}")
        scores = {radius: [float(last[f"certified_{own}{_AT}{radius}"]) for own in _SCORES] for radius in radii}
        for radius, (accuracy, *errors) in scores.items():
            if not 0 <= accuracy <= 1 or not all(0 <= one <= 1 or math.isnan(one) for one in errors):
                raise ValueError(f"its scores at R = {radius} are {accuracy:g}, {errors[0]:g} and {errors[1]:g}")
        named = partial(Outcome, trial.method, trial.name, baseline=trial.baseline, settings=trial.settings)
        return [named(float(radius), *own) for radius, own in scores.items()]
    except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        tell(f"{path} is damaged, and {trial} left out where held-out images choose: {error}")
        return []


def kept_doubts(trial: Trial) -> list[str]:
    """What the checks had to say of a trial that is done, such as that its model seems to guess."""
    try:
        read = json.loads((trial.folder / trial.outcome).read_text(encoding="utf-8"))
        return list(map(str, read.get("doubts", ())))  # earlier versions kept none
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):  # what is damaged is told of elsewhere
        return []


def attempt(
    trial: Trial, *, until: float | None = None, progress: bool = False, tell: Tell = lambda text: None
) -> Came:
    """What a trial came to, or why it failed; the traceback is in error.txt in its folder then.

    At `until`, a time of `time.time`, it keeps how far it is and stops.
    """
    path, seconds = trial.folder / ERROR, None if until is None else until - time.time()
    if seconds is not None and seconds <= 0:
        return None
    try:
        with time_limit(seconds) as is_over:
            try:
                outcomes = run_trial(trial, progress=progress, tell=tell)
            except KeyboardInterrupt:
                if is_over():
                    return None
                raise
        path.unlink(missing_ok=True)
    except Exception as error:  # one trial must not take the others with it
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        return Failure.of(trial, error)
    return outcomes


def _changed(recipe: SweepRecipe, changes: dict[str, dict[str, Any]]) -> SweepRecipe:
    values = merged(asdict(recipe), changes)
    own = _said(values)
    if "sigma" in changes.get("train", {}):
        own["certify"]["sigma"] = own["train"]["sigma"]
    return replace(build(SweepRecipe, own, "sweep.over"), sweep=SweepSettings())


def _certify(trial: Trial, run: RunFolder, weights: str, *, progress: bool) -> tuple[Any, list[str]]:
    """The rows of a trial, and what the checks say of model and test data: here a doubt stops nothing."""
    recipe = trial.recipe
    settings = RunSettings(
        model=replace(recipe.model, weights=weights),
        data=recipe.test,
        certify=replace(recipe.certify, sigma=recipe.train.sigma),
        evaluate=recipe.evaluate,
    )
    try:
        doubts = list(runs.check_run(settings, tell=lambda text: None)[0].warnings)
    except InputError as error:  # surely wrong; what makes a run impossible is raised again below
        doubts = [str(error).removesuffix(NO_CHECKS)]
    runs.certify_run(run, settings, progress=progress, later=trial.later)
    return evaluate_run(run, recipe.evaluate, figures=False).report.rows, doubts


def _facts(trial: Trial) -> dict[str, Any]:
    named = {"name": trial.name, "method": trial.method, "baseline": trial.baseline, "settings": trial.settings}
    named["start"] = runs.weights_digest(trial.recipe.model) or str(trial.recipe.model.weights or "")
    return dict(plain(named | {"recipe": _placeless(trial.recipe)}))


def _filled(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts that an earlier version wrote, with today's defaults for the settings that it did not have."""
    return dict(plain(facts | {"recipe": _placeless(build(SweepRecipe, _said(facts["recipe"]), OUTCOME))}))


def _said(sections: dict[str, Any]) -> dict[str, Any]:
    """Sections without the settings that are None, which TOML does not know."""
    return {
        section: {key: one for key, one in part.items() if one is not None} if isinstance(part, dict) else part
        for section, part in sections.items()
    }


def _placeless(recipe: SweepRecipe) -> dict[str, Any]:
    """A recipe without where it ran, so that a study may move. Weights are known by their digest."""
    own = asdict(recipe)
    own.pop("machine")
    own["model"].pop("weights")
    own["certify"].pop("device")
    return own


def as_outcome(row: dict[str, Any]) -> Outcome:
    """What a trial came to at one radius, as JSON holds it."""
    values: dict[str, Any] = {key: float("nan") if value is None else value for key, value in row.items()}
    return Outcome(**values)
