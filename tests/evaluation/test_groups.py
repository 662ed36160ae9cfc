"""Groups: each value is that of its inputs alone, disparities are the worst of every attack, levels hold together."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import certcal
from certcal import InputError, evaluate
from certcal.evaluation.groups import as_columns, group_tables, least_brier, least_ece
from certcal.report import wanted_acceptance
from certcal.worstcase import WorstCaseProblem, allowed_failures
from enumeration import GRID, every_attack, grid_sets
from laws import examples
from smoothing_oracles import random_evidence

EDGES = np.array([0.0, 0.5, 1.0])


def bounds_of(lower, upper, correct, certified=None, alpha=0.0):
    count = len(lower)
    certified = np.ones(count, bool) if certified is None else np.asarray(certified, bool)
    base = random_evidence(np.random.default_rng(0), inputs=count, draws=100)
    own = certcal.confidence_bounds(base, radius=0.1, alpha=0.01)
    return replace(
        own, lower=np.asarray(lower, float), upper=np.asarray(upper, float), confidence=np.asarray(lower, float),
        correct=np.asarray(correct, bool), certified=certified, certified_radius=np.where(certified, 1.0, 0.0),
        alpha=alpha, predicted=np.asarray(correct).astype(np.int64),
    )  # fmt: skip


def ece(z, c):
    place = np.clip(np.searchsorted(EDGES, z, "right") - 1, 0, len(EDGES) - 2)
    return sum(np.abs(((c - z) * (place == m)).sum(axis=1)) for m in range(len(EDGES) - 1)) / z.shape[1]


POINTS = np.unique([*GRID, *np.nextafter(GRID[1:], 0.0)])
ALPHA = {0: 0.0, 1: 0.06}  # with which each of two groups of one to three inputs may have so many failures


@examples(150)
@given(grid_sets(most=3), grid_sets(most=3), st.booleans(), st.sampled_from([0, 1]))
def test_disparities_are_the_worst_of_every_attack(one, two, free, failures):
    """Attacks on two groups do not disturb each other; the ECE's is a bound, the others are attained."""
    lower, upper, correct = (np.concatenate(parts) for parts in zip(one, two, strict=True))
    certified = np.ones(len(lower), bool)
    certified[0] = not (free and len(one[0]) > 1)
    bounds = bounds_of(lower, upper, correct, certified, alpha=ALPHA[failures])
    names = np.array(["a"] * len(one[0]) + ["b"] * len(two[0]))
    (table,) = group_tables(bounds, {"x": names}, threshold=0.5, edges=EDGES, delta=0.1)
    assert [group.failures for group in table.groups] == [failures] * 2
    certain, joint = (attacked(bounds, names, count) for count in (0, failures))
    for own in table.disparities:
        for found, spans in ((own.certified, certain), (own.joint, joint)):
            worst = max(spans[g][own.metric][1] - spans[h][own.metric][0] for g, h in ("ab", "ba"))
            assert found >= worst - 1e-12
            if own.metric != "ece":
                assert found == pytest.approx(worst, abs=1e-9)


def attacked(bounds, names, failures):
    """Between which values each metric of each group stays, over every attack and every choice of failures."""
    found = {}
    for name in "ab":
        own = bounds.select(names == name)
        sure = own.certified
        z, c = every_attack(own.lower[sure], own.upper[sure], own.correct[sure], POINTS, failures=failures)
        points = own.correct.astype(float)  # accuracy does not ask where; those not certified may be right or wrong
        _, right = every_attack(points[sure], points[sure], own.correct[sure], [0.0, 1.0], failures=failures)
        open_, total = int((~sure).sum()), len(own)
        least, most = right.sum(axis=1).min(initial=0 if not sure.any() else total), right.sum(axis=1).max(initial=0)
        loss, error = np.square(c - z).mean(axis=1), ece(z, c)
        found[name] = {
            "accuracy": (least / total, (most + open_) / total),
            "ece": (error.min(), error.max()),
            "brier": (loss.min(), loss.max()),
        }
    return found


