"""What is compared can be compared, and what is called clear is not chance."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from certcal import ConfidenceIntervals, InputError, evaluate
from certcal.evaluation import Report, compare_reports
from certcal.evaluation.side_by_side import _halves
from certcal.report import side_by_side_cells, side_by_side_markdown, side_by_side_page, side_by_side_words
from certcal.settings import Domain
from smoothing_oracles import random_evidence

INPUTS = 60


def bounds(seed: int, *, certified: int = INPUTS, inputs: int = INPUTS, **changes: Any) -> ConfidenceIntervals:
    """Bounds of a model that is right on about 85 % of the same inputs, whatever the seed; the first are certified."""
    rng = np.random.default_rng(seed)
    confidence, label = np.clip(rng.normal(0.8, 0.1, inputs), 0.4, 0.99), np.arange(inputs) % 3
    predicted, kept = np.where(rng.random(inputs) < 0.85, label, (label + 1) % 3), np.arange(inputs) < certified
    known = {
        "lower": confidence - 0.1, "upper": np.minimum(confidence + 0.1, 1.0), "confidence": confidence,
        "predicted": predicted, "correct": predicted == label, "index": np.arange(inputs), "label": label,
        "certified": kept, "certified_radius": np.where(kept, 1.0, np.nan), "radius": 0.25, "alpha": 0.0,
        "method": "made",
    }  # fmt: skip
    return ConfidenceIntervals(**known | changes)


def ask(seed: int, **changes: Any) -> Report:
    return evaluate([bounds(seed, **changes)])


def drawn(units: str, **changes: Any) -> Report:
    own = random_evidence(np.random.default_rng(0), inputs=30, draws=500)
    order = np.arange(30)
    own = replace(own, header=replace(own.header, units=units), index=order, content=order)
    return evaluate(replace(own, **changes), radii=[0.25], alpha=0.01)


def test_radii_of_other_units_are_not_compared():
    unit, scaled = drawn("inputs in [0, 1]"), drawn("features divided by their standard deviation")
    with pytest.raises(InputError, match="Expected `reports` to have the same units, inputs in") as caught:
        compare_reports({"a": unit, "b": scaled})
    assert "but got features divided by their standard deviation" in str(caught.value)
    elsewhere = evaluate([replace(unit.bounds[0])])  # which says no units
    with pytest.raises(InputError, match="have the same units"):
        compare_reports({"a": elsewhere, "b": unit, "c": scaled})
    found = compare_reports({"a": scaled, "b": elsewhere}, resamples=0)
    told = "R is taken to be in those of features divided by their standard deviation."
    assert told in side_by_side_words(found)[2]


def test_bounds_that_let_inputs_move_elsewhere_are_told():
    found = compare_reports({"a": ask(0), "b": ask(1, domain=Domain.BOX)}, resamples=0)
    _, about, note = side_by_side_words(found)
    assert about == [
        "a: bounds from elsewhere (made), 60 inputs",
        "b: bounds from elsewhere (made), 60 inputs, moved within [0, 1]",
    ]
    assert "Some hold only for inputs moved within [0, 1]" in note
    alike = side_by_side_markdown(compare_reports({"a": ask(0), "b": ask(0)}))
    assert "[0, 1]" not in alike
    assert "+0.00 ± 0.00 %" in alike


def test_rows_in_another_order_are_paired_by_index():
    order = np.random.default_rng(5).permutation(INPUTS)
    first, second = bounds(0, certified=40), bounds(1, certified=50)
    straight = compare_reports({"a": evaluate([first]), "b": evaluate([second])})
    for one, two in ((first, second.select(order)), (first.select(order), second)):
        found = compare_reports({"a": evaluate([one]), "b": evaluate([two])})
        assert found.paired
        for name, apart in found.differences[0][0].items():
            assert apart.value == pytest.approx(straight.differences[0][0][name].value, abs=1e-12)
        assert set(one.index[found.changed(0)]) == set(first.index[straight.changed(0)])
    unit = drawn("inputs in [0, 1]")
    assert unit.evidence is not None
    turned = evaluate(unit.evidence.select(np.arange(30)[::-1]), radii=[0.25], alpha=0.01)
    assert compare_reports({"a": unit, "b": turned}, resamples=0).differences[0][0]["certified_ece"].value == 0
    other = compare_reports({"a": evaluate([first]), "b": ask(1, label=np.zeros(INPUTS, dtype=np.int64))}, resamples=0)
    assert "The runs have other indices or labels" in side_by_side_markdown(other)


@pytest.mark.parametrize("resamples", [0, 100])
@pytest.mark.parametrize("common", [1, 3, 19])
def test_few_inputs_in_common_tell_nothing(common, resamples):
    found = compare_reports({"a": ask(0, certified=common), "b": ask(1, certified=common + 1)}, resamples=resamples)
    (apart,) = found.differences[0]
    errors = {name: one for name, one in apart.items() if name.endswith(("ece", "brier"))}
    assert all(one.too_few and np.isnan(one.half) and not one.is_clear for one in errors.values())
    assert not any(one.too_few for name, one in apart.items() if name not in errors)  # they are of all 60
    verdict, _, note = side_by_side_words(found)
    several = "1 input" if common == 1 else f"{common} inputs"
    assert f"of the {several} certified by all runs, too few to tell: a " in verdict
    assert "Fewer than 20 inputs are too few to tell: their differences have no ±." in note
    assert ("Behind ±" in note) == bool(resamples)
    assert [line[-1].endswith(" too few to tell") for line in side_by_side_cells(found)[1]] == [False] * 4 + [True] * 5
    assert "too few to tell" in side_by_side_page(found)


def test_few_inputs_at_all_tell_nothing():
    found = compare_reports({"a": ask(0, inputs=19), "b": ask(1, inputs=19, certified=0)})
    assert all(one.too_few and not one.is_clear for one in found.differences[0][0].values())
    assert "clearly" not in side_by_side_words(found)[0]


def test_twenty_inputs_tell_what_is_plain():
    """A difference that every input shows has no spread, and is clear for all that."""
    wrong = {"predicted": (np.arange(20) + 1) % 3, "correct": np.zeros(20, dtype=bool)}
    right = {"predicted": np.arange(20) % 3, "correct": np.ones(20, dtype=bool)}
    found = compare_reports({"a": ask(0, inputs=20, **wrong), "b": ask(0, inputs=20, **right)})
    (apart,) = found.differences[0]
    assert (apart["accuracy"].value, apart["accuracy"].half, apart["accuracy"].better) == (1.0, 0.0, True)
    assert apart["certified_ece"].better


@pytest.mark.parametrize("resamples", [-1, 1, 3, 99, True])
def test_few_resamples_are_refused(resamples):
    with pytest.raises(InputError, match="Expected `resamples` to be"):
        compare_reports({"a": ask(0), "b": ask(1)}, resamples=resamples)


def test_without_resamples_nothing_is_called_clear_or_not():
    verdict, _, note = side_by_side_words(compare_reports({"a": ask(0), "b": ask(1)}, resamples=0))
    assert "clearly" not in verdict
    assert " points above a (" in verdict or " points below a (" in verdict
    assert "±" not in note


def test_intervals_of_few_inputs_are_as_wide_as_students():
    drawn_again = np.random.default_rng(0).normal(0.0, 2.0, (40_000, 1, 1, 2))
    few, many = _halves(drawn_again, np.array([[[20, 10**6]]]))[0, 0]
    both = 1 - 0.95**0.5  # of two independent differences, each may miss as seldom
    assert few == pytest.approx(2.0 * (20 / 19) ** 0.5 * stats.t.isf(both / 2, df=19), rel=0.02)
    assert many == pytest.approx(2.0 * stats.norm.isf(both / 2), rel=0.02)


def test_of_twenty_inputs_chance_is_seldom_clear():
    """The means of differences, and of those of squares, of two samples of one law; with Student's t and without."""
    rng, tables, clear = np.random.default_rng(0), 2000, np.zeros(2)
    for _ in range(tables):
        one, two = rng.normal(size=(2, 20))
        apart = np.stack([one - two, one**2 - two**2])
        again = apart[:, rng.integers(20, size=(100, 20))].mean(axis=2).T[:, None, None]
        for place, inputs in enumerate((20, 10**6)):
            clear[place] += np.any(np.abs(apart.mean(axis=1)) > _halves(again, np.full((1, 1, 2), inputs)))
    with_it, without = clear / tables
    assert with_it <= 0.05 < 0.06 < without


@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "common"), [(20, 20), (100, 20), (100, 2)])
def test_two_runs_of_one_law_are_seldom_clearly_different(inputs, common):
    """Of 2 inputs in common some difference was called clear in 40 % of all tables."""
    tables, clear = 60, 0
    for seed in range(tables):
        pair = {name: ask(2 * seed + place, inputs=inputs, certified=common) for place, name in enumerate("ab")}
        found = compare_reports(pair, resamples=100, seed=seed)
        clear += any(one.is_clear for one in found.differences[0][0].values())
    assert clear <= 7  # P(Binomial(60, 0.05) > 7) < 0.01
