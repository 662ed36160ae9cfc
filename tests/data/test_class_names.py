"""Names of classes are numbered as the model numbers them, or refused: at every door, with the way out."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from certcal import InputError, ace_attack, collect_evidence, load_evidence
from certcal.attacks import run_ace_attacks
from certcal.data import ImageData, check_names, from_arrays, labels, load_dataset
from certcal.models import class_names
from certcal.runs.load import load_data
from certcal.settings import DataSettings, ModelSettings, TrainSettings
from certcal.training import ObjectiveSettings, train
from command import certcal

NAMES = ("ant", "bee", "cow", "dog", "eel")  # of the model, in its order
SOME = ["eel", "bee", "eel", "cow", "bee", "cow"]  # of the data
NUMBERS = [4, 1, 4, 2, 1, 2]  # what they are among the model's
INPUTS = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
REFUSED = r"name each of the model's 5 classes.*in_order\(\[…\]\) or --class-names\), but got 3 names: bee, cow, eel"
NETS = """
from torch import nn
def make(classes, shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))
def five(shape):
    return make(5, shape)
"""


def network(classes: int = 5) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, classes))


def draw(data: object, model: nn.Module | None = None) -> list[int]:
    return collect_evidence(model or network(), data, sigma=0.5, n=50, n0=10, chunk=50).label.tolist()


def test_names_that_are_found_are_refused_and_in_order_taken() -> None:
    found = from_arrays(INPUTS, SOME)
    assert (found.classes, found.found) == (("bee", "cow", "eel"), True)
    for data in (found, found.take(limit=2), (INPUTS, SOME), list(zip(INPUTS, SOME, strict=True))):
        with pytest.raises(InputError, match=REFUSED):
            draw(data)
    assert draw(found.in_order(NAMES)) == draw(from_arrays(INPUTS, SOME, classes=NAMES)) == NUMBERS
    assert draw(found, network(3)) == [2, 0, 2, 1, 0, 1]  # all of its classes


def test_attacks_and_training_refuse_them_too(tmp_path: Path) -> None:
    for attack in (
        lambda labels: run_ace_attacks(network(), INPUTS, labels, epsilon=0.1),
        lambda labels: ace_attack(network(), INPUTS, labels, eta=1, omega="y", epsilon=0.1),
    ):
        with pytest.raises(InputError, match="Expected `y` to " + REFUSED):
            attack(SOME)
    aim = ObjectiveSettings(name="ce")
    with pytest.raises(InputError, match=REFUSED):
        train(
            network(), from_arrays(INPUTS, SOME), tmp_path, objective=aim, settings=TrainSettings(sigma=0.25, epochs=1)
        )
    assert not list(tmp_path.glob("*.pt"))


def test_the_models_own_names_say_the_order() -> None:
    """As a network of Hugging Face has them in its configuration."""
    model = network()
    model.config = SimpleNamespace(id2label=dict(enumerate(NAMES)))
    with pytest.raises(
        InputError, match=r"as the model does, 'bee' as 1 .*: ant, bee, cow, dog, eel\), but got 'bee' as 0"
    ):
        draw((INPUTS, SOME), model)
    with pytest.raises(InputError, match=r"as the model does, 'cow' as 2 .*, but got 'cow' as 1"):
        draw(from_arrays(INPUTS, NUMBERS, classes=["ant", "cow", "bee", "dog", "eel"]), model)
    assert draw(from_arrays(INPUTS, SOME, classes=NAMES), model) == NUMBERS
    assert draw(from_arrays(INPUTS, NUMBERS), model) == NUMBERS  # numbers have no names
    model.config.id2label = {n: f"LABEL_{n}" for n in range(5)}  # which says nothing
    with pytest.raises(InputError, match=REFUSED):
        draw((INPUTS, SOME), model)


@pytest.mark.parametrize("key", [int, str])
def test_the_models_names_are_read_by_their_numbers(key: type) -> None:
    """Hugging Face's tutorial writes the numbers as texts, of which "10" comes before "2"."""
    names = [f"c{n:02}" for n in range(12)]
    model = network(12)
    model.config = SimpleNamespace(id2label={key(n): name for n, name in enumerate(names)})
    assert class_names(model) == tuple(names)
    numbers = list(range(6))
    assert draw(from_arrays(INPUTS, numbers, classes=names), model) == numbers
    with pytest.raises(InputError, match=r"'c10' as 10 \(.*, but got 'c10' as 2"):
        draw(from_arrays(INPUTS, numbers, classes=[names[int(n)] for n in sorted(map(str, range(12)))]), model)


