"""Operating points and rankings under attack against the enumeration of every attack, and their coverage."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError, evaluate
from certcal.certificates import ConfidenceIntervals
from certcal.smoothing import load_evidence
from certcal.worstcase import (
    NoThresholdError,
    allowed_failures,
    certified_auroc,
    certified_operating_point,
    certified_risk_coverage_area,
    certified_threshold,
    operating_curve,
    risk_coverage_area,
)
from enumeration import GRID, accuracies, areas, aurocs, every_attack, grid_sets
from laws import examples
from places import ROOT
from problems import smoothed_like

FREE = st.sampled_from([(0, 0), (0, 0), (1, 0), (0, 1), (1, 1), (0, 2)])  # (uncertified, failures)


def least(values):
    known = values[~np.isnan(values)]
    return known.min() if len(known) else np.nan


@examples(1000)
@given(grid_sets(most=3), FREE, st.sampled_from([*GRID, 0.3, 0.6]))
def test_an_operating_point_is_the_worst_of_every_attack(problem, free, threshold):
    uncertified, failures = free
    point = certified_operating_point(*problem, threshold=threshold, uncertified=uncertified, failures=failures)
    z, c = every_attack(*problem, (*GRID, 0.3, 0.6), uncertified=uncertified, failures=failures)
    assert point.coverage == (z >= threshold).mean(axis=1).min()
    assert point.accuracy == pytest.approx(least(accuracies(z, c, threshold)), nan_ok=True)


@examples(1000)
@given(grid_sets(most=4), FREE)
def test_rankings_are_the_worst_of_every_attack(problem, free):
    uncertified, failures = free
    z, c = every_attack(*problem, GRID, uncertified=uncertified, failures=failures)
    value = certified_auroc(*problem, uncertified=uncertified, failures=failures)
    assert value == pytest.approx(least(aurocs(z, c)), nan_ok=True)
    area = certified_risk_coverage_area(*problem, uncertified=uncertified, failures=failures)
    assert area == pytest.approx(areas(z, c).max(), abs=1e-12)


@examples(200)
@given(grid_sets(most=6), st.integers(0, 2**32 - 1))
def test_the_area_is_the_mean_over_orders_of_ties(problem, seed):
    z, _, c = problem
    assert risk_coverage_area(z, c) == pytest.approx(areas(z[None], c[None])[0])
    distinct = np.random.default_rng(seed).permutation(len(z)) / len(z)
    by_hand = (np.cumsum(~c[np.argsort(-distinct)]) / np.arange(1, len(z) + 1)).mean()
    assert risk_coverage_area(distinct, c) == pytest.approx(by_hand)


PIECES = np.unique([*GRID, *np.nextafter(GRID[:-1], 2.0)])  # the ends and the least float of every piece of a curve


@examples(400)
@given(grid_sets(most=3), FREE, st.sampled_from([0.25, 1 / 3, 0.5, 0.6, 2 / 3, 0.75, 1.0]))
def test_the_threshold_is_the_smallest_that_every_attack_leaves_the_accuracy(problem, free, wanted):
    """Every attack at every threshold: someone right is accepted whatever it is, and enough of those accepted are."""
    more = dict(zip(("uncertified", "failures"), free, strict=True))
    z, c = every_attack(*problem, GRID, **more)
    least_right = [(c & (z >= tau)).sum(axis=1).min() for tau in PIECES]
    shares = np.array([least(accuracies(z, c, tau)) for tau in PIECES])
    enough = (np.array(least_right) > 0) & (shares >= wanted)
    if not enough.any():
        with pytest.raises(NoThresholdError, match=r"Expected `accuracy` to be (at most|asked of)") as caught:
            certified_threshold(*problem, accuracy=wanted, **more)
        sure = shares[np.array(least_right) > 0]
        assert (sure.max() if len(sure) else None) == (caught.value.best and caught.value.best.accuracy)
        return
    point, first = certified_threshold(*problem, accuracy=wanted, **more), int(enough.argmax())
    assert point.threshold == PIECES[first]
    assert point.accuracy == shares[first]
    coverage = [(z >= tau).mean(axis=1).min() for tau in PIECES]
    assert point.coverage == coverage[first] == max(np.array(coverage)[enough])  # the most that can be accepted
    assert certified_threshold(*problem, risk=point.risk, **more).threshold <= point.threshold


@pytest.mark.parametrize("right", [[0, 1, 1, 1, 1], [0, 0, 1], [0] * 3 + [1] * 4])
def test_a_point_s_own_risk_and_the_best_that_a_message_names_can_be_asked_for(right):
    bounds = (np.zeros(len(right)), np.zeros(len(right)), right)
    point = certified_operating_point(*bounds, threshold=0.0)
    assert certified_threshold(*bounds, risk=point.risk).threshold == 0.0
    for name, asked in (("risk", 0.0), ("accuracy", 1.0)):
        with pytest.raises(InputError) as caught:
            certified_threshold(*bounds, **{name: asked})
        best = float(str(caught.value).split("to be at ")[1].split()[1].rstrip(","))
        assert certified_threshold(*bounds, **{name: best}).threshold == 0.0


def test_the_threshold_in_words_is_no_smaller_than_the_threshold():
    point = certified_threshold([0.7, 0.2, 0.6], [0.9, 0.6, 0.65], [1, 1, 0], accuracy=0.9)
    said = float(str(point).split()[2].removesuffix(":"))
    assert said == point.threshold > 0.65
    assert str(certified_operating_point([0.7], [0.9], [1], threshold=0.65)).startswith("Accept from 0.65: ")


def test_a_curve_is_its_points():
    lower, upper, correct, clean = smoothed_like(200)
    curve = operating_curve(lower, upper, correct, confidence=clean, uncertified=0, failures=2)
    assert len(curve) == 101
    for position in (0, 40, 80, 100):
        own = certified_operating_point(
            lower, upper, correct, confidence=clean, threshold=curve.threshold[position], failures=2
        )
        expected = accuracies(clean[None], correct[None], curve.threshold[position])[0]
        assert own.clean_accuracy == pytest.approx(expected, nan_ok=True)
        for name in ("coverage", "accuracy", "clean_coverage"):
            assert getattr(own, name) == pytest.approx(getattr(curve, name)[position], nan_ok=True)
    assert (curve.coverage <= curve.clean_coverage).all()
    known = ~np.isnan(curve.clean_accuracy)
    assert (curve.accuracy <= curve.clean_accuracy)[known].all()


def intervals(lower, upper, correct, certified):
    correct = np.asarray(correct, dtype=bool)
    inputs, certified = len(correct), np.asarray(certified, dtype=bool)
    return ConfidenceIntervals(
        lower=np.asarray(lower, float), upper=np.asarray(upper, float), confidence=np.asarray(lower, float),
        index=np.arange(inputs), label=np.zeros(inputs, np.int64),
        predicted=np.zeros(inputs, np.int64), correct=correct, certified=certified,
        certified_radius=np.where(certified, 1.0, 0.0), radius=0.5, alpha=0.001, method="cdf-cp", split_alpha=True,
    )  # fmt: skip


def test_bounds_count_their_uncertified_inputs_as_the_population_says():
    bounds = intervals([0.9, 0.8, 0.7], [1.0, 0.9, 0.8], [1, 1, 1], [1, 1, 0])
    assert certified_operating_point(bounds, threshold=0.75).accuracy == 1.0
    point = certified_operating_point(bounds, threshold=0.75, population="all")
    assert (point.accuracy, point.coverage) == (2 / 3, 2 / 3)
    assert point.clean_coverage == 2 / 3
    assert np.isnan(certified_auroc(bounds))
    assert certified_auroc(bounds, population="all") == 0.0
    assert certified_risk_coverage_area(bounds, population="all") == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_a_threshold_nobody_reaches_is_said_in_words():
    point = certified_operating_point([0.2], [0.6], [1], threshold=0.7)
    assert np.isnan(point.accuracy)
    assert "no input can reach" in str(point)
    assert certified_operating_point([0.2], [0.6], [1], threshold=0.5).accuracy == 1.0  # whoever is accepted is right
    assert "at least 66.6 % of those accepted are right" in str(
        certified_operating_point([0.9, 0.9, 0.1], [1, 1, 0.9], [1, 1, 0], threshold=0.8)
    )


def test_many_failures_give_a_bound_from_below(monkeypatch):
    lower, upper, correct, _ = smoothed_like(60)
    exact = certified_auroc(lower, upper, correct, failures=3)
    monkeypatch.setattr("certcal.worstcase.closed_form._MOST_WORK", 0)
    assert 0.0 < certified_auroc(lower, upper, correct, failures=3) <= exact


@examples(100)
@given(grid_sets(most=8, least=2), st.integers(1, 3))
def test_failures_are_shared_between_right_and_wrong_as_is_worst(problem, failures):
    lower, upper, correct = problem
    failures = min(failures, len(lower))
    z, values = np.where(correct, lower, upper), []
    for failed in map(list, combinations(range(len(z)), failures)):
        for to_wrong in range(failures + 1):
            new, right = z.copy(), correct.copy()
            right[failed] = np.arange(failures) >= to_wrong
            new[failed] = ~right[failed]
            values.append(aurocs(new[None], right[None])[0])
    assert certified_auroc(*problem, failures=failures) == pytest.approx(least(np.array(values)), nan_ok=True)


def test_the_certified_auroc_is_never_above_the_exact_share(rng):
    for _ in range(60):
        right, wrong = rng.integers(1, 40, 2)
        z, c = rng.integers(0, 20, right + wrong) / 20, np.arange(right + wrong) < right
        won = sum(Fraction(int(np.sign(a - b)) + 1, 2) for a in z[c] for b in z[~c])
        found = Fraction(certified_auroc(z, z, c))
        assert found <= won / int(right * wrong) < found + Fraction(1, 2**52)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certified_operating_point([0.1], [0.2], [1], threshold=1.5), "`threshold` to lie in"),
        (lambda: certified_operating_point([0.1], [0.2], [1, 0], threshold=0.5), "`correct` to have as many"),
        (lambda: operating_curve([0.1], [0.2], [1], thresholds=[]), "`thresholds` to hold at least one"),
        (lambda: operating_curve([0.1], [0.2], [1], confidence=[0.1, 0.2]), "`confidence` to have as many"),
        (lambda: certified_threshold([0.1], [0.2], [1]), "`accuracy` to be given"),
        (lambda: certified_threshold([0.1], [0.2], [0], accuracy=0.5), "an input that is sure to be right"),
        (lambda: certified_threshold([0.1], [0.2], [0], risk=0.5), "an input that is sure to be right"),
        (lambda: certified_auroc([0.1], [0.2], [1], failures=-1), "`failures` to be an integer"),
        (lambda: certified_auroc([0.1], [0.2], [1], uncertified=10**10), "`uncertified` to be at most 16,777,216 here"),
        (lambda: certified_risk_coverage_area([0.1], [0.2], [1], uncertified=10**10), "`uncertified` to be at most"),
    ],
)
def test_wrong_questions_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_all_thresholds_hold_together_though_chosen_after_looking():
    """In at most δ of the cases the truth breaks a promise: of any threshold, or of the one for a wanted accuracy.

    Each certificate fails with probability α: the true input is then wrong at confidence 1.
    """
    rng, inputs, alpha, delta, broken = np.random.default_rng(5), 300, 0.02, 0.1, 0
    failures = allowed_failures(inputs, alpha=alpha, delta=delta)
    trials, missed = 400, {failures: 0, 0: 0}
    for _ in range(trials):
        lower = rng.uniform(0.3, 0.9, inputs)
        upper = lower + rng.random(inputs) * (1 - lower)
        claimed = rng.random(inputs) < 0.95
        failed = rng.random(inputs) < alpha
        truth, right = np.where(claimed, lower, upper), claimed & ~failed
        truth[failed] = 1.0
        curve = operating_curve(lower, upper, claimed, failures=failures)
        accepted = truth >= curve.threshold[:, None]
        count = accepted.sum(axis=1)
        short = (accepted & right).sum(axis=1) < curve.accuracy * count - 1e-9
        broken += bool(short[count > 0].any() or (count < curve.coverage * inputs - 1e-9).any())
        for allowed in missed:
            most = operating_curve(lower, upper, claimed, failures=allowed, thresholds=[0.4]).accuracy[0]
            point = certified_threshold(lower, upper, claimed, accuracy=most, failures=allowed)
            chosen = truth >= point.threshold
            missed[allowed] += bool(right[chosen].mean() < most or chosen.mean() < point.coverage - 1e-9)
    assert missed[failures] <= broken
    assert missed[0] / trials > delta  # where no failures are allowed for
    assert broken / trials <= delta + 3 * np.sqrt(delta / trials)
    assert failures > 0


def test_the_page_shows_what_real_evidence_gives():
    evidence = load_evidence(ROOT / "reference/evidence/fashion-mnist-s0.50-e1.00-m4-t10-seed0.parquet")
    report = evaluate(evidence, radii=[0.25, 0.5, 1.0])
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for position, row in enumerate(report):
        sure, joint = (report.operating(position, joint=way, thresholds=[0.8])[0] for way in (False, True))
        shares = (
            *(sure.clean_coverage, sure.coverage, joint.coverage),
            *(sure.clean_accuracy, sure.accuracy, joint.accuracy),
        )
        cells = " | ".join(f"{np.floor(1000 * share) / 10:.1f} %" for share in shares)
        assert f"| {row.radius:g} | {cells} |" in page


def test_risk_and_accuracy_ask_the_same():
    """1 − 0.7 is above 0.3 in floats: the shares are counted, not subtracted."""
    bounds = [0.9] * 7 + [0.1] * 3, [1.0] * 10, [1] * 7 + [0] * 3
    assert certified_threshold(*bounds, accuracy=0.7).threshold == certified_threshold(*bounds, risk=0.3).threshold


@pytest.mark.parametrize("asked", [{"accuracy": 0.0}, {"risk": 1.0}])
def test_a_threshold_for_nobody_right_says_so(asked):
    with pytest.raises(InputError, match="be asked of bounds with an input that is sure to be right, but got none"):
        certified_threshold([0.1, 0.2], [0.5, 0.6], [0, 0], **asked)
