"""The training loop: it learns, repeats exactly, and goes on after a kill as if nothing had happened."""

import csv
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from certcal.training import MachineSettings, ObjectiveSettings, ValidationSettings
from certcal.training.state import read_state
from places import ROOT, SUPPORT
from training_samples import CPU, make, plain, same_weights, settings, stripes, trained

VALIDATION = ValidationSettings(every=2, fraction=0.25, inputs=10, draws=100, n0=20, radii=(0.05, 0.1))


def rows(folder):
    """The log without what a clock says."""
    with (folder / "log.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def run_script(code, *words, **env):
    path = os.pathsep.join([str(SUPPORT), str(ROOT / "src")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | env
    return subprocess.Popen([sys.executable, *words, "-c" if not words else code, *([code] if not words else [])],
                            env=environment, stderr=subprocess.PIPE, text=True)  # fmt: skip


def test_it_learns_and_leaves_weights_log_and_checkpoint(tmp_path):
    model, data = make(), stripes(300)
    result, weights = trained(tmp_path, model=model, data=data, settings=settings(epochs=12, learning_rate=0.1))
    assert result.history[-1]["loss"] < 0.6 * result.history[0]["loss"]
    inputs, labels = stripes(200, seed=1).tensors()
    assert (model.eval()(inputs).argmax(1) == labels).float().mean() > 0.9
    assert same_weights(weights, model.state_dict())
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"model.pt", "checkpoint.pt", "log.csv"}
    assert [int(row["epoch"]) for row in rows(tmp_path)] == list(range(1, 13))
    assert [float(row["learning_rate"]) for row in rows(tmp_path)[:3]] == pytest.approx([0.1, 0.1, 0.01])


def test_the_same_seed_gives_the_same_bits_and_another_one_others(tmp_path):
    _, first = trained(tmp_path / "a")
    torch.rand(3)  # what the caller draws does not matter, and neither does training to the caller
    state = torch.random.get_rng_state()
    _, again = trained(tmp_path / "b", model=make())
    _, other = trained(tmp_path / "c", settings=settings(seed=1))
    assert same_weights(first, again)
    assert not same_weights(first, other)
    model = make()
    state = torch.random.get_rng_state()
    trained(tmp_path / "d", model=model)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("steps", "kept"), [pytest.param(1, 2, marks=pytest.mark.slow), (2, 2), (5, 0)])
def test_a_run_that_stops_anywhere_goes_on_bit_for_bit(tmp_path, steps, kept, monkeypatch):
    machine = replace(CPU, checkpoint_steps=steps)
    _, whole = trained(tmp_path / "whole", machine=machine, validation=VALIDATION)
    from certcal.training.loop import Trainer

    proper, left = Trainer.step, 9  # the third step of the third epoch

    def failing(self, *arguments):
        nonlocal left
        left -= 1
        if left == 0:
            raise MemoryError
        return proper(self, *arguments)

    monkeypatch.setattr(Trainer, "step", failing)
    with pytest.raises(MemoryError):
        trained(tmp_path / "parts", machine=machine, validation=VALIDATION)
    state = read_state(tmp_path / "parts" / "checkpoint.pt")["state"]
    assert (state["epoch"], state["step"]) == (2, kept)
    said = []
    result, parts = trained(tmp_path / "parts", machine=machine, validation=VALIDATION, tell=said.append)
    assert same_weights(whole, parts)
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
    assert result.resumed_at == state["epoch"]
    assert "going on from" in said[0]


@pytest.mark.slow
def test_a_killed_process_goes_on_bit_for_bit(tmp_path):
    _, whole = trained(tmp_path / "whole", settings=settings(epochs=40))
    code = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from certcal.training.loop import Trainer
        from training_samples import *
        proper = Trainer.step
        def slow(self, *arguments):
            time.sleep(0.03)
            return proper(self, *arguments)
        Trainer.step = slow
        machine = MachineSettings(device="cpu", checkpoint_steps=1)
        trained(Path({str(tmp_path / "killed")!r}), settings=settings(epochs=40), machine=machine)
    """)
    process, checkpoint = run_script(code), tmp_path / "killed" / "checkpoint.pt"
    deadline = time.monotonic() + 60
    while not checkpoint.is_file() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.5)  # into the steps after it
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, process.stderr.read()
    process.stderr.close()
    state = read_state(checkpoint)["state"]
    assert 0 < 4 * state["epoch"] + state["step"] < 160
    assert not (tmp_path / "killed" / "model.pt").exists()
    _, resumed = trained(tmp_path / "killed", settings=settings(epochs=40))
    assert same_weights(whole, resumed)
    assert rows(tmp_path / "whole") == rows(tmp_path / "killed")


def test_more_epochs_are_the_same_run_only_longer(tmp_path):
    _, whole = trained(tmp_path / "whole", settings=settings(epochs=6))
    trained(tmp_path / "parts", settings=settings(epochs=3))
    _, parts = trained(tmp_path / "parts", settings=settings(epochs=6))
    assert same_weights(whole, parts)
    result, again = trained(tmp_path / "parts", settings=settings(epochs=6))  # nothing is left to do
    assert same_weights(whole, again)
    assert len(result.history) == 6


def test_ctrl_c_keeps_every_step(tmp_path, monkeypatch):
    from certcal.training.loop import Trainer

    proper, left = Trainer.step, 7

    def interrupting(self, *arguments):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return proper(self, *arguments)

    monkeypatch.setattr(Trainer, "step", interrupting)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "parts")
    state = read_state(tmp_path / "parts" / "checkpoint.pt")["state"]
    assert (state["epoch"], state["step"]) == (1, 3)
    _, parts = trained(tmp_path / "parts")
    _, whole = trained(tmp_path / "whole")
    assert same_weights(whole, parts)


def test_validation_is_on_held_out_images_and_keeps_the_best(tmp_path, monkeypatch):
    seen, used = [], []
    import certcal.training.loop as loop

    proper_validate, proper_batches = loop.validate, loop.Batches

    def validate(model, data, *rest, **how):
        used.append(data)
        return proper_validate(model, data, *rest, **how)

    def batches(data, *rest, **options):
        seen.append(data)
        return proper_batches(data, *rest, **options)

    monkeypatch.setattr(loop, "validate", validate)
    monkeypatch.setattr(loop, "Batches", batches)
    result, _ = trained(tmp_path, validation=VALIDATION, settings=settings(epochs=5))
    assert [("certified_accuracy_at_0.1" in row) for row in result.history] == [False, True, False, True, True]
    assert not set(seen[0].index.tolist()) & set(used[0].index.tolist())
    assert len(used[0]) == 10
    best = max((np.mean([row["certified_accuracy_at_0.05"], row["certified_accuracy_at_0.1"]]), row["epoch"])
               for row in result.history if "certified_accuracy_at_0.1" in row)  # fmt: skip
    assert read_state(tmp_path / "checkpoint.pt")["state"]["best"]["epoch"] == best[1]
    assert (tmp_path / "best.pt").is_file()
    assert 0 <= result.history[1]["certified_brier_at_0.05"] <= 1


@pytest.mark.slow
def test_two_processes_do_what_one_does(tmp_path):
    """And one of them is killed in the middle of an epoch: torchrun starts both again, from the checkpoint."""
    script = tmp_path / "both.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, signal
        from pathlib import Path
        from training_samples import *
        from certcal.training.fabric import leave_group
        from certcal.training.loop import Trainer
        attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
        Path({str(tmp_path)!r}, f"attempt-{{attempt}}-{{rank}}").touch()
        proper = Trainer.step
        def deadly(self, step, *rest):
            if (attempt, rank, self.state.epoch, step) == ("0", "1", 1, 2):
                os.kill(os.getpid(), signal.SIGKILL)
            return proper(self, step, *rest)
        Trainer.step = deadly
        objective, machine = ObjectiveSettings(name="ce"), MachineSettings(device="cpu", checkpoint_steps=3)
        trained(Path({str(tmp_path / "two")!r}), model=plain(), objective=objective, machine=machine,
                settings=settings(augment="crop-flip"))
        leave_group()
    """)
    )
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1")
    process = run_script(str(script), *words)
    error = process.communicate()[1]
    assert process.returncode == 0, error
    attempts = {path.name for path in tmp_path.glob("attempt-*")}
    assert attempts == {f"attempt-{count}-{rank}" for count in range(2) for rank in range(2)}
    objective = ObjectiveSettings(name="ce")
    _, one = trained(tmp_path / "one", model=plain(), objective=objective, settings=settings(augment="crop-flip"))
    two = torch.load(tmp_path / "two" / "model.pt", weights_only=True)["state_dict"]
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-4, atol=1e-6)
    for own, other in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert float(own["loss"]) == pytest.approx(float(other["loss"]), rel=1e-5)
    assert read_state(tmp_path / "two" / "checkpoint.pt")["state"]["processes"] == 2
    said = []
    trained(tmp_path / "two", model=plain(), objective=objective, tell=said.append,
            settings=settings(augment="crop-flip", epochs=5))  # fmt: skip
    assert "made by 2 processes" in said[1]


def test_images_that_do_not_fit_in_memory_are_streamed(tmp_path):
    from PIL import Image

    from certcal.data import load_dataset

    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for place in range(10):
            pixels = rng.integers(0, 255, (6, 6), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{place}.png")
    files = load_dataset(tmp_path / "images", channels=1)
    whole = replace(files, pixels=files.pixels.stack())
    options = {
        "settings": settings(batch_size=8, augment="crop-flip"),
        "machine": MachineSettings(device="cpu", workers=0),
    }
    _, streamed = trained(tmp_path / "a", model=make(classes=2), data=files, **options)
    _, held = trained(tmp_path / "b", model=make(classes=2), data=whole, **options)
    assert same_weights(streamed, held)


def test_tensorboard_gets_the_same_rows(tmp_path):
    pytest.importorskip("tensorboard")
    trained(tmp_path, machine=replace(CPU, tensorboard=True))
    assert any((tmp_path / "tensorboard").iterdir())


def test_bfloat16_trains_too(tmp_path):
    result, weights = trained(tmp_path, machine=replace(CPU, precision="bfloat16"))
    assert result.history[-1]["loss"] < result.history[0]["loss"] + 0.5
    assert all(value.dtype in (torch.float32, torch.int64) for value in weights.values())
