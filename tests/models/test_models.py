"""The architectures are those of the literature, down to the number of parameters."""

import sys
import types

import pytest
import torch
from torch import nn

from certcal import InputError
from certcal.models import Normalize, Tempered, build_model, model_fingerprint, model_names
from certcal.models.resnet import PaddedShortcut


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "channels", "size", "count"),
    [
        ("lenet", 1, 28, 431_080),
        ("small-cnn", 1, 8, 13_706),
        ("resnet20", 3, 32, 269_722),  # 0.27 million, He et al. (2016), Tab. 6
        ("resnet56", 3, 32, 853_018),  # 0.85 million
        ("resnet110", 3, 32, 1_727_962),  # 1.7 million
        ("preact-resnet18", 3, 32, 11_172_170),  # 11.17 million
    ],
)
def test_parameter_counts_and_logits(name: str, channels: int, size: int, count: int) -> None:
    model = build_model(name, classes=10, channels=channels, size=size).eval()
    assert parameters(model) == count
    with torch.no_grad():
        assert model(torch.rand(2, channels, size, size)).shape == (2, 10)


@pytest.mark.parametrize(("name", "channels", "size"), [("lenet", 3, 32), ("small-cnn", 3, 5), ("resnet20", 1, 28)])
def test_other_sizes_channels_and_classes(name: str, channels: int, size: int) -> None:
    assert build_model(name, classes=3, channels=channels, size=size)(torch.rand(4, channels, size, size)).shape == (
        4,
        3,
    )


def test_projection_shortcuts_have_the_published_names() -> None:
    plain = build_model("resnet20", classes=10, channels=3, size=32)
    projected = build_model("resnet20", classes=10, channels=3, size=32, shortcut="projection")
    extra = projected.state_dict().keys() - plain.state_dict().keys()
    assert "1.layer2.0.downsample.0.weight" in extra
    assert all(".downsample." in name for name in extra)
    assert parameters(projected) - parameters(plain) == 16 * 32 + 32 * 64 + 2 * (32 + 64)


def test_padded_shortcut_keeps_every_second_pixel_between_zeros() -> None:
    inputs = torch.rand(2, 4, 6, 6)
    outputs = PaddedShortcut(4)(inputs)
    assert outputs.shape == (2, 8, 3, 3)
    assert torch.equal(outputs[:, 2:6], inputs[:, :, ::2, ::2])
    assert outputs[:, :2].abs().sum() + outputs[:, 6:].abs().sum() == 0


@pytest.mark.slow
def test_every_weight_of_a_network_learns() -> None:
    for name in ("lenet", "resnet20", "preact-resnet18"):
        model = build_model(name, classes=10, channels=3, size=32)
        model(torch.rand(4, 3, 32, 32)).square().sum().backward()
        assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


def test_normalisation_is_the_first_layer() -> None:
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    torch.manual_seed(0)
    model = build_model("resnet20", classes=10, channels=3, size=32, normalize=(mean, std)).eval()
    torch.manual_seed(0)
    bare = build_model("resnet20", classes=10, channels=3, size=32).eval()
    inputs = torch.rand(2, 3, 32, 32)
    by_hand = torch.stack([(inputs[:, c] - mean[c]) / std[c] for c in range(3)], dim=1)
    torch.testing.assert_close(model(inputs), bare(by_hand))
    assert isinstance(bare[0], nn.Identity)
    assert {"0.mean", "0.std"} <= model.state_dict().keys()


