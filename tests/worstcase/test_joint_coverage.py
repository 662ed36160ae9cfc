"""Statements about a set hold with probability at least 1 − δ: certificates fail by chance, the attack is the worst.

All right inputs are alike, and so are the wrong ones. So what is true depends on how many of each fail, and the bounds
have nothing to hide behind: with three failures fewer allowed for, the sharp ones break too often.
"""

from functools import cache
from itertools import islice

import numpy as np
import pytest

from certcal import expected_calibration_error, jointly_certified_calibration_error, top_label_brier_score
from certcal.metrics import adaptive_calibration_error, equal_count_edges, miscalibration
from certcal.worstcase import (
    WorstCaseProblem,
    allowed_failures,
    any_binning_calibration_error,
    certified_auroc,
    certified_ks_error,
    certified_largest_gap,
    certified_overconfidence,
    certified_risk_coverage_area,
    certified_underconfidence,
    equal_count_calibration_error,
    operating_curve,
    risk_coverage_area,
    without_bins,
)
from enumeration import accuracies, aurocs

RIGHT, WRONG, ALPHA, DELTA, TRIALS = 90, 10, 0.05, 0.2, 4000
LOWER = np.repeat([0.6, 0.3], [RIGHT, WRONG])
UPPER = np.repeat([0.9, 0.5], [RIGHT, WRONG])
CORRECT = np.arange(RIGHT + WRONG) < RIGHT
SET = LOWER, UPPER, CORRECT
TAU = np.linspace(0, 1, 41)
EDGES = equal_count_edges((LOWER + UPPER) / 2, n_bins=5)  # of clean confidences
BELOW = np.nextafter(EDGES[1], 0.0)  # the top of the bin of the wrong ones


def attacks(failed_right, failed_wrong):
    """The attacks that are worst for one of the metrics: (confidences, correctness), failed ones free."""
    place = np.arange(RIGHT + WRONG)
    failed = np.where(CORRECT, place < failed_right, place - RIGHT < failed_wrong)
    for z in (np.where(CORRECT, LOWER, UPPER), LOWER, UPPER):
        for confidence, right in ((1.0, False), (0.0, True), (0.0, False), (0.6, True), (BELOW, False)):
            yield np.where(failed, confidence, z), np.where(failed, right, CORRECT)


def one_minus_auroc(z, c):
    return 1 - aurocs(z[None], c[None])[0]


def rejected(z, c):
    """Share rejected at every threshold, and of the accepted those that are wrong."""
    risk = [1 - accuracies(z[None], c[None], tau)[0] for tau in TAU]
    return np.append((z < TAU[:, None]).mean(axis=1), np.nan_to_num(risk))


def promised_curve(failures):
    curve = operating_curve(*SET, thresholds=TAU, failures=failures)
    return np.append(1 - curve.coverage, 1 - np.nan_to_num(curve.accuracy, nan=1.0))


def from_miscalibration(name):
    return lambda z, c: getattr(miscalibration(z, c), name)


def value(function):
    return lambda failures: function(*SET, failures=failures).value


# What is promised with so many failures, and what an attack attains; both get worse as they grow.
STATEMENTS = {
    "operating points, all thresholds": (promised_curve, rejected),
    "auroc": (lambda failures: 1 - certified_auroc(*SET, failures=failures), one_minus_auroc),
    "aurc": (lambda failures: certified_risk_coverage_area(*SET, failures=failures), risk_coverage_area),
    "overconfidence": (value(certified_overconfidence), from_miscalibration("overconfidence")),
    "underconfidence": (value(certified_underconfidence), from_miscalibration("underconfidence")),
    "largest gap": (value(certified_largest_gap), from_miscalibration("largest_gap")),
    "ks": (value(certified_ks_error), from_miscalibration("ks")),
    "any binning": (
        value(any_binning_calibration_error),
        lambda z, c: any_binning_calibration_error(z, z, c).value - 1e-12,
    ),
    "equal counts": (value(equal_count_calibration_error), adaptive_calibration_error),
    "equal counts, fixed bins": (
        lambda failures: jointly_certified_calibration_error(*SET, edges=EDGES, failures=failures).value,
        lambda z, c: expected_calibration_error(z, c, edges=EDGES),
    ),
    "without bins": (
        lambda failures: without_bins(WorstCaseProblem.checked(*SET), failures),
        lambda z, c: np.abs(c - z).mean(),
    ),
}

SHARP = {"operating points, all thresholds", "auroc", "aurc", "overconfidence", "without bins"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "any binning")) for name in STATEMENTS]
)
def test_a_statement_about_the_set_holds_at_its_level(name):
    promise, attained = STATEMENTS[name]

    @cache
    def truth(failed_right, failed_wrong):
        found = islice(attacks(failed_right, failed_wrong), 4 if name == "any binning" else None)  # which is slower
        return np.max([attained(z, c) for z, c in found], axis=0)

    rng = np.random.default_rng(0)
    failed = zip(rng.binomial(RIGHT, ALPHA, TRIALS).tolist(), rng.binomial(WRONG, ALPHA, TRIALS).tolist(), strict=True)
    trials = [truth(*own) for own in failed]

    def broken(failures):
        return np.mean([np.any(own > promise_of(failures) + 1e-9) for own in trials])

    promise_of = cache(promise)
    allowed = allowed_failures(RIGHT + WRONG, alpha=ALPHA, delta=DELTA)
    assert allowed == 7
    assert broken(allowed) <= DELTA + 3 * np.sqrt(DELTA / TRIALS)
    assert broken(0) > DELTA  # what is certified only if every certificate holds promises too much for the set
    if name in SHARP:
        assert broken(allowed - 3) > DELTA


def test_the_worst_brier_score_is_among_the_attacks():
    """The attacks above do not spare the set: its Brier score is that of the far ends, failed ones at a loss of 1."""
    worst = max(top_label_brier_score(z, c) for z, c in attacks(5, 1))
    assert worst == pytest.approx((6 + 85 * 0.4**2 + 9 * 0.5**2) / 100)
