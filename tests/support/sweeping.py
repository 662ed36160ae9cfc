"""A small sweep, and stand-ins for its trials that other processes can import."""

import os
import signal

from certcal.settings import build
from certcal.studies import Study, run_study
from certcal.studies.trials import Failure

RECIPE = {
    "model": {"name": "training_samples:plain"},
    "data": {"name": "data.npz"},
    "test": {"name": "data.npz", "limit": 20},
    "objective": {"name": "noise"},
    "train": {"sigma": 0.25, "epochs": 1, "batch_size": 16},
    "machine": {"device": "cpu"},
    "certify": {"n": 100, "n0": 20, "device": "cpu"},
    "evaluate": {"radii": [0.05, 0.1]},
    "sweep": {"over": {"train.learning_rate": [0.01, 0.1], "objective.draws": [1]}},
}


def crowded(trial, until=None):
    """Finds no room the first time; a later one that depends on it comes after it."""
    mark = trial.folder.with_suffix(".tried")
    if trial.name == "large" and not mark.exists():
        mark.touch()
        return Failure.of(trial, MemoryError("no room"))
    return [trial.name]


def killed(trial, until=None):
    mark = trial.folder.with_suffix(".tried")
    if trial.name == "large" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [trial.name]


def small(rates=(0.01, 0.1), **about):
    """A study of one baseline that is fine-tuned in as many ways as there are rates."""
    method = {"name": "AT", "objective": {"name": "smoothadv"}, "sweep": {"over": {"train.learning_rate": [*rates]}}}
    values = {key: value for key, value in RECIPE.items() if key not in ("objective", "sweep")}
    return build(Study, values | {
        "about": {"title": "small", "radii": [0.05, 0.1], **about},
        "certify": RECIPE["certify"] | {"n": 500},
        "finetune": {"epochs": 1, "batch_size": 16},
        "baseline": [{"name": "one", "objective": {"name": "noise"}, "train": {"sigma": 0.25, "epsilon": 0.1}}],
        "method": [method],
    }, "test")  # fmt: skip


def run(study, folder, **options):
    return run_study(study, folder, progress=False, tell=lambda text: None, **options)