@examples(300)
@given(grid_sets(most=3), st.sampled_from([(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)]))
def test_the_least_error_is_below_every_attack_and_attained_in_one_bin(problem, free):
    uncertified, failures = free
    z, c = every_attack(*problem, POINTS, uncertified=uncertified, failures=failures)
    own = WorstCaseProblem.checked(*problem, uncertified=uncertified)
    least = least_ece(own, failures)
    assert least <= ece(z, c).min() + 1e-12
    if least > 0.0:
        assert least == pytest.approx(np.abs((c - z).mean(axis=1)).min())
    assert least_brier(own, failures) == pytest.approx(np.square(c - z).mean(axis=1).min(), abs=1e-12)


def test_a_group_is_evaluated_like_a_set_of_its_own():
    evidence = random_evidence(np.random.default_rng(3), inputs=120, draws=500)
    names = np.arange(120) % 3
    report = evaluate(evidence, radii=[0.1], alpha=0.01, delta=0.03, groups=names)
    (table,) = report.groups[0]
    for group in table.groups:
        own = report.bounds[0].select(names == int(group.name))
        assert group.row.certified_ece == certcal.certified_calibration_error(own).value
        assert group.failures == allowed_failures(40, alpha=0.01, delta=0.01)
        assert group.row.joint_ece == certcal.jointly_certified_calibration_error(own, failures=group.failures).value
        point = certcal.worstcase.certified_operating_point(own, threshold=0.8, failures=group.failures)
        assert group.joint_point.accuracy == pytest.approx(point.accuracy, nan_ok=True)
    assert table.as_dict()["groups"][0]["inputs"] == 40


def test_several_columns_share_delta_and_own_columns_need_no_array():
    evidence = random_evidence(np.random.default_rng(3), inputs=60, draws=300)
    report = evaluate(
        evidence, radii=[0.0, 0.1], alpha=0.01, groups={"predicted": "predicted", "half": np.arange(60) < 30}
    )
    assert [table.column for table in report.groups[1]] == ["predicted", "half"]
    count = sum(len(table.groups) for table in report.groups[0])
    sizes = {group.inputs: group.failures for group in report.groups[0][1].groups}
    assert sizes == {30: allowed_failures(30, alpha=0.01, delta=0.001 / count)}


def test_small_and_uncertified_groups_say_so():
    bounds = bounds_of([0.9] * 4, [1.0] * 4, [1, 1, 1, 0], [1, 1, 0, 1], alpha=0.3)
    (table,) = group_tables(bounds, {"x": np.array(list("aabc"))}, threshold=0.5, edges=EDGES, delta=0.1)
    one, nobody, _ = table.groups
    assert "too small: all of its 2 certificates may fail, so nothing is" in one.note
    assert nobody.note == "No input of group b is certified at R = 0.1."
    assert nobody.point is None
    assert np.isnan(nobody.row.certified_ece)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2], "`groups` to have one entry for each of 4 inputs, but got 2 in 'group'"),
        ([[1], [2, 3], [4], [5]], "lists of different lengths in 'group'"),
        ("sex", "`groups` to be 'predicted', 'label', an array"),
        ({"x": [1.0, np.nan, 1, 1]}, "missing ones in 'x'"),
        ({"x": ["a", float("nan"), "b", "b"]}, "missing ones in 'x'"),
        ({"x": [[1], [2], [3], [4]]}, "shape \\(4, 1\\) in 'x'"),
    ],
)
def test_wrong_groups_are_refused(groups, message):
    with pytest.raises(InputError, match=message):
        as_columns(groups, bounds_of([0.1] * 4, [0.2] * 4, [1] * 4))


