"""A study says in a line per trial what the checks find: a table alone shows a guessing model like any other."""

import json

import numpy as np
import pytest

from certcal.studies import build_sweep, run_sweep, sweep_trials
from certcal.studies.trials import kept_doubts
from sweeping import RECIPE
from training_samples import stripes

GUESS, ALL = "not clearly better than guessing", {"name": "data.npz"}


def warned(recipe, folder, **options):
    told = []
    results = run_sweep(build_sweep(recipe, "test"), folder, progress=False, tell=told.append, **options)
    assert results.outcomes
    assert not results.failures
    return [line for line in told if line.startswith("warning: ")]


def one(train, **sections):
    """One trial, of a network that learns nothing, or much."""
    return RECIPE | {"train": RECIPE["train"] | train, "sweep": {}} | sections


def test_a_trial_of_a_guessing_model_says_so(desk):
    guess = one({"learning_rate": 1e-9}, test=ALL)
    (line,) = warned(guess, desk / "guess")
    assert line.startswith("warning: noise 1: Accuracy without noise is ")
    assert GUESS in line
    assert warned(guess, desk / "guess") == [line]  # also where it was done before


def test_what_is_surely_wrong_is_told_too_and_stops_no_trial(desk):
    inputs, labels = stripes(seed=1).tensors()
    for name, moved in (("fresh", labels), ("shifted", (labels + 1) % 3)):
        np.savez(desk / f"{name}.npz", inputs=inputs.numpy(), labels=moved.numpy())
    trained = {"epochs": 30, "learning_rate": 0.1}
    assert warned(one(trained, test={"name": "fresh.npz"}), desk / "fresh") == []
    (line,) = warned(one(trained, test={"name": "shifted.npz"}), desk / "shifted")
    assert line.endswith("with each label minus 1: they are shifted by one.")  # --no-checks is of another command


@pytest.mark.slow
def test_trials_elsewhere_say_so_here(desk):
    recipe = RECIPE | {"test": ALL, "sweep": {"over": {"train.learning_rate": [1e-9, 1e-8]}}}
    lines = warned(recipe, desk / "beside", per_device=2)
    assert len(lines) == 2
    assert all(GUESS in line for line in lines)


@pytest.mark.parametrize("record", ["", "[]", '{"outcomes": []}', '{"doubts": 3}'])
def test_a_record_without_doubts_has_none(tmp_path, record):
    """Of an earlier version, or damaged, which is told of elsewhere."""
    trial = sweep_trials(build_sweep(RECIPE, "test"), tmp_path)[0]
    assert kept_doubts(trial) == []
    trial.folder.mkdir()
    (trial.folder / trial.outcome).write_text(record)
    assert kept_doubts(trial) == []
    (trial.folder / trial.outcome).write_text(json.dumps({"doubts": ["a", "b"]}))
    assert kept_doubts(trial) == ["a", "b"]
