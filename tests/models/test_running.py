"""How a model is run: each rule once, for sampling, attacks, training, deployment and bench."""

import pytest
import torch
from torch import nn

from certcal import InputError
from certcal.models import (
    Conditions,
    Runner,
    as_outputs,
    as_probabilities,
    autocast,
    count_classes,
    device_of,
    held_still,
    no_distribution,
    running,
)
from certcal.models.running import LAST, PLAIN, fastest_layout, lay_out
from certcal.settings import Precision
from certcal.smoothing import collect_evidence

CPU = torch.device("cpu")


@pytest.mark.parametrize("precision", tuple(Precision))
def test_a_precision_is_what_the_model_computes_in(precision):
    with autocast(precision, CPU):
        assert nn.Linear(3, 2)(torch.rand(4, 3)).dtype == getattr(torch, precision)


def test_float32_turns_no_autocast_on():
    with autocast("float32", CPU):
        assert not torch.is_autocast_enabled("cpu")


def test_a_model_of_buffers_alone_is_where_they_are():
    model = nn.Module()
    assert device_of(model) == CPU
    model.register_buffer("scale", torch.ones(1, device="meta"))
    assert device_of(model) == torch.device("meta")


def test_held_still_gives_every_module_back_as_it_was():
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3).eval())
    model.train()
    model[1].eval()  # frozen on purpose
    with torch.inference_mode(), held_still(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_inference_mode_enabled()
    assert [module.training for module in model.modules()] == [True, True, False]


@pytest.mark.parametrize("answer", [(), torch.rand(5), torch.rand(3, 2), torch.rand(4, 0), torch.rand(4, 2, 1)])
def test_outputs_of_another_shape_are_refused(answer):
    with pytest.raises(InputError, match=r"Expected `model` to give outputs of shape \(batch, classes\)"):
        as_outputs(answer, 4)


def test_outputs_of_other_classes_are_refused():
    with pytest.raises(InputError, match=r"to give outputs of shape \(4, 3\), but got \(4, 2\)"):
        as_outputs(torch.rand(4, 2), 4, 3)


def test_half_precision_outputs_become_float32_and_double_stays():
    assert as_outputs(torch.rand(4, 2).half(), 4).dtype == torch.float32
    assert as_outputs(torch.rand(4, 2).double(), 4).dtype == torch.float64


def test_probabilities_are_clipped_and_others_are_left_to_be_found():
    given = torch.tensor([[1.0000002, 0.0], [0.7, 0.7], [1.2, -0.2], [torch.nan, 1.0], [0.5, 0.5]])
    probs = as_probabilities(given, "probabilities")
    assert probs[0, 0] == 1.0
    assert no_distribution(probs).tolist() == [False, True, True, True, False]
    assert no_distribution(as_probabilities(given[3:], "logits")).tolist() == [True, False]


def test_a_model_that_fails_on_an_input_is_named_with_its_shape():
    with pytest.raises(InputError, match=r"Expected `model` to accept inputs of shape \(5,\), but got RuntimeError"):
        count_classes(nn.Linear(3, 2), torch.rand(2, 5))
    assert count_classes(nn.Linear(3, 2), torch.rand(2, 3)) == 2
    with pytest.raises(
        InputError, match=r"\(grey image files\? --channels 1, in Python channels=1, reads them with one"
    ):
        count_classes(nn.Conv2d(1, 2, 3), torch.rand(2, 3, 8, 8))


@pytest.mark.parametrize("options", [{}, {"precision": "bfloat16"}, {"fuse": True}])
def test_a_runner_gives_float32_probabilities(options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    batch = torch.rand(6, 1, 8, 8)
    with torch.inference_mode():
        run = Runner(model, Conditions("cpu", **options), outputs="logits", classes=3, made_up=batch)
        probs = run(batch)
        assert probs.dtype == torch.float32
        torch.testing.assert_close(probs, model(batch).softmax(dim=1), atol=2e-2, rtol=0)


class Tutorial(nn.Module):
    """As in many tutorials: what convolutions give goes through a `view`, which takes memory as it comes."""

    def __init__(self, channels, flatten):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(channels, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3))
        self.head, self.flatten = nn.Linear(8 * 16, 3), flatten

    def forward(self, x):
        features = self.features(x)
        rows = features.view(len(x), -1) if self.flatten == "view" else features.flatten(1)
        if self.flatten == "memory":
            rows = features.as_strided((len(x), 8 * 16), (8 * 16, 1))
        return self.head(rows)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("flatten", ["view", "memory", "flatten"])
def test_channels_are_last_only_where_the_model_bears_it(flatten, channels):
    torch.manual_seed(0)
    model, images = Tutorial(channels, flatten).eval(), torch.rand(4, channels, 8, 8)
    with torch.no_grad():
        before, last = model(images), flatten == "flatten"
        statistics = model.features[1].running_mean.clone()
        assert fastest_layout(model, images) is (LAST if last else PLAIN)
        lay_out(model.train(), images)
        assert model.features[2].weight.is_contiguous(memory_format=LAST if last else PLAIN)
        assert torch.equal(model.features[1].running_mean, statistics)
        torch.testing.assert_close(model.eval()(images), before)


class Told(nn.Module):
    """A model of which only the answer to an image in each layout is said."""

    def __init__(self, plain, last):
        super().__init__()
        self.weights, self.plain, self.last = nn.Conv2d(3, 8, 3), plain, last

    def forward(self, x):
        now = self.last if x.is_contiguous(memory_format=torch.channels_last) else self.plain
        return now(x) if callable(now) else torch.full((len(x), 2), now)


def out_of_memory(_):
    raise torch.OutOfMemoryError("a moment ago")


@pytest.mark.parametrize(
    ("plain", "last"), [(torch.nan, torch.nan), (-torch.inf, -torch.inf), (0.02, 0.03), (0.0, torch.nan)]
)
def test_what_is_answered_otherwise_or_is_no_number_decides_for_plain_images(plain, last):
    images = torch.rand(4, 3, 8, 8)
    assert fastest_layout(Told(plain, last), images) is PLAIN
    assert fastest_layout(Told(0.02, 0.02), images) is LAST


def test_memory_that_lacks_for_a_moment_decides_no_layout():
    images = torch.rand(4, 3, 8, 8)
    for model in (Told(0.0, out_of_memory), Told(out_of_memory, 0.0)):
        with pytest.raises(torch.OutOfMemoryError):
            fastest_layout(model, images)


def halves_of_memory(x):
    return x.as_strided((len(x), 2, 3 * 512), (3 * 1024, 3 * 512, 1)).mean(dim=2)


def test_noise_in_another_order_is_not_taken_for_the_same():
    images = torch.rand(4, 3, 32, 32)
    assert fastest_layout(Told(halves_of_memory, lambda x: halves_of_memory(x.contiguous())), images) is LAST
    assert fastest_layout(Told(halves_of_memory, halves_of_memory), images) is PLAIN


class Restless(nn.Module):
    """A model whose weights, once with their channels last, answer plain images otherwise."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        moved = self.first.weight.is_contiguous(memory_format=LAST) and x.is_contiguous()
        return self.first(x).flatten(1) * (2.0 if moved else 1.0)


def test_the_weights_move_only_if_plain_images_are_answered_as_before():
    model = Restless()
    lay_out(model, torch.rand(4, 3, 8, 8))
    assert model.first.weight.is_contiguous()


def test_convolutions_of_volumes_stay_as_they_are():
    model = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv3d(1, 8, 3), nn.Flatten())
    images = torch.rand(4, 3, 8, 8)
    before = model(images)
    lay_out(model, images)
    assert model[1].weight.is_contiguous()
    torch.testing.assert_close(model(images), before)


@pytest.mark.parametrize(("width", "last"), [(8, True), (12, False), (16, True)])
def test_only_widths_of_eights_are_laid_out_on_a_gpu(monkeypatch, width, last):
    laid_out = []
    monkeypatch.setattr(running, "lay_out", lambda model, images: laid_out.append(model))
    monkeypatch.setattr(nn.Module, "to", lambda self, *_: self)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_: self)
    model = nn.Conv2d(3, width, 3)
    assert running.on_device(model, torch.device("cuda"), (3, 8, 8)) is model
    assert (laid_out == [model]) is last


@pytest.mark.parametrize("flatten", ["view", "flatten"])
def test_evidence_of_any_of_them(flatten, device):
    """With `--device cuda` too, where images stand with their channels last if they can."""
    torch.manual_seed(0)
    model, data = Tutorial(3, flatten), (torch.rand(2, 3, 8, 8), torch.tensor([0, 1]))
    evidence = collect_evidence(model, data, sigma=0.25, n=2000, device=device, progress=False)
    assert evidence.votes.sum(axis=1).tolist() == [2000, 2000]


def test_conditions_in_words():
    assert str(Conditions("cpu")) == "float32 on cpu"
    assert str(Conditions("cuda:1", "bfloat16", fuse=True, compile=True)) == "bfloat16 fused compiled on cuda"
    assert str(Conditions("cuda")) == "float32 (tf32 convolutions) on cuda"
