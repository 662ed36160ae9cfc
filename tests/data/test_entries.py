"""Inputs and labels in the forms people have them give the evidence of plain tensors."""

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

from certcal import Evidence, InputError, collect_evidence
from certcal.data import as_classes, as_pair, from_arrays, load_dataset
from certcal.models import Unscale, build_model

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (6, 3, 5, 4), dtype=np.uint8)
PLAIN = torch.from_numpy(BYTES).float() / 255
NUMBERS = [0, 2, 1, 1, 0, 2]
NAMES = [("ant", "bee", "cow")[number] for number in NUMBERS]
HWC = [Image.fromarray(np.moveaxis(one, 0, -1)) for one in BYTES]


class Net(nn.Module):
    def __init__(self, features: int = 60) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.linear = nn.Linear(features, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs.flatten(1))


class Pairs(Dataset):
    def __init__(self, items: list) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: int) -> object:
        return self.items[position]


def draw(data: object, **options: object) -> Evidence:
    return collect_evidence(Net(), data, **{"sigma": 0.5, "n": 100, "n0": 10, "chunk": 100} | options)


def same(one: Evidence, other: Evidence) -> bool:
    names = [part.name for part in fields(one) if part.name != "header"]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


DICTS = [{"image": picture, "label": number, "id": 7} for picture, number in zip(HWC, NUMBERS, strict=True)]
FORMS = {
    "bytes": (BYTES, NUMBERS),
    "channels last": (np.moveaxis(BYTES, 1, -1), NUMBERS),
    "sixteen bits": ((BYTES.astype(np.uint16) * 257), NUMBERS),
    "names": (PLAIN, NAMES),
    "array of names": (PLAIN, np.array(NAMES)),
    "one-hot": (PLAIN, np.eye(3)[NUMBERS]),
    "list of pairs": list(zip(PLAIN, NUMBERS, strict=True)),
    "list of named pairs": list(zip(BYTES, NAMES, strict=True)),
    "list of dicts": DICTS,
    "dataset of pictures": Pairs(list(zip(HWC, NUMBERS, strict=True))),
    "dataset of dicts": Pairs([{"pixel_values": one, "labels": n} for one, n in zip(PLAIN, NUMBERS, strict=True)]),
    "dataset of one-hot": Pairs(list(zip(PLAIN, torch.eye(3)[NUMBERS], strict=True))),
    "loader of dicts": DataLoader(Pairs([{"x": one, "y": n} for one, n in zip(PLAIN, NUMBERS, strict=True)]), 4),
    "list of pairs, channels last": [(np.moveaxis(one, 0, -1), n) for one, n in zip(BYTES, NUMBERS, strict=True)],
    "loader, channels last": DataLoader(Pairs(list(zip(PLAIN.movedim(1, -1), NUMBERS, strict=True))), 4),
    "a dict of arrays": {"image": BYTES, "label": NAMES, "id": 7},
    "a column of labels": (PLAIN, np.array(NUMBERS)[:, None]),
    "a column of names": (PLAIN, np.array(NAMES)[:, None]),
    "labels in vectors of one": Pairs(list(zip(PLAIN, np.array(NUMBERS)[:, None], strict=True))),
    "dataset of names": Pairs(list(zip(HWC, NAMES, strict=True))),
    "loader of names": DataLoader(Pairs([{"x": one, "y": n} for one, n in zip(PLAIN, NAMES, strict=True)]), 4),
    "dataset of numbers as texts": Pairs(list(zip(PLAIN, map(str, NUMBERS), strict=True))),
    "labels in floats": (PLAIN, np.array(NUMBERS, dtype=np.float32)),
    "ImageData": from_arrays(np.moveaxis(BYTES, 1, -1), NAMES),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_evidence_of_plain_tensors(form: str) -> None:
    found, plain = draw(FORMS[form]), draw((PLAIN, NUMBERS))
    if form == "sixteen bits":  # x · 257 / 65535 is x / 255 but for the last bit
        assert np.array_equal(found.label, plain.label)
        assert np.allclose(found.score_sum, plain.score_sum, atol=1e-3)
    else:
        assert same(found, plain)


GREY = [Image.fromarray(one[0]) for one in BYTES]


class Convolution(nn.Module):
    """Which takes images of some channels, and nothing else."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Conv2d(channels, 2, 3), nn.Flatten(), nn.Linear(12, 3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (PLAIN[:, 0], PLAIN[:, :1]),
        ([one[0] for one in BYTES], PLAIN[:, :1]),
        (GREY, PLAIN[:, :1]),
        ([one.convert("RGB") for one in GREY[:2]] + GREY[2:], PLAIN[:, :1].repeat(1, 3, 1, 1)),  # the first coloured
        (GREY[:2] + [one.convert("RGB") for one in GREY[2:]], PLAIN[:, :1].repeat(1, 3, 1, 1)),  # the first grey
        ([one.convert("P") for one in GREY], PLAIN[:, :1].repeat(1, 3, 1, 1)),
        ([one.point(lambda v: 255 * (v > 99)).convert("1") for one in GREY], (PLAIN[:, :1] > 99 / 255).float()),
    ],
    ids=["arrays (n, h, w)", "pairs (h, w)", "grey", "colour first", "grey first", "palette", "bits"],
)
def test_pictures_get_the_channels_that_the_model_takes(given: object, plain: torch.Tensor) -> None:
    model = Convolution(plain.shape[1])
    options = {"sigma": 0.5, "n": 100, "n0": 10, "chunk": 100}
    data = (given, NUMBERS) if isinstance(given, torch.Tensor) else list(zip(given, NUMBERS, strict=True))
    assert same(collect_evidence(model, data, **options), collect_evidence(model, (plain, NUMBERS), **options))


def test_plain_pixels_stay_as_they_are_for_a_model_that_takes_them() -> None:
    signals = torch.rand(6, 3, 20, generator=torch.Generator().manual_seed(0))  # (channels, length), in [0, 1]
    model = nn.Sequential(nn.Conv1d(3, 2, 3), nn.Flatten(), nn.Linear(36, 3))
    evidence = collect_evidence(model, (signals, NUMBERS), sigma=0.5, n=100, n0=10, chunk=100)
    assert evidence.header.elements == 60
    with pytest.raises(InputError, match=r"accept inputs of shape \(9, 9\)"):
        collect_evidence(model, (torch.rand(6, 9, 9), NUMBERS), sigma=0.5, n=100, n0=10, chunk=100)


@pytest.mark.slow
def test_hugging_face_datasets_are_taken_as_they_are() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ant", "bee", "cow"])})
    data = datasets.Dataset.from_dict({"image": HWC, "label": NUMBERS}, features=features)
    assert same(draw(data), draw((PLAIN, NUMBERS)))
    model = Net()
    model.config = SimpleNamespace(id2label={0: "bee", 1: "ant", 2: "cow"})
    with pytest.raises(InputError, match=r"number its classes as the model does, 'ant' as 1 .*, but got 'ant' as 0"):
        collect_evidence(model, data, sigma=0.5, n=100, n0=10, chunk=100)
    table = datasets.Dataset.from_dict({"x": PLAIN.tolist(), "y": NUMBERS}).with_format("torch")
    assert same(draw(table), draw((PLAIN, NUMBERS)))
    assert same(draw(DataLoader(table, batch_size=4)), draw((PLAIN, NUMBERS)))
    named = datasets.Dataset.from_dict({"image": HWC, "label": NAMES})
    for form in (named, named.with_transform(lambda batch: batch | {"text": ["a"] * len(batch["label"])})):
        assert same(draw(form), draw((PLAIN, NUMBERS)))
    renamed = named.with_transform(lambda batch: {"x": batch["image"], "y": [one.upper() for one in batch["label"]]})
    assert same(draw(renamed), draw((PLAIN, NUMBERS)))  # no column has these names: they are read one by one
    with pytest.raises(InputError, match="of several splits give one"):
        draw(datasets.DatasetDict({"test": named}))


@pytest.mark.parametrize("form", [tuple, list, Pairs])
def test_names_of_some_of_the_models_classes_are_refused(form: type) -> None:
    """Numbered among themselves they would be other classes: "bee" is 1 of the model's three, and 0 of two names."""
    some = [name if name != "ant" else "cow" for name in NAMES]
    data = (PLAIN, some) if form is tuple else form(list(zip(PLAIN, some, strict=True)))
    with pytest.raises(
        InputError, match=r"name each of the model's 3 classes.*in_order\(\[…\]\).*, but got 2 names: bee, cow"
    ):
        draw(data)
    whole = from_arrays(PLAIN, some, classes=["ant", "bee", "cow"])
    assert draw(whole).label.tolist() == [2, 2, 1, 1, 2, 2]


def test_names_beside_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="`data` to have names or numbers, not both, but got 'ant' and 1"):
        draw(Pairs([(PLAIN[0], "ant"), (PLAIN[1], 1)]))


