"""Brier and log scores, plain and certified."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from certcal import InputError, Kind, certified_brier_score, top_label_brier_score
from certcal.metrics import brier_score, log_score, top_label, top_label_log_score
from certcal.worstcase import certified_log_score
from problems import CATALOGUE, bounded_sets


def test_top_label_scores_are_scikit_learns_binary_ones(rng):
    confidence = rng.random(500)
    correct = rng.random(500) < confidence
    assert top_label_brier_score(confidence, correct) == pytest.approx(brier_score_loss(correct, confidence), abs=1e-14)
    assert top_label_log_score(confidence, correct) == pytest.approx(log_loss(correct, confidence), abs=1e-12)


def test_multiclass_scores(rng):
    probs, labels = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300)
    one_hot = np.eye(4)[labels]
    assert brier_score(probs, labels) == pytest.approx(np.square(probs - one_hot).sum(axis=1).mean(), abs=1e-14)
    assert log_score(probs, labels) == pytest.approx(log_loss(labels, probs), abs=1e-12)


def test_log_scores_are_honest_at_the_ends():
    assert top_label_log_score([1.0, 0.0], [1, 0]) == 0.0
    assert top_label_log_score([1.0], [0]) == np.inf
    assert certified_log_score([0.0], [0.5], [1]).value == np.inf
    # 1 − z keeps its digits next to 0.
    assert top_label_log_score([1e-18], [0]) == pytest.approx(1e-18, rel=1e-12, abs=0)


@given(bounded_sets(), st.integers(0, 2**32 - 1))
def test_no_point_in_the_box_beats_the_certified_scores(problem, seed):
    lower, upper, correct, _ = problem
    point = lower + (upper - lower) * np.random.default_rng(seed).random(len(lower))
    point = np.clip(point, lower, upper)
    assert top_label_brier_score(point, correct) <= certified_brier_score(lower, upper, correct).value
    assert top_label_log_score(point, correct) <= certified_log_score(lower, upper, correct).value


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_witness_attains_the_certified_scores(name):
    lower, upper, correct, _ = CATALOGUE[name]
    for certified, plain in (
        (certified_brier_score, top_label_brier_score),
        (certified_log_score, top_label_log_score),
    ):
        solution = certified(lower, upper, correct)
        assert solution.kind is Kind.EXACT
        assert (solution.confidence >= lower).all()
        assert (solution.confidence <= upper).all()
        attained = plain(solution.confidence, correct)
        assert solution.value >= attained
        assert solution.value == pytest.approx(attained, rel=1e-12)


def test_certified_brier_score_is_the_papers_formula(rng):
    """Theorem 3.3 as printed: ‖c − l c − u (1 − c)‖² / N."""
    lower, upper = np.sort(rng.random((2, 200)), axis=0)
    c = (rng.random(200) < 0.6).astype(float)
    printed = np.linalg.norm(c - lower * c - upper * (1 - c)) ** 2 / 200
    assert certified_brier_score(lower, upper, c).value == pytest.approx(printed, abs=1e-13)


@given(bounded_sets(most_inputs=8))
def test_the_certified_brier_score_is_never_below_exact_rational_arithmetic(problem):
    lower, upper, correct, _ = problem
    terms = [(1 - Fraction(float(low))) ** 2 if right else Fraction(float(high)) ** 2
             for low, high, right in zip(lower, upper, correct, strict=True)]  # fmt: skip
    value = certified_brier_score(lower, upper, correct).value
    assert Fraction(value) >= sum(terms) / len(terms)


def test_underflow_is_rounded_up_as_well():
    assert certified_brier_score([1e-170], [1e-170], [0]).value > 0
    assert certified_log_score([5e-324], [5e-324], [0]).value > 5e-324
    assert certified_brier_score([1.0], [1.0], [1]).value == 0


def test_a_long_sum_is_rounded_up():
    """Terms chosen so that float64 ends below the exact mean."""
    upper = np.full(10_001, 0.1)
    upper[0] = 1.0
    exact = (Fraction(1) + 10_000 * Fraction(0.1) ** 2) / 10_001
    solution = certified_brier_score(upper, upper, np.zeros(10_001))
    assert Fraction(solution.value) >= exact
    assert solution.stats["rounding"] >= solution.value * 2**-47


def test_the_top_label_is_what_metrics_take(rng):
    probs, labels = rng.dirichlet([1.0] * 4, size=50), rng.integers(0, 4, 50)
    confidence, correct = top_label(probs, labels)
    assert confidence.tolist() == [max(row) for row in probs.tolist()]
    assert correct.tolist() == [row.index(max(row)) == label for row, label in zip(probs.tolist(), labels, strict=True)]
    assert 0 <= top_label_brier_score(confidence, correct) <= 1
    two = rng.random(20)
    one, both = top_label(two, labels[:20] % 2), top_label(np.column_stack([1 - two, two]), labels[:20] % 2)
    assert all(np.array_equal(*pair) for pair in zip(one, both, strict=True))
    with pytest.raises(InputError, match="Expected `labels`"):
        top_label(probs, labels + 4)
    with pytest.raises(InputError, match="Expected `probs`"):
        top_label(probs * 2, labels)
