"""A sweep: each trial trained and certified in a folder of its own, and one table of what came of them."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.report import Outcome
from certcal.runs.certify import certify_run
from certcal.runs.evaluate import evaluate_run
from certcal.runs.folder import RunFolder
from certcal.runs.recipes import SweepRecipe, merged
from certcal.runs.settings import RunSettings
from certcal.runs.toml import build
from certcal.runs.train import save_recipe, train_run, weights_digest
from certcal.training import SweepSettings, expand
from certcal.training.sweep import describe

OUTCOME = "outcome.json"


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


def trials(recipe: SweepRecipe, folder: Path, *, method: str = "", baseline: str = "") -> list[Trial]:
    """The trials of a recipe, each with its settings and folder.

    Paper: App. I.
    """
    if recipe.engine.devices * recipe.engine.nodes > 1:
        wanted = "be 1 for trials (train the large model with `certcal train`, or share trials out over devices)"
        raise InputError.expected("devices", wanted, recipe.engine.devices * recipe.engine.nodes)
    combinations = expand(recipe.sweep)
    width, own = len(str(len(combinations))), method or recipe.objective.name
    return [
        Trial(
            f"{own} {place:0{width}}",
            own,
            _changed(recipe, changes),
            folder / f"trial-{place:0{width}}",
            describe(changes),
            baseline,
        )
        for place, changes in enumerate(combinations, 1)
    ]


def run_trial(
    trial: Trial, *, progress: bool = False, tell: Callable[[str], None] = lambda text: None
) -> list[Outcome]:
    """What a trial came to at each radius; trained and certified where that was not done before."""
    run, path = RunFolder(trial.folder), trial.folder / OUTCOME
    facts = _plain(trial)
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["trial"] == facts:
            return [Outcome(**_numbers(row)) for row in kept["outcomes"]]
    if not trial.trained:
        train_run(run, trial.recipe, progress=progress, tell=tell)
    weights = str(trial.recipe.model.weights if trial.trained else run.path / "model.pt")
    rows = _certify(trial.recipe, run, weights, progress=progress)
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
    run.write_json(OUTCOME, {"trial": facts, "outcomes": [_null(asdict(one)) for one in outcomes]})
    return outcomes


def run_sweep(
    recipe: SweepRecipe, folder: Path, *, progress: bool = True, tell: Callable[[str], None] = print
) -> list[Outcome]:
    """All outcomes of a sweep, trial after trial, in results.csv and results.json; called again, it goes on.

    Paper: App. I.
    """
    run = RunFolder(folder)
    run.create()
    save_recipe(recipe, folder / "sweep.toml")
    found: list[Outcome] = []
    every = trials(recipe, folder)
    for place, trial in enumerate(every, 1):
        tell(f"trial {place}/{len(every)}: {trial.settings or trial.name}")
        found += run_trial(trial, progress=progress, tell=tell)
        write_outcomes(run, found)
    return found


def write_outcomes(run: RunFolder, outcomes: list[Outcome]) -> None:
    """The table of outcomes, with every digit."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Outcome.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in outcomes)
    run.write("results.csv", text.getvalue())
    run.write_json("results.json", [_null(asdict(one)) for one in outcomes])


def _changed(recipe: SweepRecipe, changes: dict[str, dict[str, Any]]) -> SweepRecipe:
    values = merged(asdict(recipe), changes)
    own = {section: {key: one for key, one in part.items() if one is not None} for section, part in values.items()}
    if "sigma" in changes.get("train", {}):
        own["certify"]["sigma"] = own["train"]["sigma"]
    return replace(build(SweepRecipe, own, "sweep.over"), sweep=SweepSettings())


def _certify(recipe: SweepRecipe, run: RunFolder, weights: str, *, progress: bool) -> Any:
    settings = RunSettings(
        model=replace(recipe.model, weights=weights),
        data=recipe.test,
        certify=replace(recipe.certify, sigma=recipe.train.sigma),
        evaluate=recipe.evaluate,
    )
    certify_run(run, settings, progress=progress)
    return evaluate_run(run, recipe.evaluate, figures=False).rows


def _plain(trial: Trial) -> dict[str, Any]:
    recipe = asdict(trial.recipe)
    recipe.pop("engine")  # where it ran does not matter
    named = {"name": trial.name, "method": trial.method, "baseline": trial.baseline, "settings": trial.settings}
    named["start"] = weights_digest(trial.recipe) or ""
    plain: dict[str, Any] = json.loads(json.dumps(named | {"recipe": recipe}))
    return plain


def _null(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(value, float) and value != value else value for key, value in row.items()}


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {key: float("nan") if value is None else value for key, value in row.items()}
