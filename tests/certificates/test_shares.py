"""How α is shared by an input's two certificates: both hold at every split, and the exact sum never exceeds α."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError, evaluate
from certcal.certificates import certify_radii, confidence_bounds, confidence_bounds_at
from certcal.certificates.looks import shares_of_alpha
from certcal.settings import EvaluateSettings, build
from certcal.smoothing import load_evidence
from laws import examples
from places import ROOT
from smoothing_oracles import ProbitModel

MODEL = ProbitModel(margin=0.5, slope=2.0, sigma=0.5)
open_shares = st.floats(1e-9, 1, exclude_max=True)


@examples(200)
@given(open_shares, open_shares)
def test_shares_add_up_to_no_more_than_alpha(alpha, share):
    first, second = shares_of_alpha(alpha, split_alpha=True, prediction_share=share)
    assert Fraction(first) + Fraction(second) <= Fraction(alpha)
    assert math.isclose(first + second, alpha, rel_tol=1e-15)
    assert shares_of_alpha(alpha, split_alpha=False, prediction_share=share) == (alpha, alpha)
    assert shares_of_alpha(alpha, split_alpha=True, prediction_share=0.5) == (alpha / 2, alpha / 2)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_both_certificates_hold_together_at_every_split(rng, share):
    """4000 inputs with 50 draws each: intervals miss and classes are falsely certified at no more than their shares."""
    repetitions, alpha = 4000, 0.2
    found = MODEL.evidence(rng, inputs=repetitions, draws=50)
    outside = np.zeros(repetitions, dtype=bool)
    for c in confidence_bounds_at(found, radii=np.linspace(0, 0.5, 6), alpha=alpha, prediction_share=share):
        outside |= (c.lower > MODEL.confidence(-c.radius)) | (c.upper < MODEL.confidence(c.radius))
    falsely = c.certified_radius > MODEL.radius()
    for missed, level in ((outside, alpha * (1 - share)), (falsely, alpha * share), (outside | falsely, alpha)):
        assert missed.mean() <= level + 4 * math.sqrt(level * (1 - level) / repetitions)
    if share == 0.98:  # nothing is wasted: C1 is a Clopper–Pearson limit, which half of α would not explain
        assert falsely.mean() > alpha / 2


def test_a_smaller_share_narrows_confidences_and_certifies_less(rng):
    found = MODEL.evidence(rng, inputs=50, draws=500)
    half, less = (confidence_bounds(found, radius=0.1, alpha=0.01, prediction_share=share) for share in (0.5, 0.02))
    assert ((less.lower >= half.lower) & (less.upper <= half.upper)).all()
    assert (less.upper - less.lower).mean() < (half.upper - half.lower).mean()
    own = certify_radii(found, alpha=0.01 * 0.02).radius
    np.testing.assert_array_equal(less.certified_radius, own)
    assert np.nanmean(less.certified_radius) < np.nanmean(half.certified_radius)
    assert (half.prediction_share, less.prediction_share, less.level) == (0.5, 0.02, 0.01)


def test_the_split_is_a_setting_that_old_files_need_not_have(rng):
    assert build(EvaluateSettings, {"alpha": 0.01}, "old.toml").prediction_share == 0.5
    report = evaluate(MODEL.evidence(rng, inputs=30, draws=200), radii=[0.1], alpha=0.01, prediction_share=0.1)
    assert report.terms["prediction_share"] == 0.1
    with pytest.raises(InputError, match="Expected `prediction_share` to be left out in the paper's reading"):
        EvaluateSettings(split_alpha=False, prediction_share=0.1)
    with pytest.raises(InputError, match="Expected `prediction_share` to lie in the open interval"):
        confidence_bounds(MODEL.evidence(rng, inputs=3, draws=20), radius=0.1, alpha=0.01, prediction_share=1.0)


PACK = {"digits": "digits-noise-s0.25", "Fashion-MNIST": "fashion-mnist-s0.50-e1.00-m4-t10-seed0"}


@pytest.mark.parametrize("data", ["digits", pytest.param("Fashion-MNIST", marks=pytest.mark.slow)])
def test_the_table_of_splits_follows_from_the_reference_pack(data):
    """What the page says of 0.5, 0.1 and 0.02: certified share, guaranteed ECE of certified and of all inputs."""
    found, name, radius = load_evidence(ROOT / "reference" / "evidence" / f"{PACK[data]}.parquet"), "", 0.0
    checked = 0
    for line in (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip(" %") for cell in line.strip("|").split("|")]
        if len(cells) != 6 or not cells[2].replace(".", "").isdigit():
            continue
        name, radius = cells[0] or name, float(cells[1] or radius)
        if not name.startswith(data):
            continue
        asked = {"radii": radius, "alpha": 0.001, "prediction_share": float(cells[2])}
        own, every = (evaluate(found, population=population, **asked)[0] for population in ("certified", "all"))
        values = own.certified_share, own.joint_ece, every.joint_ece
        assert [100 * value for value in values] == pytest.approx([float(cell) for cell in cells[3:]], abs=0.011)
        checked += 1
    assert checked >= 4
