"""The GPU's kernels do what the CPU does. With `--device cuda`, or anywhere with Triton and TRITON_INTERPRET=1."""

import os

import numpy as np
import pytest
import torch

from certcal.models.grid import to_grid
from certcal.models.philox import Noise, Run
from certcal.smoothing.evidence import CELLS, threshold_grid
from certcal.smoothing.tally import Tally

pytest.importorskip("triton")
from certcal.models import kernels

RUNS = [Run(2, 2**40 + 1, 5), Run(0, 7, 10**9), Run(2, 8, 0)]


@pytest.fixture
def place(device):
    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("kernels need a GPU or TRITON_INTERPRET=1")
    return torch.device(device)


def launched(noise, inputs, runs, draws, place, dtype=torch.float32):
    out = torch.full((len(runs) * draws, inputs.shape[1]), float("nan"), dtype=dtype, device=place)
    slot, index, first = torch.tensor(runs).T.contiguous().to(place)
    settings = (noise._knots(place), noise.step, noise.seed, noise.stream)
    kernels.launch_noisy_rows(out, inputs.to(place), slot, index, first, settings)
    return out.cpu()


@pytest.mark.parametrize("elements", [1, 5, 50, 784, 3072])
@pytest.mark.parametrize(("seed", "stream", "sigma"), [(0, 0, 0.25), (2**64 - 1, 2**63 + 1, 1.0)])
def test_noise_is_the_cpu_s(elements, seed, stream, sigma, place):
    """To the last bit."""
    noise = Noise(seed, stream, sigma)
    inputs = to_grid(torch.rand(3, elements, generator=torch.Generator().manual_seed(0)), noise.step)
    reference = torch.empty(9, elements)
    noise.add(inputs, reference, RUNS)
    ours = launched(noise, inputs, RUNS, 3, place)
    assert torch.equal(ours, reference)
    assert torch.equal(launched(noise, inputs, RUNS, 3, place, torch.float16), ours.half())