def test_inputs_live_anywhere_when_told_so() -> None:
    table = np.array([[-4.0, 100.0], [2.0, -50.0], [7.0, 3.0]])
    model = Net(2)
    options = {"sigma": 20.0, "n": 100, "n0": 10, "chunk": 100}
    evidence = collect_evidence(model, (table, ["b", "a", "c"]), values="any", **options)
    assert evidence.header.units == "the inputs as they are"
    assert evidence.label.tolist() == [1, 0, 2]
    data = from_arrays(table, ["b", "a", "c"], values="any")
    assert data.classes == ("a", "b", "c")
    assert same(evidence, collect_evidence(model, data, **options))
    with pytest.raises(InputError, match="values='any' takes all numbers"):
        collect_evidence(model, (table, [0, 1, 0]), **options)
    with pytest.raises(InputError, match="`values` to be one of 'unit', 'any', but got 'some'"):
        collect_evidence(model, (table, [0, 1, 0]), values="some", **options)
    with pytest.raises(InputError, match="hold finite numbers"):
        collect_evidence(model, (np.full((2, 2), np.inf), [0, 1]), values="any", **options)


def test_scaled_inputs_come_back_to_the_model_as_they_were(tmp_path) -> None:
    table = RNG.normal([5.0, -300.0], [0.1, 80.0], (40, 2)).astype(np.float32)
    np.savez(tmp_path / "table.npz", inputs=table, labels=np.arange(40) % 3)
    data = load_dataset(tmp_path / "table.npz", values="any", scale="std")
    assert data.shape == (2,)
    assert data.units == "features divided by their standard deviation"
    torch.testing.assert_close(data.inputs.std(0, correction=0), torch.ones(2))
    seen = Unscale(data.scale.mean, data.scale.std, nn.Identity())(data.inputs)
    torch.testing.assert_close(seen, torch.from_numpy(table), rtol=1e-5, atol=1e-4)
    part = load_dataset(tmp_path / "table.npz", values="any", scale="std", limit=5)
    assert torch.equal(part.inputs, data.inputs[part.index])  # in the units of the whole
    signals = from_arrays(RNG.normal(3, 2, (8, 2, 30)), np.arange(8) % 2, values="any").scaled()
    torch.testing.assert_close(signals.inputs.mean(dim=(0, 2)), torch.zeros(2), atol=1e-5, rtol=0)
    for options, message in (
        ({}, "lie in"),
        ({"scale": "std"}, "lie in"),
        ({"values": "some"}, "`values` to be one of"),
    ):
        np.savez(tmp_path / "images.npz", inputs=np.full((3, 1, 4, 4), 7.0), labels=[0, 1, 0])
        with pytest.raises(InputError, match=message):
            load_dataset(tmp_path / "images.npz", **options)
    with pytest.raises(InputError, match="vary in every feature"):
        from_arrays(np.ones((4, 2)), [0, 1, 0, 1], values="any").scaled()
    with pytest.raises(InputError, match="be unit for images"):
        load_dataset("digits", values="any")


