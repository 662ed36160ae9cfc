"""Recalibration on real runs: certificates recorded by experiments/recalibration.py, 20 random splits each.

The certificates are those of networks trained under noise, rounded outward to units of 2⁻¹⁶ to be small.
"""

import json

import numpy as np
import pytest

from certcal.certificates import ConfidenceIntervals, Method
from certcal.recalibration import held_out_scores
from places import ROOT, SUPPORT

RUNS = sorted((SUPPORT / "data").glob("*_bounds.npz"))
RESULTS = sorted((ROOT / "experiments" / "results").glob("recalibration-*.json"))
PAGE = (ROOT / "docs" / "recalibration.md").read_text()


def recorded(path):
    """The certificates of one run at its radii."""
    kept = np.load(path)
    unit, radius = 2.0**16 - 1, kept["certified_radius"] / 2**13
    radius[kept["abstained"]] = np.nan
    return [
        ConfidenceIntervals(
            lower=lower / unit,
            upper=upper / unit,
            confidence=np.clip(kept["confidence"] / unit, lower / unit, upper / unit),
            predicted=np.zeros(len(lower), dtype=np.int64),
            correct=kept["correct"],
            index=np.arange(len(lower)),
            label=np.where(kept["correct"], 0, 1),
            certified=radius >= at,
            certified_radius=radius,
            radius=float(at),
            alpha=float(kept["alpha"]),
            method=Method.CDF_CP,
            split_alpha=True,
        )
        for at, lower, upper in zip(kept["radii"], kept["lower"], kept["upper"], strict=True)
    ]


@pytest.fixture(scope="module", params=RUNS, ids=lambda path: path.stem)
def bounds(request):
    return recorded(request.param)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_certified_brier_is_never_worse_than_without_a_map_beyond_sampling_error(bounds, share):
    """Per split and radius, paired over the held-out inputs: the mean loss rises by less than three standard errors."""
    for own in bounds:
        result = held_out_scores(own, repeats=6, clean_weight=share)
        for g, test in zip(result.maps, result.test, strict=True):
            before = own.select(test)
            after, kept = g.intervals(before), before.certified
            losses = [np.where(b.correct, 1 - b.lower, b.upper)[kept] ** 2 for b in (before, after)]
            rise = losses[1] - losses[0]
            assert rise.mean() <= 3 * rise.std() / np.sqrt(len(rise))
        before, after = result.mean(own.radius)
        assert after.certified_brier < before.certified_brier


@pytest.mark.parametrize("options", [{"clean_weight": 0.0}, {"clean_weight": 0.5}], ids=["certified", "mixed"])
def test_at_the_largest_radius_the_certified_calibration_error_at_least_halves_in_every_split(bounds, options):
    largest = bounds[-1]
    result = held_out_scores(largest, repeats=6, **options)
    assert len(result.rows) == 6
    for row in result.rows:
        assert row.certified >= 20
        assert row.after.certified_ece <= row.before.certified_ece / 2


def test_mixing_clean_points_keeps_the_confidence_useful(bounds):
    """What the certified score alone may flatten to a constant, half of clean points keeps apart."""
    before, mixed = held_out_scores(bounds[-1], repeats=6, clean_weight=0.5).mean(bounds[-1].radius)
    _, alone = held_out_scores(bounds[-1], repeats=6, clean_weight=0.0).mean(bounds[-1].radius)
    assert mixed.auroc > before.auroc - 0.1
    assert mixed.brier_all < before.brier_all + 0.02
    assert mixed.auroc >= alone.auroc
    assert mixed.brier_all < alone.brier_all


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_table_in_the_docs_is_the_record(path):
    body = json.loads(path.read_text())
    assert body["splits"] == 20
    for row in body["rows"]:
        assert table_row(row) in PAGE
        largest = max(other["radius"] for other in body["rows"])
        assert row["brier_better"] == 20 or (row["radius"] == 0 and row["brier_better"] == 19)
        assert row["halved"] == 20 or row["radius"] < largest


def table_row(row):
    """A line of the table in docs/recalibration.md."""
    before, after = row["before"], row["after"]

    def pair(name, scale=100, digits=1):
        return f"{before[name] * scale:.{digits}f} → {after[name] * scale:.{digits}f}"

    cells = [
        f"{row['radius']:g}",
        f"{row['method']}, {row['clean_weight']:g}",
        pair("certified_ece"),
        pair("certified_brier"),
    ]
    cells += [pair("brier"), pair("brier_all"), pair("auroc", 1, 3), pair("refinement", 1, 3), f"{after['levels']:.0f}"]
    return f"| {' | '.join(cells)} |"


def test_both_runs_are_here():
    assert [path.stem for path in RUNS] == ["digits_bounds", "fashion_bounds"]
    assert [path.stem for path in RESULTS] == ["recalibration-digits", "recalibration-fashion-mnist"]


@pytest.mark.parametrize("name", ["digits", "fashion-mnist-500", "fashion-mnist-2000"])
def test_what_is_said_of_maps_inside_holds_in_the_records(name):
    """Over 20 splits: no worse than the outer map in certified Brier, as sharp at its certified ECE, limits kept."""
    record = json.loads((ROOT / "experiments" / "results" / f"score_maps-{name}.json").read_text())
    assert record["splits"] == 20
    rows = {(row["radius"], row["map"]): row for row in record["rows"]}
    for radius in {radius for radius, _ in rows}:
        for share in ("0", "0.5"):
            rise = rows[radius, f"inside, λ = {share}"]["above_outer"]
            assert rise["mean"] <= rise["deviation"]
        before, after = (rows[radius, own]["scores"] for own in ("identity", "automatic"))
        assert after["certified_ece"] < before["certified_ece"] - 0.1
        assert after["brier_all"] <= before["brier_all"] + 0.01
        assert after["auroc"] >= before["auroc"] - 0.01
    for row in record["equal"]:
        assert row["inside, for the ECE"]["mean"] >= 0


@pytest.mark.parametrize(("name", "share"), [("fashion-mnist-500", "0"), ("fashion-mnist-2000", "0.05")])
def test_what_can_be_had_at_a_large_radius_is_as_the_page_says(name, share):
    record = json.loads((ROOT / "experiments" / "results" / f"score_maps-{name}.json").read_text())
    rows = {(row["radius"], row["map"]): row["scores"] for row in record["rows"]}
    before, after = rows[1.0, "identity"], rows[1.0, f"inside, for the ECE, λ = {share}"]
    assert "leaves less than a quarter of the certified ECE of the untouched" in " ".join(PAGE.split())
    assert after["certified_ece"] < before["certified_ece"] / 4
    assert abs(after["auroc"] - before["auroc"]) < 0.005
    assert after["certified_brier"] <= after["brier"] + 0.006
    assert after["brier_all"] > before["brier_all"] + 0.02


def test_the_page_shows_the_records_of_maps_inside():
    """As `python -m experiments.score_maps --docs` writes them: every row with its scores."""
    records = sorted((ROOT / "experiments" / "results").glob("score_maps-*.json"))
    assert records
    for path in records:
        for row in json.loads(path.read_text())["rows"]:
            own = row["scores"]
            shares = [f"{100 * own[name]:.1f}" for name in ("certified_ece", "certified_brier", "brier", "brier_all")]
            rise = row.get("above_outer")
            known = f" ± {100 * rise['deviation']:.2f}" if rise and "deviation" in rise else ""
            shares.insert(2, f"{100 * rise['mean']:+.2f}{known}" if rise else "")
            assert f"| {row['radius']:g} | {row['map']} | {' | '.join(shares)} | {own['auroc']:.3f} |" in PAGE
