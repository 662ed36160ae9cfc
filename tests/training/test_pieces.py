"""Schedules, batches, augmentation and checkpoints by themselves, and everything that training refuses."""

import re
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch

from certcal.data import from_arrays
from certcal.errors import InputError, TrainingError
from certcal.training import MachineSettings, ObjectiveSettings, TrainSettings, ValidationSettings, schedules
from certcal.training.batches import Batches, Share, crop_and_flip, flip
from certcal.training.fabric import _fabric, launch_fabric
from training_samples import plain, settings, stripes, trained


def test_schedules_are_the_papers():
    fine = TrainSettings(sigma=0.5, epsilon=1.0, epochs=10, learning_rate=0.05, decay_every=4, epsilon_warmup=3)
    assert [schedules.learning_rate(fine, epoch) for epoch in range(10)] == pytest.approx(
        [0.05] * 4 + [0.005] * 4 + [0.0005] * 2
    )
    assert [schedules.epsilon(fine, epoch) for epoch in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])
    assert [schedules.sigma(fine, epoch) for epoch in (0, 9)] == [0.5, 0.5]
    fashion = TrainSettings(sigma=0.5, epsilon=1.0, sigma_warmup=8, epsilon_zero=8, epsilon_warmup=8)
    assert [schedules.sigma(fashion, epoch) for epoch in (0, 7, 8)] == [0.0625, 0.5, 0.5]
    assert [schedules.epsilon(fashion, epoch) for epoch in (0, 7, 8, 14, 15, 16)] == [0, 0, 0.125, 0.875, 1, 1]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_an_epoch_sees_every_image_once_however_many_processes(processes):
    data, plan = stripes(50), settings(batch_size=12, augment="crop-flip")
    whole = Batches(data, plan, device=torch.device("cpu"), share=Share(), workers=0)
    parts = [
        Batches(data, plan, device=torch.device("cpu"), share=Share(rank, processes), workers=0)
        for rank in range(processes)
    ]
    assert whole.steps == 4
    for steps in zip(whole.epoch(3), *(part.epoch(3) for part in parts), strict=True):
        (step, inputs, labels), *others = steps
        assert all(other[0] == step for other in others)
        assert torch.equal(torch.cat([other[1] for other in others]), inputs)
        assert torch.equal(torch.cat([other[2] for other in others]), labels)


def test_epochs_shuffle_differently_and_can_begin_anywhere():
    data = from_arrays(np.arange(20, dtype=np.uint8).reshape(20, 1, 1, 1) * 10, [0, 1] * 10)
    batches = Batches(
        data, settings(batch_size=5, augment="none"), device=torch.device("cpu"), share=Share(), workers=0
    )
    first, second = ([inputs.flatten().tolist() for _, inputs, _ in batches.epoch(epoch)] for epoch in (0, 1))
    assert sorted(value for batch in first for value in batch) == pytest.approx(
        sorted((data.inputs.flatten()).tolist())
    )
    assert first != second
    assert [inputs.flatten().tolist() for _, inputs, _ in batches.epoch(0, start=2)] == first[2:]


def test_augmentation_moves_and_mirrors_by_what_was_drawn(rng):
    images = torch.from_numpy(rng.random((40, 2, 5, 6)))
    uniform = torch.from_numpy(rng.random((40, 3)))
    mirrored = flip(images, uniform)
    moved = crop_and_flip(images, uniform)
    for place in range(40):
        own = images[place].flip(-1) if uniform[place, 0] < 0.5 else images[place]
        assert torch.equal(mirrored[place], own)
        top, left = int(uniform[place, 1] * 9), int(uniform[place, 2] * 9)
        padded = torch.zeros(2, 13, 14, dtype=torch.float64)
        padded[:, 4:9, 4:10] = images[place]
        window = padded[:, top : top + 5, left : left + 6]
        assert torch.equal(moved[place], window.flip(-1) if uniform[place, 0] < 0.5 else window)


