"""The guaranteed calibration error by the best of three ways: what each is, who pays, and how often it holds."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from certcal import InputError, allowed_failures, certified_calibration_error, confidence_bounds, evaluate
from certcal.recalibration import IsotonicMap
from certcal.report import explanation, page_data
from certcal.report.html import render_page
from certcal.runs.evaluate import settings_of
from certcal.smoothing import load_evidence
from certcal.worstcase import alpha_for_set, jointly_certified_calibration_error, pooled_claims
from command import certcal
from places import ROOT
from smoothing_oracles import evidence_from_scores

SPREAD, SIGMA = 0.6, 0.5
RADII = (0.0, 0.1, 0.2)


def probit(rng, means, draws, wrong):
    """Evidence of a model with scores Φ(z), z ~ N(mean, SPREAD²) under noise."""
    scores = stats.norm.cdf(rng.normal(means[:, None], SPREAD, (len(means), draws)))
    return replace(evidence_from_scores(scores, sigma=SIGMA), label=np.where(wrong, 0, 1))


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(5)
    return probit(rng, rng.normal(1.2, 0.6, 120), 800, rng.random(120) < 0.2)


@pytest.mark.parametrize("population", ["certified", "all"])
def test_each_way_pays_with_its_part_of_delta(drawn, population):
    """Every way by itself, at δ / 3, for the inputs that the given α counts."""
    delta, asked = 0.03, {"radii": RADII, "alpha": 0.01, "population": population}
    report = evaluate(drawn, claim="best", delta=delta, **asked)
    own = [confidence_bounds(drawn, radius=radius, alpha=0.01) for radius in RADII]
    counted = [one.certified | (population == "all") for one in own]
    stricter = alpha_for_set(len(drawn), draws=800, delta=delta / 3)
    pooled = pooled_claims(drawn, list(zip(RADII, counted, strict=True)), delta=delta / 3)
    assert report.failures == allowed_failures(own[0], delta=delta / 3)
    for row, some, claim in zip(report, counted, pooled, strict=True):
        alone = evaluate(drawn, delta=delta / 3, **asked).at(row.radius)
        at = confidence_bounds(drawn, radius=row.radius, alpha=stricter).select(some)
        failures = allowed_failures(len(drawn), alpha=stricter, delta=delta / 3)
        suited = jointly_certified_calibration_error(at, population="all", failures=failures).value
        assert row.claims == {"failures": alone.joint_ece, "alpha_for_set": suited, "pooled": claim.value}
        assert row.joint_ece == min(row.claims.values()) == row.claims[row.claim]
        assert (row.joint_brier, row.joint_accuracy) == (alone.joint_brier, alone.joint_accuracy)
        assert row.population_ece == evaluate(drawn, delta=delta, **asked).at(row.radius).population_ece
        assert row.as_dict()["joint_ece_pooled"] == claim.value


def page_of(report):
    return render_page(page_data(report, title="one", created="today", facts=[])).split("<script")[0]


def test_the_page_names_the_stated_bound(drawn):
    report = evaluate(drawn, radii=RADII, alpha=0.01, claim="best")
    told = explanation(report, 1)
    assert report[1].claim == "pooled"
    assert "3 ways that share this probability" in told
    assert "the least bound, by pooling errors over inputs, is stated (by failed certificates" in told
    assert settings_of(report).evaluate.claim == "best"
    assert "If none fails, by each input's own certificate the calibration error" in told
    plain = evaluate(drawn, radii=RADII, alpha=0.01)
    assert "ways" not in explanation(plain, 1)
    best, alone = (page_of(one) for one in (report, plain))
    assert "How it is guaranteed" in best
    assert best.count("sampling errors cancel") == 2
    assert "How many certificates may fail" in alone
    assert "several bounds" not in alone


def test_pooling_is_left_out_where_it_would_not_hold(drawn):
    """With a map, which these draws may have taught; with stages; and what given bounds have is failed certificates."""
    flat = IsotonicMap(np.array([0.0, 1.0]), np.array([0.8, 0.8]))
    mapped = evaluate(drawn, radii=RADII, alpha=0.01, claim="best", recalibration=flat)[1]
    assert list(mapped.claims) == ["failures", "alpha_for_set"]
    assert mapped.before is not None
    staged = replace(drawn, header=replace(drawn.header, looks=2, stages=(400, 800)))
    assert list(evaluate(staged, radii=RADII, alpha=0.01, claim="best")[1].claims) == ["failures", "alpha_for_set"]
    uneven = replace(drawn, header=replace(drawn.header, stages=(900,)))  # planned for 900, of which there are 800
    assert list(evaluate(uneven, radii=RADII, alpha=0.01, claim="best")[1].claims) == ["failures", "alpha_for_set"]
    given = confidence_bounds(drawn, radius=0.1, alpha=0.01)
    assert evaluate(given, claim="best")[0].claims == {}
    with pytest.raises(InputError, match="Expected `claim` to be"):
        evaluate(drawn, radii=0.1, claim="least")


def test_nobody_certified_claims_nothing(drawn):
    row = evaluate(drawn, radii=[0.1, 5.0], alpha=0.01, claim="best")[1]
    assert row.inputs == 0
    assert row.claims == {}
    assert np.isnan(row.joint_ece)


def coverage(rng, sets, *, inputs, draws, delta, population):
    """How often the stated value is below the truth at any radius: the exact program at the true ranges."""
    broken, gained = 0, []
    for _ in range(sets):
        means, wrong = rng.normal(1.7, 0.35, inputs), rng.random(inputs) < 0.2
        report = evaluate(
            probit(rng, means, draws, wrong), radii=RADII, alpha=0.02, delta=delta, claim="best", population=population
        )
        below = False
        for row, own in zip(report, report.bounds, strict=True):
            low, high = (
                stats.norm.cdf((means + side * row.radius * SPREAD / SIGMA) / np.sqrt(1 + SPREAD**2))
                for side in (-1, 1)
            )
            some = own.certified | (population == "all")
            below |= row.joint_ece < certified_calibration_error(low[some], high[some], ~wrong[some]).value
            gained.append(row.claims["failures"] - row.joint_ece)
        broken += below
    return broken / sets, float(np.mean(gained))


def test_the_stated_value_holds_for_a_few_sets(rng):
    rate, gained = coverage(rng, 6, inputs=50, draws=300, delta=0.3, population="certified")
    assert rate <= 0.5
    assert gained > 0.003


@pytest.mark.slow
@pytest.mark.parametrize("population", ["certified", "all"])
def test_the_stated_value_holds_at_its_level(rng, population):
    """150 sets of 60 inputs, δ = 0.2, three radii together, whichever of the ways is least in each."""
    rate, gained = coverage(rng, 150, inputs=60, draws=600, delta=0.2, population=population)
    assert rate <= 0.2
    assert gained > 0.01


def test_the_table_of_the_page_follows_from_the_reference_pack():
    found = load_evidence(ROOT / "reference" / "evidence" / "digits-noise-s0.25.parquet")
    text = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8").split("| pooled, δ/3 | stated |")[1]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()[2:6]]
    radii = [float(line[0]) for line in lines]
    alone, best = (evaluate(found, radii=radii, alpha=0.001, claim=claim) for claim in ("failures", "best"))
    for line, before, row in zip(lines, alone, best, strict=True):
        values = before.joint_ece, *row.claims.values(), row.joint_ece
        told = [float(cell) for cell in line[1:5]] + [float(line[5].split(",")[0])]
        assert [100 * value for value in values] == pytest.approx(told, abs=0.011)
        assert line[5].endswith(row.claim)


@pytest.mark.slow
def test_the_command_line_states_the_best_bound(tmp_path):
    certcal("demo", "mine", cwd=tmp_path)
    out, _ = certcal("evaluate", "mine", "--claim", "best", "--json", cwd=tmp_path)
    metrics = json.loads(out)
    assert metrics["claim"] == "best"
    for name, row in zip(metrics["claims"], metrics["rows"], strict=True):
        if row["inputs"]:
            assert row["joint_ece"] == row[f"joint_ece_{name}"]
    assert "pooled" in metrics["claims"]
