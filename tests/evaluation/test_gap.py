"""Why a guaranteed error is as high as it is: parts that add up, and forecasts that come true."""

from dataclasses import astuple

import numpy as np
import pytest
import torch

from certcal import InputError, collect_evidence, evaluate
from certcal.evaluation import gap as room
from certcal.evaluation import split_gap, with_more_draws
from certcal.evaluation.gap import with_temperature
from smoothing_oracles import random_evidence

RADII = [0.0, 0.1, 0.2, 5.0]


@pytest.mark.parametrize("population", ["certified", "all"])
def test_parts_add_up_and_none_is_negative(rng, population):
    report = evaluate(random_evidence(rng, inputs=80, draws=1000), radii=RADII, alpha=0.01, population=population)
    for gap, row in zip(split_gap(report), report, strict=True):
        if np.isnan(row.joint_ece):
            assert np.isnan(gap.guaranteed)
            continue
        parts = (gap.clean, gap.adversary, gap.uncertified, gap.sampling)
        assert sum(parts) == pytest.approx(gap.guaranteed) == pytest.approx(row.joint_ece)
        assert gap.clean == pytest.approx(row.ece)
        assert min(parts) > -1e-6
        assert population == "all" or gap.uncertified == 0
        assert gap.guaranteed - gap.sampling - 1e-6 <= gap.more_draws <= gap.guaranteed + 1e-9
        assert gap.half_radius <= gap.guaranteed + 1e-9


def test_many_inputs_are_judged_by_a_spread_of_them(rng):
    evidence = random_evidence(rng, inputs=1500, draws=1000)
    report = evaluate(evidence, radii=[0.1], alpha=0.01)
    (gap,), few = split_gap(report), evidence.select(np.linspace(0, 1499, 200).round().astype(int))
    parts = (gap.clean, gap.adversary, gap.uncertified, gap.sampling)
    assert sum(parts) == pytest.approx(gap.guaranteed) == pytest.approx(report[0].joint_ece)
    assert gap.clean == report[0].ece
    own = [evaluate(one, radii=[0.1], alpha=0.01)[0].joint_ece for one in (with_more_draws(few, 10), few)]
    assert gap.more_draws - gap.guaranteed == pytest.approx(own[0] - own[1], abs=0.02)


def test_without_an_adversary_all_but_the_clean_error_is_sampling(rng):
    report = evaluate(random_evidence(rng, inputs=60, draws=1000), radii=[0.0], alpha=1e-6)  # no failure to allow for
    (gap,) = split_gap(report)
    assert gap.adversary < 0.02  # the width of a cell of the grid, and what 10^9 draws leave
    (later,) = split_gap(evaluate(with_more_draws(report.evidence, 10**5), radii=[0.0], alpha=1e-6))
    assert later.sampling < 0.1 * gap.sampling


class TwoClasses(torch.nn.Module):
    """Logits that rise along one direction."""

    def __init__(self, temperature=1.0):
        super().__init__()
        self.register_buffer("by", torch.tensor(4.0 / temperature))

    def forward(self, x):
        rise = self.by * x.flatten(1).sum(1)
        return torch.stack([torch.zeros_like(rise), rise], dim=1)


@pytest.mark.slow
def test_forecasts_come_true():
    inputs = torch.linspace(0, 1, 24).reshape(24, 1, 1, 1)
    data, options = (inputs, torch.arange(24) // 12), {"sigma": 0.25, "seed": 1, "progress": False}
    few, many, sharp = (
        collect_evidence(TwoClasses(t), data, n=n, **options) for t, n in ((1.0, 1000), (1.0, 10_000), (0.25, 1000))
    )
    foreseen = evaluate(with_more_draws(few, 10), radii=[0.1], alpha=0.01)[0].joint_ece
    assert foreseen == pytest.approx(evaluate(many, radii=[0.1], alpha=0.01)[0].joint_ece, abs=0.02)
    assert foreseen < evaluate(few, radii=[0.1], alpha=0.01)[0].joint_ece
    tempered = with_temperature(few, 0.25)  # with two classes it is exact, but for the width of cells
    assert tempered.confidence == pytest.approx(sharp.confidence, abs=0.004)
    assert np.array_equal(with_temperature(few, 1.0).histogram, few.histogram)


@pytest.mark.slow
def test_coarse_counts_foresee_the_same(rng, monkeypatch):
    evidence = random_evidence(rng, inputs=40, draws=100_000)
    coarse = room._coarse(evidence)
    assert (coarse.histogram >= 0).all()
    np.testing.assert_array_equal(coarse.histogram.sum(axis=1), evidence.draws)
    shares = [own.histogram[:, ::-1].cumsum(axis=1) / own.draws[:, None] for own in (evidence, coarse)]
    assert 0 < np.abs(shares[0] - shares[1]).max() < 2**-10
    report = evaluate(evidence, radii=[0.1], alpha=0.001)
    quick = room.split_gap(report)
    monkeypatch.setattr(room, "_coarse", lambda own: own)
    for one, exact in zip(quick, room.split_gap(report), strict=True):
        assert astuple(one) == pytest.approx(astuple(exact), abs=2e-5)


def test_draws_beyond_count_are_refused(rng):
    with pytest.raises(InputError, match="times"):
        with_more_draws(random_evidence(rng, inputs=2, draws=100), 10**30)