def spoiled(**changes):
    return replace(stripes(), **changes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: stripes().select(torch.arange(0)), "hold at least one image"),
        (lambda: spoiled(labels=torch.full((64,), 3)), "labels from 0 to 2, but got 3 at index 0"),
        (lambda: spoiled(labels=torch.arange(64) % 3 - 1), "labels from 0 to 2, but got -1"),
        (lambda: spoiled(labels=torch.rand(64)), "have one class number per image"),
        (lambda: spoiled(labels=torch.ones(64, dtype=torch.long)), "at least two classes, but got '1' alone"),
        (lambda: spoiled(pixels=torch.full((64, 1, 6, 6), torch.nan)), r"inputs in \[0, 1\]"),
        (lambda: spoiled(pixels=torch.full((64, 1, 6, 6), 255.0)), r"inputs in \[0, 1\]"),
        (lambda: stripes(size=7), "take the images of stripes"),
        (lambda: stripes(classes=4), r"give logits of shape \(inputs, 4\) for stripes, but got shape \(2, 3\)"),
        (lambda: stripes(15), r"be at most the number of training images \(15\), but got 16"),
    ],
)
def test_data_that_nothing_can_be_learned_from_is_refused(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        trained(tmp_path / "run", data=data())
    assert not (tmp_path / "run" / "checkpoint.pt").exists()


@pytest.mark.parametrize(
    ("make_settings", "message"),
    [
        (lambda: TrainSettings(sigma=-1.0), "`sigma`"),
        (lambda: TrainSettings(sigma=float("nan")), "`sigma`"),
        (lambda: TrainSettings(sigma=0.1, epochs=0), "`epochs`"),
        (lambda: TrainSettings(sigma=0.1, batch_size=0), "`batch_size`"),
        (lambda: TrainSettings(sigma=0.1, learning_rate=0.0), "`learning_rate`"),
        (lambda: TrainSettings(sigma=0.1, momentum=1.0), "`momentum`"),
        (lambda: TrainSettings(sigma=0.1, augment="mixup"), "`augment`"),
        (lambda: TrainSettings(sigma=0.1, seed=-1), "`seed`"),
        (lambda: ValidationSettings(fraction=1.0), "`fraction`"),
        (lambda: ValidationSettings(radii=(-0.1,)), "`radii`"),
        (lambda: ValidationSettings(method="best"), "`method`"),
        (lambda: MachineSettings(precision="float16"), "`precision`"),
        (lambda: MachineSettings(devices=0), "`devices`"),
        (lambda: MachineSettings(checkpoint_minutes=0), "`checkpoint_minutes`"),
    ],
)
def test_settings_are_checked(make_settings, message):
    with pytest.raises(InputError, match=message):
        make_settings()


def test_validation_without_noise_and_unknown_objectives_are_refused(tmp_path):
    with pytest.raises(InputError, match="`sigma` to be a number > 0 where"):
        trained(tmp_path, settings=settings(sigma=0.0), validation=ValidationSettings(every=1))
    with pytest.raises(InputError, match="`objective`"):
        trained(tmp_path, objective=ObjectiveSettings(name="nosie"))
    with pytest.raises(InputError, match="`device`"):
        trained(tmp_path, machine=MachineSettings(device="gpu9"))


def test_the_defaults_are_the_papers():
    """App. I: SGD with weight decay 1e-4; momentum and the decay of the rate as in Salman et al."""
    own = TrainSettings(sigma=0.5)
    assert (own.momentum, own.weight_decay, own.decay, own.batch_size) == (0.9, 1e-4, 0.1, 256)


@pytest.mark.parametrize("name", ["smoothadv", "brier-act", "acce-act", "acce-act*", "cce-act", "pgd", "certified-cce"])
def test_an_adversary_without_room_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=f"be > 0.* for the objective '{re.escape(name)}', but got 0.0"):
        trained(tmp_path, objective=ObjectiveSettings(name=name))
    assert not (tmp_path / "checkpoint.pt").exists()


def test_a_certificate_needs_no_adversary(tmp_path):
    trained(tmp_path, objective=ObjectiveSettings(name="certified-brier", radius=0.2), settings=settings(epochs=1))


def test_noise_and_augmentation_differ_from_epoch_to_epoch(tmp_path):
    """A learning rate next to nothing: the loss of an epoch then differs only by what was drawn for it."""
    quiet = settings(epochs=3, learning_rate=1e-12, augment="none")
    result, _ = trained(tmp_path / "noise", model=plain(), settings=quiet)
    assert len({row["loss"] for row in result.history}) == 3
    moved = settings(epochs=3, learning_rate=1e-12, augment="crop-flip", batch_size=64)
    result, _ = trained(tmp_path / "augment", model=plain(), settings=moved, objective=ObjectiveSettings(name="ce"))
    assert len({round(row["loss"], 6) for row in result.history}) == 3


def test_an_infinite_gradient_is_divergence(tmp_path):
    class Steep(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            return value

        @staticmethod
        def backward(context, gradient):
            return gradient * float("inf")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = plain()

        def forward(self, inputs):
            return Steep.apply(self.inner(inputs))

    with pytest.raises(TrainingError, match=r"gradient norm (inf|nan)"):
        trained(tmp_path, model=Model())


def without_fabric(monkeypatch):
    for name in ("lightning_fabric", "lightning", "lightning.fabric"):
        monkeypatch.setitem(sys.modules, name, None)


def test_one_process_trains_without_fabric(tmp_path, monkeypatch):
    without_fabric(monkeypatch)
    result, _ = trained(tmp_path, settings=settings(epochs=1))
    assert result.first
    assert len(result.history) == 1


def test_without_fabric_one_line_says_how_to_get_it(monkeypatch):
    without_fabric(monkeypatch)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(InputError, match=r"several devices needs Lightning Fabric: pip install 'certcal\[train\]'"):
        launch_fabric(MachineSettings(device="cpu", devices=2))


def test_fabric_is_found_inside_lightning_too(monkeypatch):
    without_fabric(monkeypatch)
    fabric = ModuleType("lightning.fabric")
    fabric.Fabric = object
    monkeypatch.setitem(sys.modules, "lightning.fabric", fabric)
    assert _fabric() is object
