"""Maps inside the expectation against maps of the mean, on halves of recorded evidence that they were not fitted to."""

from functools import partial

import numpy as np
import pytest
from experiments.score_maps import ALPHA, KINDS, OUTER, SHARES, _best_at, equal_errors, held_out, makers, of

from certcal.recalibration import Candidate
from certcal.smoothing import load_evidence
from certcal.studies import Pack
from places import ROOT

FASHION = "fashion-mnist-s0.50-e1.00-m4-t10-seed0", 1.0
DIGITS = "digits-noise-s0.25", 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "radius"), [FASHION, DIGITS], ids=["fashion-mnist", "digits"])
def test_inside_is_no_worse_in_brier_and_no_less_sharp_at_equal_certified_error(name, radius):
    """Beyond the deviation between splits, which is the sampling error of one held-out half."""
    held = held_out(load_evidence(ROOT / "reference" / "evidence" / f"{name}.parquet"), radius, 4, makers(radius))
    for share in SHARES:
        rise = of(held, f"inside, λ = {share:g}", "certified_brier") - of(
            held, f"{OUTER}, λ = {share:g}", "certified_brier"
        )
        assert rise.mean() <= rise.std(ddof=1)
    for row in equal_errors(held, radius):
        gains = [row[kind] for kind in KINDS if row[kind] is not None]
        assert max(own["mean"] + own["deviation"] for own in gains) >= 0


@pytest.mark.slow
def test_what_can_be_had_at_a_large_radius():
    """Twice σ on Fashion-MNIST, 20 splits."""
    name, radius = FASHION
    way = {"calibration": partial(Candidate("calibration", None, 0.0).fit, radii=(radius,), alpha=ALPHA)}
    held = held_out(load_evidence(ROOT / "reference" / "evidence" / f"{name}.parquet"), radius, 20, way)
    before, after = (
        {key: of(held, own, key).mean() for key in ("certified_ece", "certified_brier", "brier", "brier_all", "auroc")}
        for own in held
    )
    assert after["certified_ece"] <= 0.08 < 0.3 < before["certified_ece"]
    assert after["certified_brier"] <= min(before["brier"] + 0.005, after["brier"] + 0.006)
    assert after["auroc"] >= before["auroc"] - 0.03


def test_what_the_automatic_choice_has_in_the_pack():
    entry = f"{FASHION[0].removesuffix('seed0')}2000-inputs-seed0"
    rows = {row.track: row for row in Pack.read(ROOT / "reference").rows() if row.entry == entry}
    before, after = rows["plain"], rows["recalibrated"]
    assert after.certified_ece <= 0.08
    assert after.certified_brier <= before.brier + 0.01  # steps are chosen for the ECE, and cost half a point here
    assert after.auroc >= before.auroc - 0.01
    assert after.brier_all <= before.brier_all + 0.012  # where the choice saw it, within a point


def test_curves_are_read_on_straight_lines_between_weights():
    errors, aurocs = np.array([0.1, 0.2, 0.4]), np.array([[0.5, 0.6], [0.7, 0.8], [0.9, 0.6]])
    np.testing.assert_allclose(_best_at(errors, aurocs, 0.2), [0.7, 0.8])
    np.testing.assert_allclose(_best_at(errors, aurocs, 0.125), [0.55, 0.65])
    np.testing.assert_allclose(_best_at(errors, aurocs, 1.0), [0.7, 0.8])  # of equal means, the first
    assert _best_at(errors, aurocs, 0.05) is None
