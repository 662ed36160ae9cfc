"""What a trial came to is kept, and a damaged record of it is made again instead of failing the trial for good."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from certcal.evaluation import Outcome
from certcal.files import sealed, unsealed
from certcal.studies import build_sweep, sweep_trials
from certcal.studies import trials as room
from sweeping import RECIPE


@pytest.fixture
def trial(tmp_path):
    """A trial that was run before."""
    own = sweep_trials(build_sweep(RECIPE, "recipe"), tmp_path)[0]
    own.folder.mkdir()
    found = {"certified_accuracy": 0.5, "certified_ece": 0.25, "certified_brier": 0.125}
    rows = [asdict(Outcome(method="noise", model=own.name, radius=radius, **found)) for radius in (0.05, 0.1)]
    record = sealed({"trial": room._facts(own), "outcomes": rows})
    (own.folder / room.OUTCOME).write_text(json.dumps(record))
    return own


def test_what_a_trial_came_to_is_kept(trial):
    told = []
    assert [one.radius for one in room.kept_outcomes(trial, told.append)] == [0.05, 0.1]
    assert room.kept_outcomes(replace(trial, settings="another"), told.append) is None
    assert not told


def test_settings_that_came_later_are_at_their_defaults(trial):
    path = trial.folder / room.OUTCOME
    read, told = unsealed(json.loads(path.read_text())), []
    del read["trial"]["recipe"]["evaluate"]["claim"], read["trial"]["recipe"]["train"]["momentum"]
    path.write_text(json.dumps(sealed(read)))
    assert room.kept_outcomes(trial, told.append) is not None
    other = replace(trial.recipe, train=replace(trial.recipe.train, momentum=0.5))
    assert room.kept_outcomes(replace(trial, recipe=other), told.append) is None
    assert not told


def test_a_study_may_move_to_another_folder_and_device(trial, tmp_path):
    def from_weights(place, content):
        place.parent.mkdir(exist_ok=True)
        torch.save({"weight": torch.full((1,), content)}, place)
        recipe = replace(trial.recipe, model=replace(trial.recipe.model, weights=str(place)))
        return replace(trial, recipe=replace(recipe, certify=replace(recipe.certify, device="cuda")))

    before = from_weights(tmp_path / "here" / "model.pt", 1.0)
    rows = unsealed(json.loads((trial.folder / room.OUTCOME).read_text()))["outcomes"]
    whole = room._facts(before) | {"recipe": asdict(before.recipe)}  # as earlier versions wrote it, with places
    (trial.folder / room.OUTCOME).write_text(json.dumps(sealed({"trial": whole, "outcomes": rows})))
    assert room.kept_outcomes(from_weights(tmp_path / "there" / "model.pt", 1.0)) is not None
    assert room.kept_outcomes(trial) is None, "it starts from no weights"
    assert room.kept_outcomes(from_weights(tmp_path / "there" / "model.pt", 2.0)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"x"', "\xff", "[" * 9999])
def test_a_record_that_is_none_is_made_again(trial, text):
    _damage(trial, text.encode("latin-1"))


@pytest.mark.parametrize("value", [None, 7, "x", [1], [{}], [{"radius": 0.1}], {"a": 1}], ids=str)
def test_a_record_of_other_types_is_made_again(trial, value):
    """Also with a seal of its own: somebody wrote it so."""
    read = unsealed(json.loads((trial.folder / room.OUTCOME).read_text()))
    _damage(trial, json.dumps(sealed(read | {"outcomes": value})).encode())


def test_a_changed_number_is_noticed(trial):
    text = (trial.folder / room.OUTCOME).read_text()
    assert "0.25" in text
    _damage(trial, text.replace("0.25", "0.24", 1).encode())


def _damage(trial, content):
    (trial.folder / room.OUTCOME).write_bytes(content)
    told = []
    assert room.kept_outcomes(trial, told.append) is None
    (line,) = told
    assert "is damaged and made again" in line