@pytest.mark.parametrize("named", [{0: "a", 2: "b"}, {1: "a", 2: "b"}, {0: "a", "0": "b"}, {"x": "a"}, {None: "a"}])
def test_names_without_a_number_each_say_nothing(named: dict[object, str]) -> None:
    model = network(2)
    model.config = SimpleNamespace(id2label=named)
    assert class_names(model) == ()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("bird", "cat", "dogs"), "'bird' as 2 (…: dog, cat, bird), but got 'bird' as 0"),  # one of them is another
        (("Bird", "Cat", "Dog"), "'bird' as 2 (…: Dog, Cat, Bird), but got 'Bird' as 0"),
        (("dog", "cow", "cat"), "'cat' as 1 (…: dog, cat, bird), but got 'cat' as 2"),
        (("Dog", "cat", "BIRD"), ""),
        (("0", "1", "2"), ""),
    ],
)
@pytest.mark.parametrize("found", [True, False])
def test_a_name_at_another_number_than_the_models_is_refused(names: tuple[str, ...], told: str, found: bool) -> None:
    def check() -> None:
        check_names(names, 3, found=found, own=("dog", "cat", "bird"))

    if not told:
        check()
        return
    with pytest.raises(InputError) as caught:
        check()
    whole = f"Expected `data` to number its classes as the model does, {told}."
    assert str(caught.value) == whole.replace("…", labels._REMEDY)


def test_names_of_another_head_and_names_twice_say_nothing() -> None:
    """A backbone keeps the names it was trained with; Hugging Face's ImageNet has two cranes."""
    check_names(["bee", "cow", "elk"], 3, found=False, own=("ant", "bee", "cow", "dog", "elk"))
    check_names(["crane", "cat", "crane"], 3, found=False, own=("crane", "cat"))
    check_names(["crane", "cat", "dog"], 3, found=False, own=("dog", "cat", "dog"))
    check_names(["0", "1", "2"], 3, found=False, own=("1", "2", "3"))  # numbers of classes, and stars
    with pytest.raises(InputError, match="'cat' as 1"):  # which is there once
        check_names(["cat", "crane"], 3, found=False, own=("crane", "cat", "crane"))


@pytest.mark.parametrize(
    ("names", "outputs", "refused"),
    [
        (["0", "1", "2"], 10, False),  # the same as names and as numbers
        (["0", "1", "3"], 10, True),  # numbers, or names of three: nobody knows
        (["0", "1", "3"], 3, False),
        (["1", "2", "3"], 3, False),
        (sorted(map(str, range(11))), 11, True),  # 10 comes before 2, or after 9
        ([f"{n:02}" for n in range(11)], 11, False),
    ],
)
def test_folders_of_numbers_pass_where_they_can_mean_one_thing(names: list[str], outputs: int, refused: bool) -> None:
    data = from_arrays(torch.rand(len(names), 1, 4, 4), list(range(len(names))), classes=names)
    if refused:
        with pytest.raises(InputError, match="--class-names"):
            check_names(data.classes, outputs, found=True)
    else:
        check_names(data.classes, outputs, found=True)
    check_names(data.classes, outputs, found=False)


def test_training_may_number_folders_of_numbers_in_any_order() -> None:
    check_names(sorted(map(str, range(11))), 11, found=True, fresh=True)


