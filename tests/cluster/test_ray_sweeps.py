"""Sweeps on a cluster: the same weights and table as local ones, whoever dies, in a folder that all nodes share."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

# Clusters of these tests have no token, and drivers must not look for one; Ray reads this when it is imported.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")

from certcal.errors import InputError
from certcal.runs.folder import RunFolder
from certcal.studies import build_sweep, run_sweep, sweep_trials
from certcal.studies.sweep import run_trials
from ray_models import traces
from training_samples import same_weights, stripes, weights

NETS = """
import os, time
from torch import nn

class Net(nn.Sequential):
    def forward(self, x):
        if self.training and self.folder:
            time.sleep(0.1)
            with open(f"{self.folder}/{os.getpid()}.trace", "a") as file:
                file.write("step\\n")
        if self.training and self.dies:
            os._exit(1)
        return super().forward(x)

def make(classes, channels, size, folder="", dies=False):
    net = Net(nn.Flatten(), nn.Linear(channels * size * size, classes))
    net.folder, net.dies = folder, dies
    return net
"""
RECIPE = {
    "model": {"name": "nets_of_a_sweep:make"},
    "data": {"name": "data.npz"},
    "test": {"name": "data.npz", "limit": 10},
    "objective": {"name": "noise"},
    "train": {"sigma": 0.25, "epochs": 2, "batch_size": 16},
    "engine": {"device": "cpu", "checkpoint_steps": 1},
    "certify": {"n": 100, "n0": 20, "device": "cpu"},
    "evaluate": {"radii": [0.05]},
}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A working folder with data and a network that only programs that work in it find."""
    inputs, labels = stripes().tensors()
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    (tmp_path / "nets_of_a_sweep.py").write_text(NETS)
    monkeypatch.syspath_prepend(tmp_path)  # as the command does
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recipe(over, **changes):
    return build_sweep(RECIPE | changes | {"sweep": {"over": over}}, "test")


def sweep(made, folder, **options):
    return run_sweep(made, Path(folder), progress=False, tell=lambda text: None, **options)


def test_a_sweep_is_the_local_one_and_failures_are_rows_of_its_table(desk, cluster):
    made = recipe({"train.learning_rate": [0.01, 1e30, 0.1]})
    local, there = sweep(made, "grid-here"), sweep(made, "grid-there", engine=cluster)
    assert len(there.outcomes) == 2
    assert there.outcomes == local.outcomes
    assert [one.settings for one in there.failures] == ["learning_rate 1e+30"]
    assert there.failures[0].failed.startswith("Training diverged at epoch 1, step 2 of 4: ")
    for name in ("results.csv", "results.json"):
        written = [(desk / folder / name).read_text().replace(folder, "") for folder in ("grid-here", "grid-there")]
        assert written[0] == written[1]
        assert "Training diverged" in written[0]
    for trial in ("trial-1", "trial-3"):
        both = [weights(desk / folder / trial / "model.pt") for folder in ("grid-here", "grid-there")]
        assert same_weights(*both)
    assert "TrainingError" in (desk / "grid-there" / "trial-2" / "error.txt").read_text()
    assert not list((desk / "grid-there").glob(".shared*"))


def test_a_killed_worker_goes_on_from_the_checkpoint_and_a_deadly_trial_is_given_up(desk, cluster):
    """By process id, in the middle of a trial; another trial ends every worker it gets."""
    options = [{"folder": str(desk)}, {"dies": True}]
    made = recipe({"model.options": options}, train=RECIPE["train"] | {"epochs": 6})
    killed = []

    def kill():
        deadline = time.monotonic() + 120
        while not killed and time.monotonic() < deadline:
            busy = [pid for pid, steps in traces(desk).items() if steps >= 10]
            if busy:
                os.kill(busy[0], signal.SIGKILL)
                killed.append(busy[0])
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    there = sweep(made, "there", engine=replace(cluster, retries=1))
    thread.join()
    counts = traces(desk)
    assert killed[0] in counts
    assert len(counts) == 2
    assert 24 <= sum(counts.values()) <= 24 + 2  # six epochs of four steps; one was running and one not yet kept
    (failure,) = there.failures
    assert "lost its worker 2 times" in failure.failed
    local = sweep(recipe({"model.options": options[:1]}, train=RECIPE["train"] | {"epochs": 6}), "local")
    assert same_weights(
        weights(desk / "local" / "trial-1" / "model.pt"), weights(desk / "there" / "trial-1" / "model.pt")
    )
    assert [replace(one, settings="") for one in there.outcomes] == [
        replace(one, settings="") for one in local.outcomes
    ]


def test_a_folder_that_nodes_do_not_share(desk, cluster):
    """What a process has as its working folder, each has for itself."""
    with pytest.raises(InputError, match="does not see what this program writes there") as caught:
        sweep(recipe({"train.seed": [1]}), "/proc/self/cwd/sweep", engine=cluster)
    assert "Expected `run` to be a folder that this program and every node of the cluster share" in str(caught.value)
    assert {path.name for path in (desk / "sweep").iterdir()} == {".lock", "manifest.json", "sweep.toml"}


def test_data_or_a_network_that_nodes_do_not_have(desk, cluster):
    for section, name, message in (("data", "nowhere.npz", "data"), ("model", "nowhere:make", "model")):
        with pytest.raises(InputError, match=rf"^On node [\d.]+ of the cluster: Expected `{message}` to "):
            sweep(recipe({}, **{section: {"name": name}}), "sweep", engine=cluster)
        assert not list((desk / "sweep").glob("trial*"))


def test_fine_tuning_waits_for_its_baseline_and_is_left_out_without_one(desk, monkeypatch):
    """The order of things, without a cluster: the pool gives results in the order that is worst."""
    begun = []

    def run_calls(cluster, function, arguments, *, then, **options):
        waiting, count = list(enumerate(arguments)), len(stages)
        while waiting:
            position, (trial, place) = waiting.pop()
            begun.append(trial.folder)
            came = function(trial, place)
            more = list(then(position, came))
            waiting += list(enumerate(more, count))
            count += len(more)
            yield position, came

    monkeypatch.setattr("certcal.cluster.pool.run_calls", run_calls)
    good, bad = (
        sweep_trials(recipe({"train.learning_rate": [rate]}), desk / name)[0]
        for name, rate in (("a", 0.1), ("b", 1e30))
    )
    tuned = {}
    for start in (good, bad):
        from_it = recipe({}, model=RECIPE["model"] | {"weights": str(start.folder / "model.pt")})
        tuned[start.folder] = [
            replace(one, baseline=start.name) for one in sweep_trials(from_it, start.folder / "tuned")
        ]
    stages = [(good, tuned[good.folder]), (bad, tuned[bad.folder])]
    run = RunFolder(desk)
    results = run_trials(run, stages, where=object(), progress=False, tell=lambda text: None)
    assert begun == [bad.folder, good.folder, tuned[good.folder][0].folder]
    assert [one.failed for one in results.failures][1:] == ["the model that it starts from failed"]
    table = (desk / "results.csv").read_text()
    here = run_trials(run, stages, where=1, progress=False, tell=lambda text: None)
    assert (desk / "results.csv").read_text() == table
    assert here == results
