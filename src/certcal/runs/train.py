"""From a recipe to trained weights in a run folder; running it again goes on."""

import tempfile
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from certcal.data import ImageData
from certcal.errors import InputError, several
from certcal.files import sealed
from certcal.models import model_fingerprint
from certcal.runs.facts import provenance
from certcal.runs.folder import SOURCES, WEIGHTS, RunFolder, Tell
from certcal.runs.load import load_data, load_model, training_part, weights_digest
from certcal.scalars import guarded
from certcal.settings import DataSettings, TrainRecipe, recipe_text
from certcal.training import TrainCost, Trainer, TrainResult, estimate_cost, train

TRAIN = "train.toml"


@guarded
def train_run(run: RunFolder, recipe: TrainRecipe, *, progress: bool = True, tell: Tell = print) -> TrainResult:
    """Trained weights in a run folder, with recipe, log, checkpoint and provenance; called again, it goes on.

    Paper: —; run folders are ours.
    Raises: InputError if the folder's checkpoint is of another model, data or recipe; it is unchanged then.
    """
    start = time.perf_counter()
    data, model = _load(recipe)
    run.create()
    with run.writing(), run.kept_if_refused(TRAIN):
        _check_free(run)
        # Of a trial, what training is made of.
        own = TrainRecipe(**{one.name: getattr(recipe, one.name) for one in fields(TrainRecipe)})
        result = train(
            model,
            data,
            run.path,
            objective=recipe.objective,
            settings=recipe.train,
            validation=recipe.validation,
            machine=recipe.machine,
            about=_identity(recipe, data),
            begin=lambda: run.write(TRAIN, recipe_text(own)),  # so that an interrupted run knows what it was
            frozen="evidence was drawn from its weights" if run.has_draws() else "",
            progress=progress,
            tell=tell,
        )
        if result.first and (result.trained or "train" not in run.sources()):
            train_facts = {"train": _sources(recipe, data, model, result, start)}
            run.write_json(SOURCES, sealed(run.sources() | train_facts))
            run.log(f"train: {several(len(result.history), 'epoch')} of {recipe.objective.name} on {data.name}")
    return result


def _check_free(run: RunFolder) -> None:
    """Refuse to train over weights that were not trained here."""
    taken = [name for name in (WEIGHTS, "best.pt", "checkpoint.pt", "log.csv") if (run.path / name).exists()]
    if taken and not (run.path / TRAIN).is_file():
        wanted = "be a new folder, or one that training began in"
        raise InputError.expected("run", wanted, f"{run.path}, which holds {', '.join(taken)} from elsewhere")


def _load(recipe: TrainRecipe) -> tuple[ImageData, nn.Module]:
    """Training data and a model with the weights that training starts from."""
    if recipe.model.temperature is not None:
        wanted = "be left for `certcal certify`: weights are trained without one"
        raise InputError.expected("temperature", wanted, recipe.model.temperature)
    data = load_data(training_part(recipe.data), recipe.model)
    with torch.random.fork_rng():
        torch.manual_seed(recipe.train.seed)
        return data, load_model(recipe.model, data, sigma=recipe.train.sigma, fresh=True)


def estimate_training(recipe: TrainRecipe, run: RunFolder | None = None) -> TrainCost:
    """What the recipe would cost here, from a few steps; leaves nothing behind.

    Raises: InputError if the folder holds weights from elsewhere, or a checkpoint of other settings.
    """
    data, model = _load(recipe)
    if run is not None:
        _check_free(run)
    with tempfile.TemporaryDirectory(prefix="certcal-") as folder:
        place, about = Path(folder) if run is None else run.path, _identity(recipe, data)
        return estimate_cost(
            Trainer(model, data, place, recipe.objective, recipe.train, recipe.validation, recipe.machine, about)
        )


def next_command(run: RunFolder, recipe: TrainRecipe) -> str:
    """The command that certifies what was trained."""
    model, data = recipe.model, recipe.data
    words = ["certcal certify", str(run.path), f"--model {model.name}", f"--weights {run.path / WEIGHTS}"]
    for key in ("mean", "std"):
        if (values := getattr(model, key)) is not None:
            words.append(f"--{key} {','.join(format(value, 'g') for value in values)}")
    words += [f"--data {_held_out(data)}"] + ([f"--root {data.root}"] if data.root else [])
    return " ".join([*words, f"--sigma {recipe.train.sigma:g}"])


def _held_out(data: DataSettings) -> str:
    """Data like that of the training, but not the same; where there is none by name, a place for it."""
    if training_part(data) != data or data.split not in (None, "train"):  # by name: the test split is the default
        return data.name
    if data.split == "train":
        return f"{data.name} --split test"
    return f"HELD_OUT{Path(data.name).suffix}"


def _identity(recipe: TrainRecipe, data: ImageData) -> dict[str, Any]:
    """What a resumed run must share beside its schedules; where files lie may change."""
    model = asdict(recipe.model) | {"options": str(recipe.model.options), "weights": weights_digest(recipe.model)}
    return {"model": model, "data": {"name": data.name, "inputs": len(data), "classes": len(data.classes)}}


def _sources(
    recipe: TrainRecipe, data: ImageData, model: nn.Module, result: TrainResult, start: float
) -> dict[str, Any]:
    device = str(next(model.parameters()).device)
    return {
        "objective": asdict(recipe.objective),
        "sigma": recipe.train.sigma,
        "data": data.name,
        "source": [data.source, training_part(recipe.data).split],
        "inputs": len(data),
        "classes": list(data.classes),
        "model": recipe.model.name,
        "from_weights": recipe.model.weights,
        "fingerprint": model_fingerprint(model),
        "epochs": len(result.history),
        "seconds_of_steps": round(sum(row["seconds"] for row in result.history), 2),
    } | provenance(seconds=time.perf_counter() - start, device=device)