@given(st.permutations(range(6)), st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_in_order_keeps_the_name_of_every_input(order: list[int], labels: list[int]) -> None:
    data = from_arrays(torch.zeros(len(labels), 1, 2, 2), [f"c{one}" for one in labels])
    moved = data.in_order([f"c{one}" for one in order])
    assert [moved.classes[one] for one in moved.labels] == [f"c{one}" for one in labels]
    assert [order[one] for one in moved.labels] == labels
    assert not moved.found


def test_in_order_names_numbers_and_refuses_what_it_cannot_place() -> None:
    data = from_arrays(INPUTS, NUMBERS)
    assert data.in_order(NAMES).labels.tolist() == NUMBERS
    with pytest.raises(InputError, match="Expected `classes` to name each class of the data, but got no 'eel' among"):
        from_arrays(INPUTS, SOME).in_order(NAMES[:4])
    for wrong in (["a"], ["a", "a"]):
        with pytest.raises(InputError, match=r"Expected `classes` to be 2 to .* different names"):
            data.in_order(wrong)
    for wrong, kind in ((None, "a NoneType"), (3, "an int"), ("ant", "a str")):
        with pytest.raises(InputError, match=f"Expected `classes` to be a list of names, but got {kind}"):
            data.in_order(wrong)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Folders of all classes and of some, and networks."""
    rng = np.random.default_rng(0)
    for place, names in (("all", NAMES * 2), ("some", SOME)):
        for at, name in enumerate(names):
            (tmp_path / place / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(tmp_path / place / name / f"{at}.png")
    (tmp_path / "nets.py").write_text(NETS)
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(48, 5)).state_dict(), tmp_path / "net.pt")
    return tmp_path


def test_class_folders_have_names_that_are_found(desk: Path) -> None:
    data = load_dataset(desk / "some")
    assert isinstance(data, ImageData)
    assert data.found
    ordered = load_dataset(desk / "some", classes=NAMES)
    assert [data.classes[one] for one in data.labels] == [NAMES[one] for one in ordered.labels]
    np.savez(desk / "npz.npz", inputs=INPUTS.numpy(), labels=[0, 1, 0, 1, 0, 1], classes=["eel", "bee"])
    assert load_dataset(desk / "npz.npz", classes=NAMES).labels.tolist() == [4, 1, 4, 1, 4, 1]


QUICK = ("--sigma", 0.25, "--n", 250, "--radii", 0.1, "--no-checks", "--no-figures")


@pytest.mark.parametrize(
    "words",
    [
        ("certify", "a", *QUICK),
        ("certify", "a", *QUICK, "--dry-run"),
        ("certify", "a", "--certifier", "lipschitz", "--constant", 100, "--radii", 0.1, "--no-checks"),
        ("plan", "--radius", 0.25),
        ("train", "a", "--objective", "noise", "--sigma", 0.25, "--epochs", 1),
    ],
    ids=lambda words: " ".join(map(str, words[:3])),
)
def test_the_command_line_refuses_them_at_every_door(desk: Path, words: tuple[object, ...]) -> None:
    _, error = certcal(*words, "--model", "nets:five", "--data", "some", "--trust", cwd=desk, code=2)
    assert "Expected `--data` to name each of the model's 5 classes" in error
    assert "or --class-names), but got 3 names: bee, cow, eel." in error
    assert not (desk / "runs/a").exists()


def test_class_names_are_taken_from_words_or_a_file(desk: Path) -> None:
    words = ("--model", "nets:make", "--weights", "net.pt", "--data", "some", "--trust", *QUICK)
    _, error = certcal("certify", "a", *words, cwd=desk, code=2)
    assert "The 3 classes are the names that are in the data: --class-names takes the model's." in error
    (desk / "names.txt").write_text("\n".join(NAMES), encoding="utf-8-sig")  # as editors of Windows do
    given = DataSettings(name=str(desk / "some"), class_names=str(desk / "names.txt"))
    assert given.class_names == (str(desk / "names.txt"),)  # a received folder's settings read no file of ours
    assert load_data(given).classes == tuple(NAMES)
    labels = load_dataset(desk / "some", classes=NAMES).labels.tolist()
    for run, names in (("a", ",".join(NAMES)), ("b", "names.txt")):
        certcal("certify", run, *words, "--class-names", names, cwd=desk)
        assert load_evidence(desk / "runs" / run / "evidence.parquet").label.tolist() == labels
    (desk / "names.txt").unlink()  # the run goes on without it, as on another machine
    _, told = certcal("certify", "b", *words, cwd=desk)
    assert f"--class-names {','.join(NAMES)}" in told
    for names, told in (("none.txt", "be two names or more, with commas, or a text file"), ("bee,cow", "no 'eel'")):
        _, error = certcal("certify", "c", *words, "--class-names", names, cwd=desk, code=2)
        assert "Expected `--class-names` to " in error
        assert told in error


def test_a_pipe_or_a_device_is_no_file_of_class_names(tmp_path: Path) -> None:
    """A received folder may name one; reading it would wait, or not end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"name\n" * 500_000)
    for name in (str(tmp_path / "pipe"), str(tmp_path / "long"), "/dev/zero", str(tmp_path)):
        assert DataSettings(name="digits", class_names=name).class_names == (name,)
        with pytest.raises(InputError, match="`class_names` to be two names or more"):
            load_data(DataSettings(name="digits", class_names=name))
    for text, got in ((b"bee,cow", ", which has 1 name"), (b"b\xe9b\xe9\ncow", ", which is no UTF-8")):
        (tmp_path / "names").write_bytes(text)
        with pytest.raises(InputError, match=f"names'{got}"):
            load_data(DataSettings(name="digits", class_names=str(tmp_path / "names")))


