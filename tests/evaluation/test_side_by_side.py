"""Differences between reports are those of their rows, and their intervals hold what they should hold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from certcal import Evidence, InputError, certified_calibration_error, evaluate, expected_calibration_error
from certcal.certificates import intervals_by_radius, table_of
from certcal.evaluation import METRICS, Report, compare_reports
from certcal.report import (
    changed_csv,
    side_by_side_cells,
    side_by_side_csv,
    side_by_side_markdown,
    side_by_side_page,
    side_by_side_words,
)
from certcal.smoothing import threshold_grid
from certcal.worstcase import allowed_failures, jointly_certified_calibration_error
from smoothing_oracles import evidence as made
from smoothing_oracles import random_evidence


def evidence(seed: int, inputs: int = 60) -> Evidence:
    """The same inputs whatever the seed; what the model says of them differs."""
    rng = np.random.default_rng(seed)
    own = random_evidence(rng, inputs=inputs, draws=500)
    return replace(own, index=np.arange(inputs), content=np.arange(inputs), label=np.arange(inputs) % 2)


def ask(own: Evidence, **changes: object) -> Report:
    return evaluate(own, **{"radii": [0.0, 0.1], "alpha": 0.01} | changes)


def test_differences_are_those_of_the_rows():
    first, second = ask(evidence(0)), ask(evidence(1))
    found = compare_reports({"a": first, "b": second}, resamples=100)
    assert found.paired
    for position in (0, 1):
        (apart,) = found.differences[position]
        for name, one in apart.items():
            assert one.value == getattr(found.rows[position][1], name) - getattr(found.rows[position][0], name)
            assert one.half >= 0
    none = compare_reports({"a": first, "b": ask(evidence(0))}, resamples=100)
    assert all(one.value == 0 and not one.half > 0 for at in none.differences for one in at[0].values())
    assert len(none.changed(0)) == 0


def test_errors_are_of_the_inputs_that_all_certify():
    reports = {name: ask(evidence(seed), delta=0.01) for seed, name in enumerate("abc")}
    found = compare_reports(reports, resamples=0)
    for position, beside in enumerate(found.rows):
        both = np.logical_and.reduce([own.bounds[position].certified for own in reports.values()])
        assert 0 < both.sum() < min(own[position].certified for own in reports.values())
        for row, own in zip(beside, reports.values(), strict=True):
            assert row.inputs == both.sum()
            for name in ("certified", "certified_share", "accuracy", "certified_accuracy"):
                assert getattr(row, name) == getattr(own[position], name)
            bounds = own.bounds[position]
            known = np.asarray(bounds.lower)[both], bounds.upper[both], bounds.correct[both]
            assert row.certified_ece == certified_calibration_error(*known).value
            failures = allowed_failures(60, alpha=0.01, delta=0.01)  # of all 60, not of those compared
            assert failures > allowed_failures(int(both.sum()), alpha=0.01, delta=0.01)
            assert row.joint_ece == jointly_certified_calibration_error(*known, failures=failures).value
            assert row.ece == expected_calibration_error(bounds.confidence[both], bounds.correct[both])
    everyone = {name: ask(evidence(seed), population="all") for seed, name in enumerate("ab")}
    whole = compare_reports(everyone, resamples=0)
    assert [beside[1] for beside in whole.rows] == list(everyone["b"])


@pytest.mark.parametrize("population", ["certified", "all"])
def test_guaranteed_errors_are_by_failed_certificates_whatever_a_run_claims(population):
    plain, best = (
        {name: ask(evidence(seed), population=population, claim=claim) for seed, name in enumerate("ab")}
        for claim in ("failures", "best")
    )
    found, other = (compare_reports(reports, resamples=100) for reports in (plain, best))
    for beside, theirs in zip(found.rows, other.rows, strict=True):
        assert [row.joint_ece for row in beside] == [row.joint_ece for row in theirs]
    assert [one["joint_ece"] for (one,) in found.differences] == [one["joint_ece"] for (one,) in other.differences]
    note = "Guaranteed errors are by failed certificates here"
    assert [note in side_by_side_words(one)[2] for one in (found, other)] == [False, True]


def certifying(share: int, **changes: object) -> Report:
    """Bounds of 60 inputs of which one in `share` is not certified: those whose confidence is known least."""
    easy = np.arange(60) % share > 0
    known, hard = ask(evidence(0), radii=[0.1]).bounds[0], np.arange(60) % 3 == 0
    lower, upper = np.where(hard, 0.0, 0.9), np.where(hard, 1.0, 0.95)
    radius = np.where(easy, 0.1, np.nan)
    known = replace(known, lower=lower, upper=upper, confidence=np.full(60, 0.92), correct=known.label == 1, alpha=0.0)
    own = replace(known, predicted=np.ones_like(known.label), certified=easy, certified_radius=radius, **changes)
    return evaluate([own])


def test_a_run_that_certifies_more_is_not_called_worse_for_the_harder_inputs():
    few, more = certifying(3), certifying(61)
    assert more[0].certified_ece > few[0].certified_ece + 0.05  # each of its own certified inputs
    found = compare_reports({"few": few, "more": more}, resamples=100)
    (apart,) = found.differences[0]
    assert apart["certified_ece"].value == 0
    assert apart["certified_share"].better
    verdict, _, note = side_by_side_words(found)
    size = percent(few)
    assert verdict == (
        "Certified calibration error at R = 0.1, of the 40 inputs certified by all runs: more is not clearly different "
        f"from few ({size} against {size}); few certifies 40 of 60 inputs, more certifies 59 of 60 inputs "
        "(clearly more)."
    )
    assert "of the inputs that all runs certify at R" in note
    assert "A difference is called better or worse where its interval does not hold 0." in note
    page = side_by_side_page(found)
    assert verdict in page
    assert '<td class="better">' in page
    assert 'class="worse"' not in page
    turned = compare_reports({"more": more, "few": few}, resamples=100).differences[0][0]
    assert turned["certified_share"].better is False


def percent(report: Report) -> str:
    return METRICS["certified_ece"].show(report[0].certified_ece)


def test_errors_of_different_inputs_are_not_judged():
    few, more = certifying(3), certifying(61, index=np.arange(60) + 7)
    found = compare_reports({"few": few, "more": more}, resamples=100)
    verdict, _, note = side_by_side_words(found)
    assert "clearly" not in verdict
    assert (
        f"of different inputs: few {percent(few)} of its 40 inputs, more {percent(more)} of its 59 inputs; " in verdict
    )
    assert {name for name, one in found.differences[0][0].items() if one.is_clear} <= {
        "certified_share", "accuracy", "certified_accuracy",
    }  # fmt: skip
    assert "so none is called better or worse" in note
    assert "Behind ±" in note
    assert "A difference is called better" not in note


def test_nothing_in_common_is_said():
    one, two = certifying(3), certifying(61)
    none = replace(two.bounds[0], certified=~one.bounds[0].certified)
    found = compare_reports({"a": one, "b": evaluate([none])}, resamples=100)
    assert (
        "no input is certified by all runs; a certifies 40 of 60 inputs, b certifies 20" in side_by_side_words(found)[0]
    )
    assert "nan" not in side_by_side_page(found).lower().replace("nanum", "")


def test_paired_intervals_of_a_share_match_the_formula():
    first, second = (ask(evidence(seed, 150), radii=[0.0]) for seed in (0, 1))
    one = compare_reports({"a": first, "b": second}, resamples=100).differences[0][0]["certified_accuracy"]
    right = [(own.bounds[0].certified & own.bounds[0].correct).astype(float) for own in (first, second)]
    apart = right[1] - right[0]
    # Of one difference it would be 1.96 standard deviations, of six independent ones 2.63.
    assert one.half * np.sqrt(len(apart)) / apart.std() == pytest.approx(2.4, rel=0.25)


def drawn_again(rng, mean, *, draws: int = 300) -> Report:
    """The same model on the same inputs, with other draws."""
    cdf = special.betainc((8 * mean)[:, None], (8 - 8 * mean)[:, None], threshold_grid())
    votes = rng.binomial(draws, np.clip(mean + 0.1, 0.0, 1.0))
    own = made(rng.multinomial(draws, np.diff(cdf, axis=1)), votes=np.column_stack([draws - votes, votes]))
    label = np.random.default_rng(6).random(len(mean)) < mean
    return ask(replace(own, content=np.arange(len(mean)), label=label.astype(np.int64)), radii=[0.0, 0.1, 0.2])


@pytest.mark.slow
def test_draws_alone_seldom_make_a_difference_look_clear():
    """Of 40 pairs of runs that differ by their draws alone, hardly any shows a star among its 18 differences."""
    rng = np.random.default_rng(0)
    mean = rng.beta(3, 1, 120) * 0.96 + 0.02
    starred = 0
    for _ in range(40):
        pair = {name: drawn_again(rng, mean) for name in "ab"}
        found = compare_reports(pair, resamples=150, seed=int(rng.integers(1000)))
        starred += any(one.is_clear for at in found.differences for one in at[0].values())
    assert starred <= 5  # P(Binomial(40, 0.05) > 5) < 0.02; with an interval for each difference alone it is 12


def test_changed_inputs_are_found_one_by_one():
    first, second = ask(evidence(0)), ask(evidence(1))
    found = compare_reports({"a": first, "b": second}, resamples=0)
    one, two = first.bounds[1], second.bounds[1]
    slow = [
        i for i in range(60) if one.predicted[i] != two.predicted[i] or one.certified[i] != two.certified[i]
    ]  # fmt: skip
    assert slow
    assert found.changed(1).tolist() == slow
    assert changed_csv(found).count("\n0.1,") == len(slow)
    other = replace(evidence(1), content=np.arange(60) + 1)
    assert not compare_reports({"a": first, "b": ask(other)}, resamples=0).paired


def test_table_and_page_show_names_as_text():
    found = compare_reports({"a": ask(evidence(0)), "<b>": ask(evidence(1)), "c": ask(evidence(2))}, resamples=100)
    heads, lines = side_by_side_cells(found)
    assert heads[:5] == ["R", "", "a", "<b>", "c"]
    assert {len(line) for line in lines} == {7}
    page = side_by_side_page(found)
    assert "<b>" not in page
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert side_by_side_csv(found).startswith("radius,metric,run,value,difference,half_width\n")
    assert "bootstrap" in side_by_side_markdown(found)


def test_reports_that_do_not_fit_are_refused():
    first = ask(evidence(0))
    for others, message in (
        ({}, "be at least two, but got 1"),
        ({"b": ask(evidence(1), radii=[0.0])}, "have the same radii"),
        ({"b": ask(evidence(1), population="all")}, "have the same population, certified, but got all"),
        ({"b": ask(evidence(1), n_bins=5)}, "have the same bins, 15, but got 5"),
    ):
        with pytest.raises(InputError, match="Expected `reports`") as caught:
            compare_reports({"a": first, **others})
        assert message in str(caught.value)


def test_bounds_from_elsewhere_are_paired_by_index_and_label():
    def bounded(seed: int, **changes: object) -> Report:
        own = ask(evidence(seed))
        return evaluate([replace(at, **changes) for at in own.bounds])

    first, second = bounded(0), bounded(1)
    found = compare_reports({"a": first, "b": second}, resamples=0)
    assert (
        found.changed(1).tolist()
        == compare_reports({"a": ask(evidence(0)), "b": ask(evidence(1))}, resamples=0).changed(1).tolist()
    )
    assert "Inputs are taken for the same by index and label." in side_by_side_markdown(found)
    beside = compare_reports({"a": first, "b": ask(evidence(1))}, resamples=0)  # evidence beside bounds
    assert beside.paired
    for other in (bounded(1, index=np.arange(60) + 1), bounded(1, label=np.zeros(60, dtype=np.int64))):
        apart = compare_reports({"a": first, "b": other}, resamples=0)
        assert not apart.paired
        assert "The runs have other indices or labels" in side_by_side_markdown(apart)


def test_rows_that_are_only_counted_are_not_paired():
    """Two sets with their classes in one order have the same labels at the same rows."""

    def bounded(seed: int, *, drop: bool) -> Report:
        table = table_of(ask(evidence(seed)).bounds)
        found = intervals_by_radius(table.drop_columns(["index"]) if drop else table)
        return evaluate(intervals_by_radius(table_of(found)))  # as a run folder keeps them

    whole = bounded(0, drop=False)
    assert compare_reports({"a": whole, "b": bounded(1, drop=False)}, resamples=0).paired
    for first in (whole, bounded(0, drop=True)):
        apart = compare_reports({"a": first, "b": bounded(1, drop=True)}, resamples=0)
        assert not apart.paired
        assert "Bounds without a column 'index' do not say which inputs they are of" in side_by_side_markdown(apart)