def test_noise_does_not_depend_on_how_it_is_cut(place):
    noise, inputs = Noise(3, 1, 0.5), to_grid(torch.rand(2, 40), 2.0**-20)
    whole = launched(noise, inputs, [Run(0, 8, 0), Run(1, 9, 0)], 6, place)
    runs = [Run(row // 6, 8 + row // 6, row % 6) for row in range(12)]
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(launched(noise, inputs, [runs[row] for row in order], 1, place), whole[order])


@pytest.mark.parametrize(("runs", "draws"), [(7, 3), (2, 100), (1, 1000)])
def test_noise_beyond_what_32_bits_count_is_launched_in_parts(runs, draws, place, monkeypatch):
    """Of whole runs, and of draws where one run alone is too long."""
    noise, inputs = Noise(3, 1, 0.5), to_grid(torch.rand(2, 40), 2.0**-20)
    table = [Run(run % 2, run, 5 * run) for run in range(runs)]
    whole = launched(noise, inputs, table, draws, place)
    monkeypatch.setattr(kernels, "LAUNCH", (2 * kernels.NOISE_BLOCK + 6) * 40)  # six rows
    assert torch.equal(launched(noise, inputs, table, draws, place), whole)


NAMES = ("votes", "histogram", "scores", "squares", "invalid")


def tallied(outputs, slots, temperatures, place, *, logits=True, selected=(0, 2, 1)):
    t, shapes = len(temperatures), ((3, outputs.shape[1]), (len(temperatures), 3, CELLS))
    counts = [torch.zeros(shape, dtype=torch.int64, device=place) for shape in (*shapes, (t, 3), (t, 3), (3,))]
    kernels.launch_tally_rows(
        counts,
        outputs.to(place),
        torch.tensor(slots, device=place),
        torch.tensor(selected, device=place),
        torch.as_tensor(threshold_grid()[1:-1], dtype=torch.float32, device=place),
        temperatures=torch.tensor(temperatures, device=place),
        logits=logits,
    )
    return dict(zip(NAMES, (part.cpu() for part in counts), strict=True))


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_a_window_is_counted_as_plain_torch_would(kind, place, monkeypatch):
    """In one kernel, or without: the same votes, and sums and cells to a rounding of the exponential."""
    outputs = torch.randn(150, 10, generator=torch.Generator().manual_seed(0)) * 3
    outputs = (outputs.softmax(dim=1) if kind == "probabilities" else outputs).to(place)
    tallies = []
    for kernel in (False, True):
        monkeypatch.setattr("certcal.smoothing.tally.kernels_for", lambda _, kernel=kernel: kernels if kernel else None)
        tally = Tally(3, 10, place)
        tally.add(outputs, torch.tensor([0, 2, 0], device=place), torch.tensor([4, 0, 9], device=place), kind)
        tallies.append(tally)
    plain, ours = tallies
    assert torch.equal(ours.votes, plain.votes)
    assert ours.votes.sum(dim=1).tolist() == [100, 0, 50]
    assert (ours.histogram - plain.histogram).abs().sum() <= 2
    for name in ("score_units", "square_units"):
        assert ((getattr(ours, name) - getattr(plain, name)).abs() * 2.0**-40).max() < 1e-5


@pytest.mark.parametrize("classes", [3, 10, 100])
@pytest.mark.parametrize("slots", [[0, 1, 0], [2, 2, 2]])
@pytest.mark.parametrize("logits", [True, False])
def test_statistics_are_those_of_plain_torch(classes, slots, logits, place):
    outputs = torch.randn(150, classes, generator=torch.Generator().manual_seed(0)) * 3
    temperatures = [1.0, 2.5] if logits else [1.0]
    if not logits:
        outputs = outputs.softmax(dim=1)
    ours = tallied(outputs, slots, temperatures, place, logits=logits)
    owner = torch.tensor(slots).repeat_interleave(50)
    edges = torch.as_tensor(threshold_grid()[1:-1], dtype=torch.float32)
    for slot in range(3):
        mine = outputs[owner == slot]
        assert torch.equal(ours["votes"][slot], mine.argmax(dim=1).bincount(minlength=classes))
        for t, temperature in enumerate(temperatures):
            probs = (mine / temperature).softmax(dim=1) if logits else mine
            score = probs[:, (0, 2, 1)[slot]].contiguous()
            cells = torch.bucketize(score, edges, right=True).bincount(minlength=CELLS)
            assert (
                ours["histogram"][t, slot] - cells
            ).abs().sum() <= 2  # one score may lie at an edge, a rounding away
            for name, exact in (("scores", score.double()), ("squares", score.double().square())):
                assert float(ours[name][t, slot]) * 2.0**-40 == pytest.approx(float(exact.sum()), abs=1e-5)
    assert not ours["invalid"].any()


def test_sums_do_not_depend_on_the_batches(place):
    outputs = torch.randn(120, 10, generator=torch.Generator().manual_seed(1))
    whole = tallied(outputs, [0, 1, 0], [1.0], place)
    parts = [
        tallied(part, [slot], [1.0], place) for part, slot in zip(outputs.split(20), [0, 0, 1, 1, 0, 0], strict=True)
    ]
    for name, together in whole.items():
        assert torch.equal(together, sum(part[name] for part in parts))


@pytest.mark.filterwarnings("ignore:invalid value")  # the interpreter's
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_outputs_that_are_no_probabilities_are_counted(bad, place):
    outputs = torch.zeros(30, 10)
    outputs[25, 3] = outputs[4, 9] = bad
    outputs[7, 2] = -float("inf")  # a class that is ruled out
    ours = tallied(outputs, [0, 1, 2], [1.0], place)
    assert ours["invalid"].tolist() == [1, 0, 1]
    assert np.array_equal(ours["votes"].sum(dim=1), [10, 10, 10])