def test_models_of_a_table_are_told_its_features(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    monkeypatch.setitem(
        sys.modules, "tables", SimpleNamespace(net=lambda features, classes: nn.Linear(features, classes))
    )
    model = build_model("tables:net", classes=3, shape=(7,))
    assert model(torch.zeros(2, 7)).shape == (2, 3)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1.0], "one class per input: certcal certifies no regression, but got 0.5"),
        (np.array([[0.5], [1.0]]), "certifies no regression, but got 0.5"),
        (np.array([[0.5, 3.0], [1.0, 2.0]]), "certifies no regression, but got shape (2, 2)"),
        (["0.5", "1"], "certifies no regression, but got 0.5"),
        (np.array([[1, 1, 0], [0, 1, 0]]), "one class per input: certcal certifies no multi-label classification"),
        ([[0, 2], [1], []], "certifies no multi-label classification, but got rows of several lengths"),
        ([[0, 2], [1, 2]], "certifies no multi-label classification"),
        (["cat", "dog", "cat|dog"], "certifies no multi-label classification, but got 'cat|dog'"),
        (np.zeros((2, 4, 4)), "certifies no segmentation, but got shape (2, 4, 4)"),
        ([{"boxes": 1}, {"boxes": 2}], "certifies no detection or segmentation, but got a dict of boxes"),
        ([0, None], "have a class for every input, but got None"),
        (["cat", ""], "have a class for every input, but got an empty text"),
        (np.array([[0.2, 0.8], [0.5, 0.5]]), "be class numbers, names or one-hot rows, but got probabilities"),
    ],
)
def test_what_is_no_class_is_refused(labels: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        as_classes(labels)
    assert message in str(caught.value)
    for data in ((torch.rand(len(labels), 1, 2, 2), labels), [(torch.rand(1, 2, 2), label) for label in labels]):
        with pytest.raises(InputError):  # at the other doors as well
            collect_evidence(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), data, sigma=0.5, n=100, n0=10, chunk=100)


