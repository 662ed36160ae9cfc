"""A run goes on with the settings it was begun with, whatever settings have come to be since."""

from dataclasses import asdict
from pathlib import Path

import pytest

from certcal import InputError
from certcal.settings import ObjectiveSettings, TrainSettings, ValidationSettings
from certcal.training.state import check_same_settings, flat_settings


def settings(**train):
    parts = ObjectiveSettings(name="smoothadv"), TrainSettings(sigma=0.25, **train), ValidationSettings()
    return flat_settings(dict(zip(("objective", "train", "validation"), map(asdict, parts), strict=True)))


@pytest.mark.parametrize("name", ["train.momentum", "validation.every", "objective.steps"])
def test_a_setting_that_came_later_is_at_its_default(name):
    now = settings()
    before = {key: value for key, value in now.items() if key != name}
    check_same_settings(Path("checkpoint.pt"), before, now)
    with pytest.raises(InputError, match=f"but got {name} = 7 "):
        check_same_settings(Path("checkpoint.pt"), before, now | {name: 7})


def test_other_settings_are_refused_and_more_epochs_are_not():
    check_same_settings(Path("checkpoint.pt"), settings(epochs=2), settings(epochs=3))
    with pytest.raises(InputError, match=r"train.epochs = 2 \(was 3\)"):
        check_same_settings(Path("checkpoint.pt"), settings(epochs=3), settings(epochs=2))
    with pytest.raises(InputError, match=r"train.sigma = 0.25 \(was None\)"):  # which has no default
        check_same_settings(Path("checkpoint.pt"), {}, settings())
