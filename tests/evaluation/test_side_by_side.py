"""Differences between reports are those of their rows, and their intervals hold what they should hold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from certcal import Evidence, InputError, evaluate
from certcal.evaluation import Report, compare_reports
from certcal.report import changed_csv, side_by_side_cells, side_by_side_csv, side_by_side_markdown, side_by_side_page
from certcal.smoothing import threshold_grid
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
    found = compare_reports({"a": first, "b": second}, resamples=8)
    assert found.paired
    for position in (0, 1):
        (apart,) = found.differences[position]
        for name, one in apart.items():
            assert one.value == getattr(second[position], name) - getattr(first[position], name)
            assert one.half >= 0
    none = compare_reports({"a": first, "b": ask(evidence(0))}, resamples=8)
    assert all(one.value == 0 and not one.half > 0 for at in none.differences for one in at[0].values())
    assert len(none.changed(0)) == 0


def test_paired_intervals_of_a_share_match_the_formula():
    first, second = (ask(evidence(seed, 150), radii=[0.0]) for seed in (0, 1))
    one = compare_reports({"a": first, "b": second}, resamples=150).differences[0][0]["certified_accuracy"]
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
    found = compare_reports({"a": ask(evidence(0)), "<b>": ask(evidence(1)), "c": ask(evidence(2))}, resamples=4)
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
