"""Sampling: the statistics are those of the draws, and nothing but seed, input and draw decides them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from certcal import CertcalError, InputError
from certcal.errors import CertcalWarning
from certcal.models import Noise, Purpose
from certcal.smoothing import load_evidence
from certcal.smoothing.evidence import threshold_grid
from collecting import assert_same, collect
from smoothing_models import Counting, Slow, small_data, small_model


def test_statistics_are_those_of_the_draws():
    """Redo the sampling of one input by hand."""
    model, (inputs, labels) = small_model(), small_data()
    evidence = collect(model)
    index = 3

    def probabilities(purpose, draws):
        noisy = Noise(0, purpose, 0.3).copies(inputs[index : index + 1], [index], draws=draws)
        with torch.no_grad():
            return torch.cat([model(part).softmax(dim=1) for part in noisy.split(250)])

    first = probabilities(Purpose.SELECTION, 20).argmax(dim=1).bincount(minlength=4)
    selected = int(first.argmax())
    assert evidence.selected[index] == selected
    assert evidence.label[index] == labels[index]
    probs = probabilities(Purpose.ESTIMATION, 500)
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
            DataLoader(TensorDataset(inputs, labels), batch_sampler=BatchSampler(SequentialSampler(inputs), 4, False)),
            (inputs, labels, range(10)),
        ):
            assert_same(collect(data=data), expected)

    @pytest.mark.slow
    def test_whichever_process_reads_the_data(self):
        data = DataLoader(TensorDataset(*small_data()), batch_size=4, num_workers=2)
        assert_same(collect(data=data), collect())

    @pytest.mark.parametrize("chunk", [1, 125, *(pytest.param(own, marks=pytest.mark.slow) for own in (20, 100, 500))])
    def test_whatever_the_chunk(self, chunk, monkeypatch):
        """Chunks within a forward pass, across two of them, and of several; rows collected rarely and often."""
        expected = collect()
        for seconds in (3.0, 0.0):
            monkeypatch.setattr("certcal.smoothing.sampler.COLLECT_SECONDS", seconds)
            other = collect(chunk=chunk)
            assert_same(replace(other, header=expected.header), expected)

    @pytest.mark.slow
    def test_when_added_draws_begin_within_a_pass(self, tmp_path):
        for n in (60, 180, 330, 600):
            collect(n=n, chunk=30, store=tmp_path)
        assert_same(load_evidence(tmp_path), collect(n=600, chunk=30), plan=False)

    @pytest.mark.parametrize("options", [{"batch_size": 7}, {"batch_size": 10_000}, {"progress": True}])
    def test_whatever_the_batch_size(self, options):
        assert_same(collect(**options), collect())

    @pytest.mark.slow
    def test_whatever_the_number_of_threads(self):
        torch.set_num_threads(1)
        alone = collect()
        torch.set_num_threads(2)
        assert_same(collect(), alone)

    def test_whatever_the_order_and_the_subset(self):
        from certcal.data import from_arrays

        data = from_arrays(*small_data())
        whole = collect(data=data)
        some = torch.tensor([7, 2, 5])
        assert_same(collect(data=data.select(some)), whole.select(some.numpy()))

    def test_whatever_subset_of_tensors_with_their_indices(self):
        inputs, labels = small_data()
        some = [7, 2, 5]
        assert_same(collect(data=(inputs[some], labels[some], some)), collect().select(np.array(some)))

    def test_when_draws_are_added_later(self, tmp_path):
        collect(n=150, store=tmp_path)
        assert_same(collect(n=500, store=tmp_path), collect(), plan=False)
        assert_same(load_evidence(tmp_path), collect(), plan=False)

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

    def test_a_resumed_stage_asks_the_rule_again(self, tmp_path):
        asked = []

        def rule(evidence):
            asked.append(len(evidence))
            return np.zeros(len(evidence), bool) if len(asked) > 1 else np.ones(len(evidence), bool)

        collect(stages=[100, 500], stop=rule, store=tmp_path)
        assert (load_evidence(tmp_path).draws == 100).all()
        assert (collect(stages=[100, 500], stop=rule, store=tmp_path).draws == 500).all()
        assert asked[1] == 10

    def test_the_first_plan_stays_whatever_is_drawn_later(self, tmp_path):
        collect(stages=[100, 500], stop=self.sure, store=tmp_path)
        for stages in ([250, 500], [100, 500, 1000]):
            with pytest.warns(CertcalWarning, match=r"were planned before \(100, 500\): new stages are unplanned"):
                later = collect(n=stages[-1], stages=stages, stop=self.sure, store=tmp_path)
            assert (later.header.looks, later.header.stages) == (2, (100, 500))
            assert (load_evidence(tmp_path).header.looks, load_evidence(tmp_path).header.stages) == (2, (100, 500))
        unstaged = collect(n=1000, store=tmp_path)
        assert unstaged.header.planned(unstaged.draws).sum() == 0
        assert_same(unstaged, collect(n=1000), plan=False)

    def test_resumed_stages_equal_uninterrupted_ones(self, tmp_path):
        """First to the end of stage one only, then on."""
        collect(stages=[100, 250, 500], stop=lambda evidence: np.ones(len(evidence), bool), store=tmp_path)
        assert set(load_evidence(tmp_path).draws.tolist()) == {100}
        resumed = collect(stages=[100, 250, 500], stop=self.sure, store=tmp_path)
        assert_same(resumed, collect(stages=[100, 250, 500], stop=self.sure))


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

    @pytest.mark.slow
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
    @pytest.mark.parametrize("trouble", [CertcalError, RuntimeError])
    def test_trouble_in_a_chunk_keeps_the_chunks_before_it(self, tmp_path, monkeypatch, trouble):
        def nan(out):
            return out * float("nan")

        def fail(out):
            raise RuntimeError("out of memory")

        monkeypatch.setattr("certcal.smoothing.sampler.COLLECT_SECONDS", 0.0)
        model = Counting(small_model(), 13, nan if trouble is CertcalError else fail)
        with pytest.raises(trouble):
            collect(model, store=tmp_path)
        assert load_evidence(tmp_path).draws.tolist() == [500] * 6

    def test_frozen_layers_stay_frozen(self):
        model = small_model().train()
        model[1].eval()
        collect(model, n=50)
        assert model.training
        assert not model[1].training

    def test_scores_on_a_threshold_count_as_reaching_it(self):
        grid = threshold_grid()

        class Constant(nn.Module):
            def forward(self, x):
                return torch.tensor([grid[200], 1 - grid[200]]).expand(len(x), 2)

        evidence = collect(Constant(), data=(small_data()[0], [0] * 10), outputs="probabilities", n=50)
        assert (evidence.histogram[:, 200] == 50).all()

    def test_what_does_not_sum_to_one_is_no_probability(self):
        class Loose(nn.Module):
            def forward(self, x):
                return torch.tensor([0.55, 0.5]).expand(len(x), 2)

        with pytest.raises(CertcalError, match="no probabilities"):
            collect(Loose(), data=(small_data()[0], [0] * 10), outputs="probabilities", n=50)

    def test_the_rounding_of_sums_is_owned_up_to(self):
        evidence = collect()
        assert (evidence.score_rounding == 500 * 2.0**-41).all()  # 500 draws, each off by at most half a unit

    def test_probabilities_a_rounding_above_one_are_clipped(self):
        class Above(nn.Module):
            def forward(self, x):
                return torch.tensor([1.0005, 0.0]).expand(len(x), 2)

        evidence = collect(Above(), data=(small_data()[0], [0] * 10), outputs="probabilities", n=50)
        assert (evidence.score_sum == 50).all()


def test_the_default_dtype_plays_no_part():
    expected = collect()
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        found = collect(model=small_model().float())
    finally:
        torch.set_default_dtype(before)
    np.testing.assert_array_equal(found.draws, expected.draws)
