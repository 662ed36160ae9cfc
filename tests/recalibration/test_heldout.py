"""Held-out scores: never on fitting data, each that of its function, and sharpness beside them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from certcal import (
    InputError,
    certified_brier_score,
    certified_calibration_error,
    expected_calibration_error,
    top_label_brier_score,
)
from certcal.metrics import sharpness
from certcal.recalibration import (
    IdentityMap,
    held_out_scores,
    recalibrate_bounds,
    score_bounds,
    split_inputs,
    trade_off,
)
from laws import examples


class TestSharpness:
    @examples(100)
    @given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=2, max_size=30))
    def test_auroc_equals_another_implementation(self, points):
        z, correct = (np.array(part) for part in zip(*points, strict=True))
        found = sharpness(z / 8, correct)
        assert found.levels == len(set(z))
        if len(set(correct)) == 1:
            assert np.isnan(found.auroc)
        else:
            assert found.auroc == pytest.approx(roc_auc_score(correct, z / 8))

    def test_a_constant_has_nothing(self):
        correct = np.arange(100) % 4 > 0
        found = sharpness(np.full(100, 0.75), correct)
        assert (found.auroc, found.levels) == (0.5, 1)
        assert found.refinement == pytest.approx(0.75 * 0.25)

    def test_brier_is_refinement_and_calibration_when_confidences_are_bin_means(self, rng):
        z = rng.integers(0, 15, 400) / 15 + 1 / 30
        correct = rng.random(400) < z
        gaps = [(c.mean() - m) ** 2 * len(c) for m in np.unique(z) for c in [correct[z == m]]]
        assert top_label_brier_score(z, correct) == pytest.approx(sharpness(z, correct).refinement + sum(gaps) / 400)


class TestHeldOut:
    def test_scores_are_those_of_inputs_the_map_never_saw(self, bounds):
        result = held_out_scores(bounds, repeats=3, holdout=0.4, clean_weight=0.2, weights=[1, 1, 2], seed=7)
        assert (len(result.maps), len(result.rows)) == (3, 9)
        for split in range(3):
            fit, test = result.fit[split], result.test[split]
            assert len(test) == 120
            assert sorted([*fit, *test]) == list(range(300))
            own = recalibrate_bounds([b.select(fit) for b in bounds], clean_weight=0.2, weights=[1, 1, 2])
            assert own.parameters() == result.maps[split].parameters()
            for row, b in zip(result.rows[3 * split : 3 * split + 3], bounds, strict=True):
                assert (row.split, row.radius, row.inputs) == (split, b.radius, 120)
                assert row.before == score_bounds(b.select(test))
                assert row.after == score_bounds(own.intervals(b.select(test)))
        assert not np.array_equal(result.test[0], result.test[1])

    def test_a_map_fitted_to_noise_looks_good_only_where_it_was_fitted(self, bounds):
        rng = np.random.default_rng(0)
        own = dataclasses.replace(bounds[0], correct=rng.random(300) < 0.5, certified=np.ones(300, dtype=bool))
        own = dataclasses.replace(own, lower=own.confidence, upper=own.confidence)
        fitted = recalibrate_bounds(own, clean_weight=0.0)
        inside = top_label_brier_score(fitted.transform(own.confidence), own.correct)
        before, after = held_out_scores(own, clean_weight=0.0).mean(0.0)
        assert inside < 0.25 < after.brier < before.brier

    def test_folds_cover_every_input_once_per_repeat(self, bounds):
        result = held_out_scores(bounds[0], folds=5, repeats=2)
        assert len(result.maps) == 10
        for start in (0, 5):
            assert sorted(np.concatenate(result.test[start : start + 5])) == list(range(300))
        assert all(set(fit).isdisjoint(test) for fit, test in zip(result.fit, result.test, strict=True))

    def test_scores_are_those_of_their_functions(self, bounds):
        own = bounds[1]
        kept = own.certified
        scores = score_bounds(own, n_bins=10)
        parts = own.lower[kept], own.upper[kept], own.correct[kept]
        assert scores.certified_ece == certified_calibration_error(*parts, n_bins=10).value
        assert scores.certified_brier == certified_brier_score(*parts).value
        assert scores.ece == expected_calibration_error(own.confidence[kept], own.correct[kept], n_bins=10)
        assert scores.brier == top_label_brier_score(own.confidence[kept], own.correct[kept])
        assert scores.brier_all == top_label_brier_score(own.confidence, own.correct)
        assert scores.auroc == pytest.approx(roc_auc_score(own.correct, own.confidence))

    def test_mean_leaves_out_what_is_not_there(self, bounds):
        result = held_out_scores(bounds[2], repeats=4)
        _, after = result.mean(0.3)
        assert after.certified_brier == pytest.approx(np.mean([row.after.certified_brier for row in result.rows]))
        with pytest.raises(InputError, match=r"Expected `radius` to be one of \[0.3\], but got 0.2"):
            result.mean(0.2)

    def test_trade_off_gives_arrays_over_clean_weights(self, bounds):
        curve = trade_off(bounds[2], clean_weights=[0.0, 0.5, 1.0], repeats=3, seed=1)
        for k, share in enumerate(curve.clean_weight):
            before, after = held_out_scores(bounds[2], clean_weight=share, repeats=3, seed=1).mean(0.3)
            assert curve.of("certified_brier")[k] == after.certified_brier
            assert (curve.of("brier")[k], curve.of("levels")[k]) == (after.brier, after.levels)
            assert curve.identity == before
        assert curve.of("auroc").shape == (3,)

    def test_parts_that_cannot_teach_keep_the_identity(self, bounds):
        few = bounds[0].select(np.arange(30))
        result = held_out_scores(few, repeats=1)
        assert isinstance(result.maps[0], IdentityMap)
        assert "at least 20 inputs certified at R = 0" in result.maps[0].about["reason"]
        assert result.rows[0].before == result.rows[0].after


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"holdout": 1.0}, "Expected `holdout` to lie in the open interval (0, 1), but got 1.0."),
        ({"folds": 1}, "Expected `folds` to be an integer ≥ 2, but got 1."),
        ({"folds": 11}, "Expected `folds` to be an integer ≤ 10, but got 11."),
        ({"repeats": 0}, "Expected `repeats` to be an integer ≥ 1, but got 0."),
    ],
)
def test_splits_refuse_bad_settings(options, message):
    with pytest.raises(InputError) as caught:
        split_inputs(10, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("wrong", [None, 3, [1, 2], "x"])
def test_what_is_no_certificate_is_refused(wrong):
    for call in (recalibrate_bounds, held_out_scores, trade_off):
        with pytest.raises(InputError, match="Expected `bounds`"):
            call(wrong)
