"""What evidence is not collected from: data, models and settings that are refused, in words that name the remedy."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

from certcal import CertcalError, InputError
from certcal.errors import CertcalWarning
from collecting import collect
from smoothing_models import small_data, small_model


class LessTheMean(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)


class Thousandfold(nn.Module):
    def forward(self, x):
        return 1000 * x


class Random(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


def test_logits_that_overflow_at_a_temperature_are_refused():
    """Divided by 10⁻³⁸ they are infinite; an even number of NaN would add up to nothing."""
    for temperatures in ([1e-38], [1.0, 1e-38]):
        with pytest.raises(CertcalError, match="probabilities"):
            collect(nn.Sequential(small_model(), Thousandfold()), temperatures=temperatures)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 0}, "Expected `sigma` to lie between 3.1e-05 and 100000, but got 0."),
        ({"sigma": 7e5}, "Expected `sigma` to lie between 3.1e-05 and 100000, but got 700000.0."),
        ({"plan": []}, "Expected `plan` to hold at least one value, but got none."),
        ({"plan": [10**12]}, "Expected `plan` to be an integer ≤ 8000000, but got 1000000000000."),
        ({"store": 3}, "Expected `store` to be a path, but got an int."),
        ({"begin": 3}, "Expected `begin` to be a function or None, but got an int."),
        ({"n": 0}, "Expected `n` to be an integer ≥ 1, but got 0."),
        ({"n0": 1.5}, "Expected `n0` to be an integer ≥ 1, but got 1.5."),
        ({"seed": -1}, "Expected `seed` to be an integer ≥ 0, but got -1."),
        ({"precision": "int4"}, "Expected `precision` to be one of 'float32', 'bfloat16', 'float16', but got 'int4'."),
        ({"outputs": "scores"}, "Expected `outputs` to be one of 'logits', 'probabilities', but got 'scores'."),
        ({"stages": [100, 500]}, "Expected `stages and stop` to be given together, but got stages alone."),
        (
            {"stages": [250, 100, 500], "stop": len},
            "Expected `stages` to rise to n = 500 by whole chunks of 50, but got [250, 100, 500].",
        ),
        ({"data": (torch.rand(0, 1, 8, 8), [])}, "Expected `data` to hold at least one input, but got none."),
        (
            {"data": (255 * torch.rand(2, 1, 8, 8), [0, 1])},
            "Expected `data` to hold inputs in [0, 1] (normalisation is the model's first layer; values='any' "
            "takes all numbers), but got values from",
        ),
        (
            {"data": (torch.zeros(2, 1, 8, 8, dtype=torch.int32), [0, 1])},
            "Expected `inputs` to be uint8, uint16 or floats in [0, 1], but got dtype torch.int32 (make bytes uint8",
        ),
        (
            {"data": (torch.full((1, 1, 8, 8), float("nan")), [0])},
            "Expected `data` to hold finite numbers, but got NaN or infinity in input 0.",
        ),
        (
            {"data": (torch.rand(2, 1, 8, 8), [0])},
            "Expected `labels` to be one number per input (2), but got shape (1,).",
        ),
        (
            {"data": (torch.rand(1, 1, 8, 8), [-1])},
            "Expected `data` to have labels that are class numbers ≥ 0, but got -1 at input 0.",
        ),
        (
            {"data": DataLoader(TensorDataset(*small_data()), shuffle=True)},
            "Expected `data` to be in a fixed order, but got a DataLoader with RandomSampler.",
        ),
        (
            {"data": "cifar10"},
            "Expected `data` to be (inputs, labels), (inputs, labels, indices), a Dataset with a length or a",
        ),
        (
            {"data": (torch.rand(1, 3, 9, 9), [0])},
            "Expected `model` to accept inputs of shape (3, 9, 9), but got RuntimeError:",
        ),
        (
            {"data": DataLoader(TensorDataset(*small_data()), sampler=SubsetRandomSampler(range(10)))},
            "Expected `data` to be in a fixed order, but got a DataLoader with SubsetRandomSampler.",
        ),
        (
            {"data": DataLoader(TensorDataset(*small_data()), batch_size=3, drop_last=True)},
            "Expected `data` to give every input, but got a DataLoader with drop_last=True.",
        ),
        (
            {"data": DataLoader(TensorDataset(small_data()[0]), batch_size=3)},
            "Expected `data` to give (input, label) pairs, but got a list of 1 as a batch.",
        ),
        (
            {"data": (torch.rand(1, 1, 8, 8), [4])},
            "Expected `data` to have labels from 0 to 3, the model's classes, but got 4",
        ),
        (
            {"data": TensorDataset(small_data()[0], torch.ones(10, 4))},
            "Expected `labels` to have one class per input: certcal certifies no multi-label classification, but got 4",
        ),
        (
            {"data": (*small_data(), [0] * 10)},
            "Expected `indices` to be 10 different whole numbers from 0 to 2^63 − 1, but got shape (10,).",
        ),
        ({"seed": 2**64}, "Expected `seed` to be an integer ≤ 9223372036854775807, but got 18446744073709551616."),
        (
            {"model": nn.Linear},
            "Expected `model` to be a torch.nn.Module or a function from a batch to outputs, but got the class Linear "
            "itself.",
        ),
        ({"stages": [], "stop": len}, "Expected `stages` to hold at least one value, but got none."),
        ({"model": nn.Sequential(small_model(), LessTheMean())}, "Expected `model` to answer each input by itself"),
        ({"model": nn.Sequential(small_model(), Random())}, "Expected `model` to answer each input by itself"),
        ({"fuse": 1}, "Expected `fuse` to be True or False, but got 1."),
        ({"model": nn.Flatten(0)}, "Expected `model` to give outputs of shape (batch, classes), but got (512,)."),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError) as caught:
        collect(**options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_inputs_of_another_shape_are_refused_in_any_window():
    """A later window once wrote smaller inputs into the batch of larger ones."""

    class Mixed(torch.utils.data.Dataset):
        def __len__(self):
            return 41

        def __getitem__(self, place):
            return torch.full((1, 8, 8) if place < 40 else (1, 4, 4), 0.5), 0

    with pytest.raises(InputError, match=r"one shape, \(1, 8, 8\), but got \(1, 4, 4\) at input 40"):
        collect(data=Mixed(), n=50, n0=20, chunk=50)


def test_indices_beyond_63_bits_are_refused():
    inputs, labels = small_data()
    indices = np.arange(len(labels), dtype=np.uint64) + np.uint64(2**63)
    with pytest.raises(InputError, match="2\\^63"):
        collect(data=(inputs, labels, indices))


class OfRealInputs(nn.Module):
    """Mixes its batch only where a pixel is exactly 0.5, as in the data and in no made-up input."""

    def __init__(self):
        super().__init__()
        self.plain = small_model()

    def forward(self, x):
        marked = (x[:, :1, :1, :1] == 0.5).float()
        return self.plain(x + marked * x.mean(dim=0, keepdim=True))


def test_a_model_that_mixes_its_batch_on_the_data_alone_is_refused():
    images, labels = small_data()
    images[:, :, 0, 0] = 0.5
    with pytest.raises(InputError, match="depend on the other inputs of their batch"):
        collect(OfRealInputs(), data=(images, labels))


def test_batch_statistics_without_running_ones_are_named():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64, track_running_stats=False), nn.Linear(64, 4))
    with pytest.raises(InputError, match=r"answer each input by itself, but got batch statistics .*BatchNorm"):
        collect(model)


def test_a_number_in_quotes_is_called_text():
    with pytest.raises(
        InputError, match=r"Expected `sigma` to lie between .*, but got the text '0.25', which is no num"
    ):
        collect(sigma="0.25")


def test_scaled_data_ask_for_a_model_that_scales_back():
    from certcal.data import from_arrays
    from certcal.models import Unscale

    table = np.random.default_rng(0).normal(50, 10, (6, 3)), np.arange(6) % 2
    data, model = from_arrays(*table, values="any").scaled(), nn.Linear(3, 2)
    with pytest.warns(CertcalWarning, match="is divided by its standard deviations, and the model sees it so"):
        collect(model, data=data)
    collect(Unscale(data.scale.mean, data.scale.std, model), data=data)  # and says nothing


def test_a_sigmoid_shows_on_the_inputs_themselves():
    """Of made-up inputs, far from those of a table, all its values may be small."""
    model = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())
    nn.init.constant_(model[0].weight, 1.0)
    nn.init.constant_(model[0].bias, -4.0)
    inputs = torch.tensor([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]).repeat(15, 1)
    with pytest.warns(CertcalWarning, match="the model ends in a sigmoid"):
        collect(model, data=(inputs, [0, 1] * 15), values="any")


def test_labels_of_other_classes_are_doubted():
    inputs = torch.eye(4).repeat(10, 1)
    labels = inputs.argmax(dim=1)
    with warnings.catch_warnings(action="error"):
        collect(Thousandfold(), data=(inputs, labels), sigma=0.1)
        collect(Thousandfold(), data=(inputs[:1].repeat(30, 1), [3] * 30), sigma=0.1)  # one class: nobody can say
        collect(Thousandfold(), data=(inputs[:9], (labels[:9] + 1) % 4), sigma=0.1)  # so few tell nothing
    with pytest.warns(CertcalWarning, match="is right on 0% of 40 inputs, hardly more than by guessing: is it trained"):
        collect(Thousandfold(), data=(inputs, (labels + 1) % 4), sigma=0.1)
    with pytest.warns(CertcalWarning, match="gives all 40 inputs one class, 2: is it trained"):  # and is right on most
        collect(Thousandfold(), data=(inputs[2:3].repeat(40, 1), [2] * 36 + [0] * 4), sigma=0.1)
