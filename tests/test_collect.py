"""Sampling: the statistics are those of the draws, and nothing but seed, input and chunk decides them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from certcal import CertcalError, InputError
from certcal.smoothing import Evidence, collect_evidence, load_evidence
from certcal.smoothing.evidence import ARRAYS, threshold_grid
from certcal.smoothing.noise import NoiseSource
from smoothing_models import Slow, small_data, small_model

SMALL = {"sigma": 0.3, "n": 500, "n0": 20, "chunk": 50}


def collect(model=None, data=None, **options):
    return collect_evidence(model or small_model(), data or small_data(), **(SMALL | options))


def assert_same(left: Evidence, right: Evidence):
    assert left.header == right.header
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def test_statistics_are_those_of_the_draws():
    """Redo the sampling of one input by hand."""
    model, (inputs, labels) = small_model(), small_data()
    evidence = collect(model)
    source, index = NoiseSource(0, torch.device("cpu")), 3

    def probabilities(stream, draws):
        noise = torch.empty(draws, 1, 8, 8)
        source.fill(noise, sigma=0.3, index=index, stream=stream)
        with torch.no_grad():
            return model(inputs[index] + noise).softmax(dim=1)

    first = probabilities(0, 20).argmax(dim=1).bincount(minlength=4)
    selected = int(first.argmax())
    assert evidence.selected[index] == selected
    assert evidence.label[index] == labels[index]
    probs = torch.cat([probabilities(chunk + 1, 50) for chunk in range(10)])
    score = probs[:, selected].double().numpy()
    np.testing.assert_array_equal(evidence.votes[index], probs.argmax(dim=1).bincount(minlength=4))
    assert evidence.score_sum[index] == pytest.approx(score.sum(), abs=1e-8)
    assert evidence.score_square_sum[index] == pytest.approx(np.square(score).sum(), abs=1e-8)
    cells = np.searchsorted(threshold_grid()[1:-1], score, side="right")
    np.testing.assert_array_equal(evidence.histogram[index], np.bincount(cells, minlength=256))
    assert evidence.draws[index] == 500


def test_thresholds():
    grid = threshold_grid()
    assert (grid[0], grid[-1], len(grid)) == (0.0, 1.0, 257)
    assert (np.diff(grid) > 0).all()
    np.testing.assert_array_equal(grid, grid.astype(np.float32))


class TestSameEvidence:
    def test_whatever_the_form_of_the_data(self):
        inputs, labels = small_data()
        expected = collect()
        for data in (
            [inputs.numpy(), labels.tolist()],
            TensorDataset(inputs, labels),
            DataLoader(TensorDataset(inputs, labels), batch_size=3),
            DataLoader(TensorDataset(inputs, labels), batch_size=None),
            DataLoader(TensorDataset(inputs, labels), batch_size=4, num_workers=2),
        ):
            assert_same(collect(data=data), expected)

    @pytest.mark.parametrize("options", [{"batch_size": 7}, {"batch_size": 10_000}, {"progress": True}])
    def test_whatever_the_batch_size(self, options):
        assert_same(collect(**options), collect())

    def test_whatever_the_number_of_threads(self):
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(1)
            alone = collect()
            torch.set_num_threads(2)
            assert_same(collect(), alone)
        finally:
            torch.set_num_threads(before)

    def test_whatever_the_order_and_the_subset(self):
        from certcal.data import from_arrays

        data = from_arrays(*small_data())
        whole = collect(data=data)
        some = torch.tensor([7, 2, 5])
        assert_same(collect(data=data.select(some)), whole.select(some.numpy()))

    def test_when_draws_are_added_later(self, tmp_path):
        collect(n=150, store=tmp_path)
        assert_same(collect(n=500, store=tmp_path), collect())
        assert_same(load_evidence(tmp_path), collect())

    def test_when_inputs_are_added_later(self, tmp_path):
        from certcal.data import from_arrays

        data = from_arrays(*small_data())
        collect(data=data.take(limit=4), store=tmp_path)
        assert_same(collect(data=data, store=tmp_path), collect(data=data))

    def test_nothing_is_drawn_again(self, tmp_path):
        collect(store=tmp_path)
        shards = sorted(tmp_path.iterdir())
        slow = Slow(small_model(), 0.0)
        calls = []
        slow.register_forward_hook(lambda *_: calls.append(1))
        before = len(calls)
        collect(store=tmp_path)
        assert sorted(tmp_path.iterdir()) == shards
        assert len(calls) == before

    def test_other_data_under_the_same_positions_are_refused(self, tmp_path):
        inputs, labels = small_data()
        collect(n=100, store=tmp_path)
        changed = inputs.clone()
        changed[4, 0, 0, 0] += 1e-3
        with pytest.raises(InputError, match="Expected input 4 to be the one its stored evidence was drawn from"):
            collect(data=(changed.clamp(0, 1), labels), store=tmp_path)
        with pytest.raises(
            InputError, match="Expected `data` to label input 0 0, as its stored evidence does, but got 3"
        ):
            collect(data=(inputs, 3 - labels), store=tmp_path)
        assert (load_evidence(tmp_path).draws == 100).all()

    def test_another_seed_gives_other_draws(self):
        assert (collect(seed=1).score_sum != collect().score_sum).all()


def start_run(folder, seconds=0.02):
    code = Path(__file__).with_name("smoothing_models.py")
    return subprocess.Popen([sys.executable, str(code), str(folder), str(seconds)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_runs_resume_to_the_same_evidence(tmp_path, how):
    """Killed in the middle of sampling, by Ctrl-C or by kill -9; then run to the end."""
    run = start_run(tmp_path)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("shard-*"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(run.pid, how)
    assert "finished" not in run.communicate()[0]
    partial = load_evidence(tmp_path)
    assert 250 <= partial.draws.sum() < 5000
    finished = start_run(tmp_path, 0.0)
    assert "finished" in finished.communicate()[0]
    # The subprocess knows the model's class by another module name, so the fingerprints differ.
    resumed, reference = load_evidence(tmp_path), collect(Slow(small_model(), 0.0))
    assert_same(replace(resumed, header=reference.header), reference)


@pytest.fixture
def no_rehearsal(monkeypatch):
    """Without timing the model first, so that forward passes can be counted."""
    monkeypatch.setattr("certcal.smoothing.collect.fastest_threads", lambda call: nullcontext())


@pytest.mark.usefixtures("no_rehearsal")
def test_ctrl_c_keeps_the_chunks_before_it(tmp_path):
    """Interrupted in the seventh chunk: six are kept."""

    class Interrupting(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model, self.calls = model, 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 1 + 10 + 7:  # class count, ten selections, six chunks done
                raise KeyboardInterrupt
            return self.model(x)

    with pytest.raises(KeyboardInterrupt):
        collect(Interrupting(small_model()), store=tmp_path)
    assert load_evidence(tmp_path).draws.tolist() == [300]


class TestStages:
    @staticmethod
    def sure(evidence):
        return evidence.votes.max(axis=1) / evidence.draws > 0.9

    def test_inputs_stop_when_the_rule_says_so(self):
        evidence = collect(stages=[100, 250, 500], stop=self.sure)
        assert evidence.header.looks == 3
        assert set(evidence.draws.tolist()) <= {100, 250, 500}
        assert len(set(evidence.draws.tolist())) > 1
        whole = collect()
        full = evidence.draws == 500
        np.testing.assert_array_equal(evidence.votes[full], whole.votes[full])

    def test_resumed_stages_equal_uninterrupted_ones(self, tmp_path):
        """First to the end of stage one only, then on."""
        collect(stages=[100, 250, 500], stop=lambda evidence: np.ones(len(evidence), bool), store=tmp_path)
        assert set(load_evidence(tmp_path).draws.tolist()) == {100}
        resumed = collect(stages=[100, 250, 500], stop=self.sure, store=tmp_path)
        assert_same(resumed, collect(stages=[100, 250, 500], stop=self.sure))


@settings(max_examples=30)
@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**20))
def test_streams_are_reproducible_and_different(seed, index, stream):
    source = NoiseSource(seed, torch.device("cpu"))
    first, again, other = torch.empty(8), torch.empty(8), torch.empty(8)
    source.fill(first, sigma=1.0, index=index, stream=stream)
    source.fill(other, sigma=1.0, index=index, stream=stream + 1)
    source.fill(again, sigma=1.0, index=index, stream=stream)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_noise_is_standard_normal_across_streams():
    """Mean, variance and correlation between neighbouring streams of neighbouring inputs."""
    source = NoiseSource(0, torch.device("cpu"))
    noise = torch.empty(40, 50, 100)
    for index in range(40):
        for stream in range(50):
            source.fill(noise[index, stream], sigma=2.0, index=index, stream=stream)
    assert noise.mean().item() == pytest.approx(0, abs=5 * 2 / 200_000**0.5)
    assert noise.var().item() == pytest.approx(4, abs=5 * 4 * (2 / 200_000) ** 0.5)
    for left, right in ((noise[1:], noise[:-1]), (noise[:, 1:], noise[:, :-1])):
        correlation = (left * right).mean().item() / 4
        assert correlation == pytest.approx(0, abs=5 / left.numel() ** 0.5)


class TestModels:
    def test_probabilities_are_taken_when_said(self):
        soft = nn.Sequential(*small_model(), nn.Softmax(dim=1))
        plain, said = collect(), collect(soft, outputs="probabilities")
        np.testing.assert_array_equal(plain.votes, said.votes)
        np.testing.assert_allclose(plain.score_sum, said.score_sum, rtol=1e-6)

    def test_half_precision_is_recorded(self):
        evidence = collect(precision="bfloat16")
        assert evidence.header.precision == "bfloat16 on cpu"
        assert np.abs(evidence.confidence - collect().confidence).max() < 0.02

    def test_compiled_models_agree(self):
        compiled = collect(compile=True, n=100)
        np.testing.assert_allclose(compiled.confidence, collect(n=100).confidence, atol=1e-4)
        assert compiled.header.model == collect(n=100).header.model
        assert compiled.header.precision == "float32 compiled on cpu"

    def test_training_mode_is_put_back(self):
        model = small_model().train()
        collect(model, n=50)
        assert model.training

    @pytest.mark.usefixtures("no_rehearsal")
    @pytest.mark.parametrize("when", [0, 12])
    def test_nan_is_an_error_and_finished_chunks_stay(self, tmp_path, when):
        class Breaking(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model, self.calls = model, 0

            def forward(self, x):
                self.calls += 1
                out = self.model(x)
                return out * float("nan") if self.calls > 1 + 10 + when else out

        from certcal.smoothing import collect as module

        before = module.FLUSH_SECONDS
        module.FLUSH_SECONDS = 0.0
        try:
            with pytest.raises(CertcalError, match="no probabilities"):
                collect(Breaking(small_model()), store=tmp_path)
        finally:
            module.FLUSH_SECONDS = before
        kept = load_evidence(tmp_path).draws.sum() if when else 0
        assert kept == 50 * when


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 0}, "Expected `sigma` to be a number > 0, but got 0."),
        ({"n": 0}, "Expected `n` to be an integer ≥ 1, but got 0."),
        ({"n0": 1.5}, "Expected `n0` to be an integer ≥ 1, but got 1.5."),
        ({"seed": -1}, "Expected `seed` to be an integer ≥ 0, but got -1."),
        ({"precision": "int4"}, "Expected `precision` to be one of 'float32', 'bfloat16', 'float16', but got 'int4'."),
        ({"outputs": "scores"}, "Expected `outputs` to be one of 'logits', 'probabilities', but got 'scores'."),
        ({"stages": [100, 500]}, "Expected `stages and stop` to be given together, but got one of them."),
        (
            {"stages": [250, 100, 500], "stop": len},
            "Expected `stages` to rise to n = 500 by whole chunks of 50, but got [250, 100, 500].",
        ),
        ({"data": (torch.rand(0, 1, 8, 8), [])}, "Expected `data` to hold at least one input, but got none."),
        (
            {"data": (255 * torch.rand(2, 1, 8, 8), [0, 1])},
            "Expected `data` to hold inputs in [0, 1] (normalisation is the model's first layer), but got values from",
        ),
        (
            {"data": (torch.zeros(2, 1, 8, 8, dtype=torch.uint8), [0, 1])},
            "Expected `data` to hold floating-point inputs in [0, 1], but got torch.uint8 at input 0.",
        ),
        (
            {"data": (torch.full((1, 1, 8, 8), float("nan")), [0])},
            "Expected `data` to hold inputs in [0, 1] (normalisation is the model's first layer), but got values",
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
            "Expected `data` to be in a fixed order, but got a DataLoader that shuffles.",
        ),
        (
            {"data": "cifar10"},
            "Expected `data` to be (inputs, labels), a Dataset with a length or a DataLoader, but got str.",
        ),
        (
            {"data": (torch.rand(1, 3, 9, 9), [0])},
            "Expected `model` to accept inputs of shape (3, 9, 9), but got RuntimeError:",
        ),
        ({"model": nn.Flatten(0)}, "Expected `model` to give outputs of shape (batch, classes ≥ 2), but got (64,)."),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError) as caught:
        collect(**options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
