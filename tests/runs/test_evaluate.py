"""From a report made in Python to the settings that make it again."""

from certcal import evaluate
from certcal.runs.evaluate import settings_of
from smoothing_oracles import random_evidence


def test_settings_of_a_report_are_those_it_was_made_with(rng):
    asked = {"alpha": 0.01, "delta": 0.02, "method": "cdf", "split_alpha": False, "approximations": ("brier",)}
    asked |= {"runner_up": "bounded", "open_at": 0.1, "threshold": 0.7, "accept_accuracy": 0.9, "any_binning": True}
    report = evaluate(random_evidence(rng, inputs=60, draws=500), radii=[0.0, 0.1], n_bins=7, **asked)
    own = settings_of(report).evaluate
    assert (own.radii, own.n_bins, own.population) == ((0.0, 0.1), 7, "certified")
    assert {name: getattr(own, name) for name in asked} == asked
    assert settings_of(evaluate(report.evidence, radii=[0.1], alpha=0.01, edges=[0, 0.3, 1])) is None
    even = evaluate(report.evidence, radii=[0.1], alpha=0.01, edges=[0, 0.25, 0.5, 0.75, 1])
    assert settings_of(even).evaluate.n_bins == 4