def test_a_column_of_identifiers_is_refused():
    bounds = bounds_of([0.1] * 1001, [0.2] * 1001, [1] * 1001)
    with pytest.raises(InputError, match=r"at most 1000 groups .* is it an identifier"):
        as_columns(np.arange(1001), bounds)
    few = bounds.select(np.arange(60))
    with pytest.raises(InputError, match=r"of two inputs on average, but got 31 in 'group'; is it an identifier"):
        as_columns(np.minimum(np.arange(60), 30), few)
    assert len(np.unique(as_columns(np.arange(60) // 2, few)["group"])) == 30


def test_a_data_frame_has_a_grouping_per_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sex": ["F", "M", "F", "M"], "site": [1, 1, 2, 2]})
    found = as_columns(frame, bounds_of([0.1] * 4, [0.2] * 4, [1] * 4))
    assert {name: own.tolist() for name, own in found.items()} == {"sex": list("FMFM"), "site": [1, 1, 2, 2]}


def test_all_groups_hold_together():
    """Certificates fail with probability α each; in at most δ of the trials any promise of any group is broken.

    All inputs are right with bounds [0.6, 0.9]; at the worst they stay at 0.6, and failed ones are wrong at 1 or right
    at 0. So with a share f of failed ones accuracy, coverage and accuracy of those accepted are 1 − f, the calibration
    error is 0.4 (1 − f) + f and the Brier score 0.16 (1 − f) + f.
    """
    rng, alpha, delta, trials = np.random.default_rng(1), 0.05, 0.2, 4000
    names = np.repeat([0, 1, 2, 3], [100, 60, 30, 10])
    bounds = bounds_of([0.6] * 200, [0.9] * 200, [True] * 200, alpha=alpha)
    (table,) = group_tables(bounds, {"x": names}, threshold=0.5, edges=EDGES, delta=delta)
    assert table.groups[0].row.joint_accuracy > 0.85
    held = rng.random((trials, 200)) >= alpha
    share = np.stack([1 - held[:, names == name].mean(axis=1) for name in range(4)], axis=1)
    rows, points = [group.row for group in table.groups], [group.joint_point for group in table.groups]
    promised = {
        "accuracy": (1 - np.array([row.joint_accuracy for row in rows]), share),
        "coverage": (1 - np.array([point.coverage for point in points]), share),
        "accuracy of accepted": (1 - np.array([point.accuracy for point in points]), share),
        "ece": (np.array([row.joint_ece for row in rows]), 0.4 * (1 - share) + share),
        "brier": (np.array([row.joint_brier for row in rows]), 0.16 * (1 - share) + share),
    }
    apart = share[:, :, None] - share[:, None, :]
    (accuracy,) = [own.joint for own in table.disparities if own.metric == "accuracy"]
    broken = {name: (truth > most + 1e-12).any(axis=1) for name, (most, truth) in promised.items()}
    broken["difference of accuracies"] = apart.max(axis=(1, 2)) > accuracy + 1e-12
    assert np.any(list(broken.values()), axis=0).mean() <= delta + 3 * np.sqrt(delta / trials)
    assert all(own.mean() > 0 for name, own in broken.items() if name != "difference of accuracies")


def test_failures_take_the_largest_near_losses():
    problem = WorstCaseProblem.checked([0.1, 0.2], [0.5, 0.6], [1, 0])
    assert least_brier(problem, 0) == pytest.approx((0.25 + 0.04) / 2)
    assert least_brier(problem, 1) == pytest.approx(0.04 / 2)


def test_a_note_says_at_most_what_failures_cost():
    bounds = bounds_of([0.9] * 10, [1.0] * 10, [True] * 10, alpha=0.02)
    (table,) = group_tables(bounds, {"x": np.zeros(10, int)}, threshold=0.5, edges=EDGES, delta=0.1)
    costs = "Group 0: up to 1 of its 10 certificates may fail, which costs its guaranteed values up to 10 points."
    assert table.groups[0].note == costs


def test_a_wanted_accuracy_gives_its_threshold_in_words_with_the_same_promise():
    rng = np.random.default_rng(3)
    lower = rng.uniform(0.3, 0.8, 200)
    bounds = bounds_of(lower, lower + 0.1, (lower > 0.5) | (rng.random(200) < 0.5), lower > 0.31, alpha=0.01)
    report = evaluate(bounds, population="all", accept_accuracy=0.85)
    point, own = report.least_threshold(0), report[0].further
    assert point == certcal.worstcase.certified_threshold(
        report.bounds[0], accuracy=0.85, population="all", failures=report.failures
    )
    assert (own["joint_least_threshold"], own["joint_largest_coverage"]) == (point.threshold, point.coverage)
    assert own["least_threshold"] <= own["certified_least_threshold"] <= own["joint_least_threshold"]
    assert own["largest_coverage"] >= own["certified_largest_coverage"] >= own["joint_largest_coverage"]
    said = wanted_acceptance(report, 0)
    shown = float(said.split("Accept from ")[1].split(":")[0])
    assert point.threshold < shown < point.threshold + 1e-4
    (there,) = [report.operating(0, joint=True, thresholds=[shown])[0]]
    assert (there.coverage, there.accuracy) == (point.coverage, point.accuracy)
    assert said.endswith("Both hold with 99.9 % confidence. No smaller threshold guarantees as much, rounded up.")
    evidence = random_evidence(rng, inputs=60, draws=300)
    more = evaluate(evidence, radii=[0.1, 9.0], alpha=0.01, accept_accuracy=1.0)
    most = more.least_threshold(0)
    assert most.accuracy == max(
        one.accuracy for one in (more.least_threshold(0, accuracy=share) for share in np.arange(101) / 100)
    )
    assert "No threshold guarantees it within R = 0.1: the most is " in wanted_acceptance(more, 0)
    assert more.least_threshold(1) is None
    assert wanted_acceptance(more, 1) == wanted_acceptance(evaluate(evidence, radii=[0.1], alpha=0.01), 0) == ""


def test_one_failure_count_for_all_groups_would_cost_most_groups_more():
    """The numbers of docs/groups.md: K of the whole set, and K_g where the groups share δ."""
    sizes = {(1000,): [5], (100,) * 10: [3] * 10, (500, 500): [4, 4], (999, 1): [6, 1]}
    for groups, wanted in sizes.items():
        delta = 0.001 / len(groups)
        assert [allowed_failures(size, alpha=0.001, delta=delta) for size in groups] == wanted


def test_notes_are_a_few_sentences_however_many_groups_there_are():
    names = np.repeat(np.arange(30), np.where(np.arange(30) < 20, 11, 2))
    certified = names != 3
    bounds = bounds_of([0.9] * len(names), [1.0] * len(names), [True] * len(names), certified, alpha=0.02)
    (table,) = group_tables(bounds, {"x": names}, threshold=0.5, edges=EDGES, delta=0.01)
    none, small, cost = table.notes
    assert none == "No input is certified at R = 0.1 in group 3."
    assert (
        small
        == "All certificates may fail in groups 20, 21, 22, 23, 24, 25, 26, 27 and 2 more: so few guarantee nothing."
    )
    assert cost.startswith(
        "Certificates that may fail cost guaranteed values up to 28 points: in groups 0 (3 of 11), 1 (3"
    )
    assert table.as_dict()["notes"] == table.notes
    assert sum(bool(group.note) for group in table.groups) == 30


def test_predicted_classes_of_bounds_from_elsewhere_come_with_a_caveat():
    """Whether they depend on the draws that certify cannot be seen; evidence of ours has separate draws for them."""
    correct = [True, False] * 20
    for alpha, groups, warned in (
        (0.01, "predicted", True),
        (0.0, "predicted", False),
        (0.01, np.arange(40) % 4, False),
    ):
        (table,) = evaluate(bounds_of([0.6] * 40, [0.9] * 40, correct, alpha=alpha), groups=groups).groups[0]
        assert ("were chosen apart from the draws" in " ".join(table.notes)) == warned
    evidence = random_evidence(np.random.default_rng(3), inputs=60, draws=300)
    (table,) = evaluate(evidence, radii=[0.1], alpha=0.01, groups="predicted").groups[0]
    assert table.caveat == ""


def test_a_disparity_knows_its_clean_value():
    lower = np.array([0.6] * 10 + [0.8] * 10)
    bounds = bounds_of(lower, lower + 0.1, [True] * 9 + [False] + [True] * 10)
    (table,) = group_tables(bounds, {"x": np.repeat(["a", "b"], 10)}, threshold=0.7, edges=EDGES, delta=0.1)
    clean = {own.metric: own.clean for own in table.disparities}
    assert clean == pytest.approx({"accuracy": 0.1, "ece": 0.1, "brier": (0.16 * 9 + 0.36) / 10 - 0.04})
    assert all(own.clean <= own.certified + 1e-12 for own in table.disparities)
