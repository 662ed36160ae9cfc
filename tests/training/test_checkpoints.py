"""Checkpoints: whole or not at all, of this training, and only of numbers."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from certcal.errors import InputError, TrainingError
from certcal.files import lock_folder
from certcal.models import save_checkpoint
from certcal.training import ObjectiveSettings
from certcal.training.state import read_state
from training_samples import CPU, make, plain, settings, stripes, trained, weights


def test_a_checkpoint_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    trained(tmp_path, settings=settings(epochs=1))
    before = (tmp_path / "checkpoint.pt").read_bytes()
    proper = torch.save

    def half(content, path, *rest):
        proper(content, path, *rest)
        if "optimiser" in content:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="No space left"):
        trained(tmp_path, settings=settings(epochs=2))
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    assert not list(tmp_path.glob(".*part"))


def test_divergence_is_told_and_the_last_good_checkpoint_kept(tmp_path):
    trained(tmp_path, settings=settings(epochs=1))
    before = (tmp_path / "checkpoint.pt").read_bytes()

    class Breaking(torch.nn.Module):
        """Gives NaN after some forward passes."""

        def __init__(self, inner, passes):
            super().__init__()
            self.inner, self.left = inner, passes

        def forward(self, inputs):
            self.left -= self.training
            return self.inner(inputs) * (float("nan") if self.left < 0 else 1.0)

    broken = tmp_path / "broken"
    with pytest.raises(TrainingError, match=r"epoch 2, step 3 of 4: The loss is nan.*checkpoint.pt is kept") as caught:
        trained(broken, model=Breaking(make(), 6))
    assert "\n" not in str(caught.value)
    state = read_state(broken / "checkpoint.pt")
    assert state["state"]["epoch"] == 1
    assert all(bool(value.isfinite().all()) for value in state["state_dict"].values())
    with pytest.raises(TrainingError, match=r"epoch 1, step 1 of 4.*there is none yet"):
        trained(tmp_path / "at-once", model=Breaking(make(), 0))
    with pytest.raises(TrainingError, match=r"Training diverged at epoch \d+"):
        trained(tmp_path / "fast", settings=settings(learning_rate=1e30, epochs=9))
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_weights_that_are_no_numbers_are_not_saved(tmp_path, monkeypatch):
    from certcal.training.loop import Trainer

    trained(tmp_path, settings=settings(epochs=1))
    before = (tmp_path / "checkpoint.pt").read_bytes()
    proper = Trainer.step

    def spoiling(self, *arguments):
        value = proper(self, *arguments)
        with torch.no_grad():
            next(self.model.parameters()).fill_(float("inf"))
        return value

    monkeypatch.setattr(Trainer, "step", spoiling)
    with pytest.raises(TrainingError, match=r"checkpoint\.pt is kept"):
        trained(tmp_path, settings=settings(epochs=2), machine=replace(CPU, checkpoint_steps=1))
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_another_checkpoint_is_refused_and_left_alone(tmp_path):
    trained(tmp_path, settings=settings(epochs=1))
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(InputError, match=r"hold the weights of Sequential"):
        trained(tmp_path, model=plain(), settings=settings(epochs=1))
    with pytest.raises(InputError, match=r"train.sigma = 0.5 \(was 0.25\)"):
        trained(tmp_path, settings=settings(epochs=1, sigma=0.5))
    with pytest.raises(InputError, match=r"objective.draws = 3 \(was 2\)"):
        trained(tmp_path, settings=settings(epochs=1), objective=ObjectiveSettings(name="noise", draws=3))
    trained(tmp_path / "longer", settings=settings(epochs=2))
    with pytest.raises(InputError, match=r"train.epochs = 1 \(was 2\)"):
        trained(tmp_path / "longer", settings=settings(epochs=1))
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    save_checkpoint(make(), tmp_path / "checkpoint.pt")
    with pytest.raises(InputError, match="be a checkpoint of `certcal train`, but got a file with state_dict"):
        trained(tmp_path, settings=settings(epochs=1))
    (tmp_path / "checkpoint.pt").write_bytes(before[: len(before) // 2])
    with pytest.raises(InputError, match="be a checkpoint of `certcal train`"):
        trained(tmp_path, settings=settings(epochs=1))


def test_damaged_checkpoints_and_changed_data_are_refused(tmp_path):
    trained(tmp_path, settings=settings(epochs=1))
    path = tmp_path / "checkpoint.pt"
    good = path.read_bytes()
    middle = good.index(np.float32(weights(tmp_path / "model.pt")["1.weight"][0, 0].item()).tobytes())
    path.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    with pytest.raises(InputError, match=r"to be as it was written, but got a damaged file"):
        trained(tmp_path, settings=settings(epochs=2))
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"be a checkpoint of `certcal train`, but got \S"):
        trained(tmp_path, settings=settings(epochs=2))
    path.write_bytes(good)
    other = stripes()
    with pytest.raises(InputError, match=r"but got other images or labels in the data\.$"):
        trained(tmp_path, data=replace(other, labels=(other.labels + 1) % 3), settings=settings(epochs=2))
    with pytest.raises(InputError, match=r"engine.precision = 'bfloat16'"):
        trained(tmp_path, settings=settings(epochs=2), machine=replace(CPU, precision="bfloat16"))
    assert path.read_bytes() == good


def test_one_process_at_a_time_trains_in_a_folder(tmp_path):
    held = lock_folder(tmp_path, "run", "is training in", file=".training")
    with pytest.raises(InputError, match="be a folder that no other process is training in"):
        trained(tmp_path)
    os.close(held)
    trained(tmp_path, settings=settings(epochs=1))


def test_a_full_disk_is_called_one(tmp_path, monkeypatch):
    def full(*arguments):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 79232 vs 79120")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match=r"checkpoint\.pt could not be written"):
        trained(tmp_path, settings=settings(epochs=1))