def test_what_was_trained_here_knows_its_names(desk: Path) -> None:
    """A folder of some of the classes gets the numbers of the training's."""
    model = ("--model", "nets:make", "--trust")
    trained = ("--sigma", 0.25, "--epochs", 1, "--batch-size", 5, "--set", "machine.workers=0")
    certcal("train", "mine", *model, "--data", "all", "--objective", "noise", *trained, cwd=desk)
    certcal("certify", "mine", *model, "--weights", "runs/mine/model.pt", "--data", "some", *QUICK, cwd=desk)
    labels = load_evidence(desk / "runs/mine/evidence.parquet").label.tolist()
    assert labels == load_dataset(desk / "some", classes=NAMES).labels.tolist()
    certcal("attack", "mine", "--radii", 0.01, "--steps", 2, "--no-figures", cwd=desk)
    (desk / "all/bee").rename(desk / "all/fox")  # ant, cow, dog, eel, fox: as many, with other numbers
    weighted = (*model, "--weights", "runs/mine/model.pt", *QUICK)
    for words in (("--data", "all"), ("--data", "some", "--class-names", "ant,cow,bee,dog,eel")):
        _, error = certcal("certify", "other", *weighted, *words, cwd=desk, code=2)
        assert "Expected `--data` to number its classes as the model does, 'cow' as 2" in error
        assert "--class-names: ant, bee, cow, dog, eel), but got 'cow' as 1." in error
    assert not (desk / "runs/other").exists()


def test_two_classes_of_one_name_leave_the_others_their_numbers(desk: Path) -> None:
    (desk / "net").mkdir()
    named = {"id2label": dict(enumerate(("crane", "bee", "cow", "crane", "eel")))}
    (desk / "net/config.json").write_text(json.dumps(named))
    data = load_data(DataSettings(name=str(desk / "some")), ModelSettings(name=f"hf:{desk / 'net'}"))
    assert data.labels.tolist() == load_dataset(desk / "some", classes=NAMES).labels.tolist()
