"""Sampling: the statistics are those of the draws, and nothing but seed, input and draw decides them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, SubsetRandomSampler, TensorDataset

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
            "Expected `inputs` to be uint8, uint16 or floats, but got dtype torch.int32. (Input 0 of the data.)",
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


def test_the_default_dtype_plays_no_part():
    expected = collect()
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        found = collect(model=small_model().float())
    finally:
        torch.set_default_dtype(before)
    np.testing.assert_array_equal(found.draws, expected.draws)


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
