"""What tells two models apart: their tensors exactly, and their answers to made-up inputs to a stated tolerance."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from certcal.data import from_arrays
from certcal.models import Tempered, build_model, load_checkpoint, model_fingerprint, model_probe, same_probe
from certcal.runs.load import load_model
from certcal.settings import ModelSettings
from smoothing_models import small_model

CPU = torch.device("cpu")


def probe(model, shape=(1, 8, 8)):
    with torch.inference_mode():
        return model_probe(model, shape, CPU)


def test_a_head_bias_moved_by_one_percent_is_another_model():
    one, two = small_model(), small_model()
    with torch.no_grad():
        two[-1].bias[0] *= 1.01
    assert model_fingerprint(one) != model_fingerprint(two)
    assert model_fingerprint(one) == model_fingerprint(small_model())


def test_what_is_deployed_as_the_docs_say_is_the_model_that_was_certified(monkeypatch, tmp_path):
    """docs/recalibration.md, Deployment: of a run with --mean, --std and --temperature."""
    (tmp_path / "my_nets.py").write_text("from torch import nn\ndef make(): return nn.Conv2d(1, 10, 8)\n")
    monkeypatch.syspath_prepend(tmp_path)
    given = ModelSettings(name="my_nets:make", weights=str(tmp_path / "net.pt"), mean=(0.3,), std=(0.37,))
    torch.save(build_model("my_nets:make", classes=10, shape=(1, 8, 8))[1].state_dict(), given.weights)
    data = from_arrays(np.zeros((10, 8, 8)), np.arange(10))
    network = build_model("my_nets:make", classes=10, shape=(1, 8, 8), normalize=([0.3], [0.37]))
    network = load_checkpoint(network, given.weights)
    assert model_fingerprint(network) == model_fingerprint(load_model(given, data))
    tempered = load_model(replace(given, temperature=2.0), data)
    assert model_fingerprint(Tempered(network, 2)) == model_fingerprint(tempered)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_probes_tell_answers_apart_that_differ_by_more_than_a_thousandth_of_the_largest(scale):
    answers = scale * np.random.default_rng(0).normal(size=80)
    largest = np.abs(answers).max()
    for off, same in ((0.0, True), (0.9e-3, True), (1.1e-3, False), (1e-2, False)):
        other = answers.copy()
        other[79] += off * largest  # an answer to the last of eight inputs
        assert same_probe(other.tolist(), answers.tolist()) is same


def test_probes_of_earlier_versions_are_compared_as_far_as_they_go():
    answers = list(range(80))
    assert same_probe(answers, answers[:10])
    assert not same_probe(answers, [1, *answers[1:10]])


def test_answers_that_are_no_numbers_are_like_themselves_only():
    nan, inf = float("nan"), float("inf")
    assert same_probe([nan, inf, 1.0], [nan, inf, 1.0])
    assert not same_probe([nan, inf, 1.0], [0.0, inf, 1.0])
    assert not same_probe([nan, 2.0, 1.0], [nan, inf, 1.0])


def test_a_probe_has_eight_answers_and_leaves_a_model_of_another_rounding_the_same():
    model = build_model("lenet", classes=10, channels=1, size=28).eval()
    answers = probe(model, (1, 28, 28))
    assert len(answers) == 80
    torch.set_num_threads(2)
    assert same_probe(probe(model.to(memory_format=torch.channels_last), (1, 28, 28)), answers)