@pytest.mark.parametrize(
    ("normalize", "reason"),
    [
        (0.5, "pair"),
        (
            ([0.5], [0.5]),
            r"one mean per channel \(3\), but got 1 \(grey image files\? --channels 1, in Python channels=1",
        ),
        (([0.5] * 2, [0.5] * 2), r"one mean per channel \(3\), but got 2.$"),
        (([0.5] * 3, [0.5] * 2), r"as many entries as `mean` \(3\), but got 2"),
        (([0.5] * 3, [0.5, 0.0, 0.5]), "`std` to be positive"),
        (([0.5] * 2 + [float("nan")], [0.5] * 3), "`mean` to be finite"),
    ],
)
def test_bad_normalisation_is_refused(normalize: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        build_model("resnet20", classes=10, channels=3, size=32, normalize=normalize)


def wide(*, classes: int, width: int = 4) -> nn.Module:
    """A factory that wants to know the number of classes only."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))


NUMBER = 3


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("mine")
    module.wide, module.NUMBER, module.text = wide, NUMBER, str
    monkeypatch.setitem(sys.modules, "mine", module)


def test_import_paths_take_settings(mine: None) -> None:
    model = build_model("mine:wide", classes=5, channels=1, size=8, normalize=([0.5], [0.5]), width=7)
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 5)
    assert isinstance(model[0], Normalize)
    linear = build_model("torch.nn:Linear", classes=5, channels=1, size=8, in_features=8, out_features=5)
    assert isinstance(linear[1], nn.Linear)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("resnet200", {}, "did you mean 'resnet20'"),
        ("vit", {}, "package.module:factory"),
        ("no.such.module:f", {}, "No module named"),
        ("mine:absent", {}, "no attribute 'absent'"),
        (":f", {}, "importable"),
        ("mine:NUMBER", {}, "callable, but got 'mine:NUMBER', an int"),
        ("mine:text", {"object": 3}, "a function from a batch to outputs, but got str"),
        ("mine:wide", {"depth": 3}, "unexpected keyword argument 'depth'"),
        ("lenet", {"shortcut": "identity"}, "unexpected keyword argument 'shortcut'"),
        ("resnet20", {"shortcut": "none"}, "be one of 'identity', 'projection', but got 'none'"),
        ("lenet", {"size": 8}, "at least 16 for LeNet"),
        ("resnet20", {"classes": 1}, "`classes` to be an integer ≥ 2"),
        ("resnet50", {"channels": 1}, "be 3 for resnet50"),
    ],
)
def test_unknown_models_and_settings_are_refused(mine: None, name: str, settings: dict, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        build_model(name, **({"classes": 10, "channels": 3, "size": 32} | settings))
    assert "\n" not in str(caught.value)


def test_resnet50_needs_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(InputError, match="For resnet50 certcal needs torchvision"):
        build_model("resnet50", classes=10, channels=3, size=224)


def test_resnet50_comes_from_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    models = types.ModuleType("torchvision.models")
    models.resnet50 = lambda *, weights, num_classes: nn.Linear(1, num_classes)
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    assert build_model("resnet50", classes=7, channels=3, size=224)[1].out_features == 7


def test_names() -> None:
    names = ("lenet", "small-cnn", "resnet20", "resnet56", "resnet110", "preact-resnet18", "resnet50")
    assert model_names() == names


class TestFingerprint:
    def model(self, **options: object) -> nn.Sequential:
        torch.manual_seed(1)
        statistics = ((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
        return build_model(
            "resnet20", **({"classes": 10, "channels": 3, "size": 32, "normalize": statistics} | options)
        )

    def test_is_the_same_for_the_same_model_however_it_is_held(self) -> None:
        expected = model_fingerprint(self.model())
        assert len(expected) == 64
        assert model_fingerprint(self.model()) == expected
        assert model_fingerprint(self.model().to(memory_format=torch.channels_last)) == expected
        assert model_fingerprint(self.model().eval()) == expected
        assert model_fingerprint(nn.DataParallel(self.model())) == expected

    @pytest.mark.slow  # to import the compiler; it compiles at the first call only
    def test_is_the_same_for_the_model_to_be_compiled(self) -> None:
        assert model_fingerprint(torch.compile(self.model())) == model_fingerprint(self.model())

    def test_changes_with_anything_that_changes_the_outputs(self) -> None:
        seen = {model_fingerprint(self.model())}
        for changed in (
            self.model(normalize=((0.5, 0.5, 0.5), (0.2, 0.2, 0.3))),
            self.model(normalize=None),
            self.model(classes=9),
            self.model(shortcut="projection"),
            self.model().double(),
            self.model().to(torch.bfloat16),
        ):
            seen.add(model_fingerprint(changed))
        assert len(seen) == 7

    def test_a_single_bit_counts(self) -> None:
        model = self.model()
        before = model_fingerprint(model)
        with torch.no_grad():
            weight = model[1].fc.weight
            weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0))
        assert model_fingerprint(model) != before

    def test_layers_without_weights_count(self) -> None:
        relu, gelu = (nn.Sequential(nn.Linear(2, 2), act) for act in (nn.ReLU(), nn.GELU()))
        gelu.load_state_dict(relu.state_dict())
        assert model_fingerprint(relu) != model_fingerprint(gelu)

    def test_buffers_outside_the_state_dict_and_odd_tensors_count(self) -> None:
        def scaled(value: float) -> nn.Module:
            module = nn.Identity()
            module.register_buffer("scale", torch.tensor(value), persistent=False)
            module.register_buffer("nothing", torch.empty(0))
            return module

        assert model_fingerprint(scaled(1.0)) != model_fingerprint(scaled(2.0))


def test_a_temperature_changes_how_sure_a_model_is_and_no_prediction():
    model, inputs = build_model("small-cnn", classes=3, channels=1, size=8).eval(), torch.rand(20, 1, 8, 8)
    sharp = Tempered(model, 0.25)
    with torch.no_grad():
        assert torch.equal(sharp(inputs), model(inputs) / 0.25)
        assert torch.equal(sharp(inputs).argmax(dim=1), model(inputs).argmax(dim=1))
    names = {model_fingerprint(Tempered(model, value)) for value in (0.25, 0.5, 1.0)} | {model_fingerprint(model)}
    assert len(names) == 4
    for value in (0.0, -1.0, float("nan"), "hot"):
        with pytest.raises(InputError, match="Expected `temperature` to be a finite number > 0"):
            Tempered(model, value)


def test_evidence_drawn_before_the_networks_moved_still_knows_its_model() -> None:
    model = Tempered(build_model("small-cnn", classes=3, channels=1, size=8, normalize=([0.5], [0.25])), 0.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    expected = "5a70126d95e598882e7ff23a03a24c9198e52320cacba5a7da226f103a17f937"
    assert model_fingerprint(model) == expected