def test_dicts_must_name_input_and_label_once() -> None:
    with pytest.raises(InputError, match=r"the keys picture, label at 3"):
        as_pair({"picture": 1, "label": 0}, "at 3")
    with pytest.raises(InputError, match=r"the keys image, x, label"):
        as_pair({"image": 1, "x": 2, "label": 0}, "at 3")


def test_tables_and_splits_are_no_data() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"Expected `data` to be \(inputs, labels\).*but got DataFrame"):
        draw(pandas.DataFrame({"x": [1.0], "y": [0]}))
    with pytest.raises(InputError, match=r"the keys train, test instead of them \(of several splits give one\)"):
        draw({"train": (PLAIN, NUMBERS), "test": (PLAIN, NUMBERS)})
    with pytest.raises(InputError, match="have a class for every input, but got none at index 1"):
        as_classes(pandas.Series(["a", None, "b"]))


def test_whole_floats_as_texts_are_in_the_order_of_numbers() -> None:
    assert as_classes(["10.0", "2.0", "0.0"])[0].tolist() == [10, 2, 0]
    assert as_classes(pytest.importorskip("pandas").Series([1, 0, 2], dtype=object))[0].tolist() == [1, 0, 2]


def test_digits_as_texts_are_numbers():
    labels = from_arrays(np.zeros((12, 1, 2, 2), dtype=np.float32), [str(n) for n in range(12)]).labels
    assert labels.tolist() == list(range(12))


def test_no_names_are_no_numbers():
    assert as_classes(np.array([], dtype=object))[0].tolist() == []
    for one in ("cat", torch.tensor(0.5)):
        with pytest.raises(InputError, match="be one-dimensional"):
            as_classes(one)
