"""Rows after maps: what maps are fitted on, what they are judged on, and which of two scores is which."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from certcal.certificates import confidence_bounds_at
from certcal.recalibration import TemperatureMap, held_out_maps, score_bounds
from certcal.studies import entry_rows, reference_rows

TERMS = {"alpha": 0.001, "method": "cdf-cp", "split_alpha": True}
OWN, R = TemperatureMap(temperature=3.0), 0.1  # a map that changes every score


@pytest.fixture
def parts(monkeypatch):
    """Evidence that maps were fitted on; every map is the same."""
    asked = []

    def chosen(part, **_):
        asked.append(part)
        return SimpleNamespace(map=OWN)

    monkeypatch.setattr(reference_rows, "choose_map", chosen)
    return asked


def test_maps_are_fitted_on_one_half_and_judged_on_the_other(drawn, parts, monkeypatch):
    judged, certify = [], TemperatureMap.certify
    monkeypatch.setattr(
        TemperatureMap, "certify", lambda self, own, **how: judged.append(own) or certify(self, own, **how)
    )
    entry_rows("x", drawn, [R], mapped=[R], splits=2)
    assert len(parts) == len(judged) == 4
    for part, own in zip(parts, judged, strict=True):
        assert sorted([*part.index, *own.index]) == sorted(drawn.index)
        assert abs(len(part) - len(own)) <= 1


def test_maps_are_fitted_on_the_other_evidence_and_judged_on_all_of_their_own(drawn, parts):
    fit, own = drawn.select(np.arange(100)), drawn.select(np.arange(100, 359))
    *_, row = entry_rows("x", own, [R], mapped=[R], fit=fit)
    assert [part.index.tolist() for part in parts] == [fit.index.tolist()]
    (plain,), (moved,) = confidence_bounds_at(own, radii=[R], **TERMS), OWN.certify(own, radii=[R], **TERMS)
    before, after = score_bounds(plain), score_bounds(moved)
    assert (row.certified_ece, row.certified_brier) == (after.certified_ece, after.certified_brier)
    for name in ("ece", "brier", "brier_all", "auroc"):
        assert getattr(row, name) == pytest.approx(getattr(after, name), abs=0, nan_ok=True)
    assert row.brier_all_before == before.brier_all != after.brier_all
    assert (row.maps, math.isnan(row.deviation)) == (1, True)


def test_a_row_of_halves_has_the_means_and_the_deviation_of_the_certified_ece(drawn, parts):
    *_, row = entry_rows("x", drawn, [R], mapped=[R], splits=3)
    held = held_out_maps(drawn, lambda _: OWN, radii=R, terms=TERMS, folds=2, repeats=3)
    eces = [one.after.certified_ece for one in held.rows]
    briers = [one.after.certified_brier for one in held.rows]
    assert row.certified_ece == pytest.approx(np.mean(eces))
    assert row.certified_brier == pytest.approx(np.mean(briers))
    assert row.brier_all == pytest.approx(np.mean([one.after.brier_all for one in held.rows]))
    assert row.brier_all_before == pytest.approx(np.mean([one.before.brier_all for one in held.rows]))
    assert abs(row.brier_all_before - row.brier_all) > 1e-3
    assert row.deviation == pytest.approx(np.std(eces))
    assert abs(row.deviation - np.std(briers)) > 0.1 * row.deviation
