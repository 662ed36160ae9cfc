"""Names that a model does not have are refused where it says its names, with a way out that gives the right labels."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from certcal import InputError, collect_evidence
from certcal.data import check_names, from_arrays
from certcal.models import save_checkpoint
from certcal.runs.load import load_data, load_model, model_classes
from certcal.settings import DataSettings, ModelSettings

OWN = ("ant", "cat", "dog")  # the model's, in its order
INPUTS = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LENET = ModelSettings(name="lenet")


def network(names: tuple[str, ...] = OWN) -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, len(names)))
    model.config = SimpleNamespace(id2label=dict(enumerate(names)))
    return model


def draw(data: object, model: nn.Module | None = None) -> list[int]:
    return collect_evidence(model or network(), data, sigma=0.5, n=50, n0=10, chunk=50).label.tolist()


@pytest.mark.parametrize(
    ("names", "foreign", "order"),
    [
        (["ant", "cat", "zebra"], "zebra", ["ant", "cat", "zebra"]),
        (["horse", "ibis", "zebra"], "horse, ibis, zebra", ["zebra", "ibis", "horse"]),
    ],
)
def test_names_that_the_model_does_not_have_are_refused(names: list[str], foreign: str, order: list[str]) -> None:
    """They would get the number of another class: "zebra" that of "dog"."""
    told = rf"names of the model's classes, ant, cat, dog \(.*\), but got {foreign}, which it does not have"
    for data in (from_arrays(INPUTS, names * 2), (INPUTS, names * 2), list(zip(INPUTS, names * 2, strict=True))):
        with pytest.raises(InputError, match=told):
            draw(data)
    # The way out: which of its classes they are.
    assert draw(from_arrays(INPUTS, names * 2).in_order(order)) == [order.index(one) for one in names * 2]


@pytest.mark.parametrize(
    ("names", "own"),
    [
        (("Ant", "CAT", "dog"), OWN),
        (("00", "01", "02"), OWN),  # numbers
        (("n01440764", "n01443537", "n01484850"), ("tench", "goldfish", "great white shark")),  # ImageNet's folders
        (("horse", "ibis", "zebra"), ("0", "1", "2")),  # a model that was trained on numbers
        (("horse", "ibis", "zebra"), (*OWN, "eel")),  # the names of another head
        (("horse", "ibis", "zebra"), ()),
    ],
)
def test_other_names_are_taken_where_they_can_mean_one_thing(names: tuple[str, ...], own: tuple[str, ...]) -> None:
    check_names(names, 3, found=True, own=own)


def test_names_in_an_order_and_those_to_be_learned_are_taken() -> None:
    check_names(["horse", "ibis", "zebra"], 3, found=False, own=OWN)
    check_names(["horse", "ibis", "zebra"], 3, found=True, own=OWN, fresh=True)
    with pytest.raises(InputError, match="got 1, 2, 4, which it does not have"):
        check_names(["1", "2", "4"], 3, found=True, own=("3", "5", "8"))


def test_a_hugging_face_folder_with_default_labels_has_no_names(tmp_path: Path) -> None:
    named = {"id2label": {str(n): f"LABEL_{n}" for n in range(3)}}
    (tmp_path / "config.json").write_text(json.dumps(named))
    assert model_classes(ModelSettings(name=f"hf:{tmp_path}")) == ()
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "LABEL_1", "1": "LABEL_0"}}))
    assert model_classes(ModelSettings(name=f"hf:{tmp_path}")) == ("LABEL_1", "LABEL_0")


def test_labels_that_are_numbers_are_to_be_renumbered(tmp_path: Path) -> None:
    """Other names for them, in the model's order, would only call class 0 something else."""
    np.savez(tmp_path / "numbers.npz", inputs=INPUTS.numpy(), labels=[0, 1, 2, 0, 1, 2])
    named = DataSettings(name=str(tmp_path / "numbers.npz"), class_names=("dog", "ant", "cat"))
    told = r"'dog' as 2 \(its labels are numbers: renumber them in the model's order: ant, cat, dog\), but got 'dog'"
    with pytest.raises(InputError, match=told):
        draw(load_data(named))


@pytest.mark.parametrize("labels", [[0, 1, 2, 0, 1, 2], ["dog", "ant", "cat"] * 2], ids=["numbers", "names"])
def test_the_way_out_that_is_told_moves_labels_to_the_models_numbers(labels: list[object]) -> None:
    data = from_arrays(INPUTS, labels, classes=["dog", "ant", "cat"])
    with pytest.raises(InputError) as caught:
        draw(data)
    names = re.findall(r"by from_arrays\(…\)\.in_order\(\[…\]\) or --class-names: (.*)\)", str(caught.value))
    assert draw(data.in_order(names[0].split(", "))) == [2, 0, 1, 2, 0, 1]


def test_the_hint_about_class_names_comes_only_where_the_number_of_classes_does_not_fit(tmp_path: Path) -> None:
    for at, name in enumerate(("ant", "cat", "dog")):
        (tmp_path / "some" / name).mkdir(parents=True)
        Image.fromarray(np.full((8, 8, 3), at, dtype=np.uint8)).save(tmp_path / "some" / name / "0.png")
    data = load_data(DataSettings(name=str(tmp_path / "some")))
    with pytest.raises(InputError, match=r"at least 16 for LeNet .*, but got 8\.$"):
        load_model(LENET, data)
    with pytest.raises(InputError, match=r"which does not exist\.$"):
        load_model(ModelSettings(name="small-cnn", weights=str(tmp_path / "none.pt")), data)
    for classes, hint in ((5, True), (3, False)):
        other = load_model(ModelSettings(name="small-cnn", classes=classes), data.in_order(["ant", "cat", "dog", "e"]))
        save_checkpoint(other, tmp_path / "other.pt")
        settings = ModelSettings(name="small-cnn" if hint else "resnet20", weights=str(tmp_path / "other.pt"))
        with pytest.raises(InputError) as caught:
            load_model(settings, data)
        assert ("The 3 classes are the names that are in the data" in str(caught.value)) == hint
