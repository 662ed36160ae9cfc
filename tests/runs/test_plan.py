"""What a plan foresees of runs, and which of them it advises."""

import json
import math

import numpy as np
import pytest

from certcal.runs.look import Look
from certcal.runs.plan import Foreseen, _best, _foreseen
from certcal.settings import load_settings
from command import certcal
from smoothing_oracles import random_evidence
from squares import squares_in


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return squares_in(tmp_path_factory.mktemp("plan"))


def test_of_plans_the_one_that_certifies_most_is_best_where_few_are_certified():
    def foreseen(share, seconds):
        return Foreseen(0.25, 1000, seconds, 0.5, share, 0.3, 0.4 if share else math.nan)

    none, few, some = foreseen(0.0, 1), foreseen(0.1, 100), foreseen(0.3, 200)
    assert _best([none, few, some], None)[0] is some
    assert _best([none, few, some], 2)[0] is few
    assert _best([none, few, some], 0.1) == (few, "the shortest that certifies anything, but longer than asked")
    assert _best([none], 2)[0] is None


def test_of_plans_that_take_as_long_the_one_with_the_least_error_is_best():
    worse, better = (Foreseen(sigma, 1000, 300, 0.25, 0.8, 0.3, error) for sigma, error in ((0.125, 0.5), (0.25, 0.3)))
    assert _best([worse, better], 2)[0] is better


def test_draws_that_the_minutes_allow_leave_time_for_the_selection_draws():
    """7,050 draws of each input in half a minute are not 7,000 and 100 that select its class."""
    given = {"model": {"name": "small-cnn"}, "data": {"name": "digits"}, "certify": {"sigma": 0.25}}
    evidence = random_evidence(np.random.default_rng(0), inputs=48, draws=1000)
    found = _foreseen(evidence, 200, load_settings(None, given), speed=7_050 * 200 / 30, minutes=0.5, draws=None)
    assert [one.n for one in found] == [1_000, 6_000, 10_000, 100_000]
    assert found[1].seconds <= 30 < found[2].seconds
    assert _best(found, 0.5)[0] is found[1]


def test_a_plan_for_a_radius_tries_several_noises(desk):
    out, error = certcal("plan", "--model", "nets:make", "--data", "squares.npz", "--radius", "0.2", cwd=desk)
    assert out.splitlines()[0].rstrip() == "Foreseen at R = 0.2 for 40 inputs (estimates of a short run)"
    assert "Take: --sigma 0." in out
    assert error.count("trying σ = 0.") == 3
    assert not (desk / "runs" / "plan").exists()


def test_a_plan_foresees_draws_for_minutes(desk, monkeypatch):
    words = ("--model", "nets:make", "--data", "squares.npz")
    scan = Look.scan

    def slowed(look, sigma):  # by other programs: the time foreseen is that of the short run, not of the checks
        found, look.speed = scan(look, sigma), 1.0
        return found

    monkeypatch.setattr(Look, "scan", slowed)
    out, _ = certcal("plan", *words, "--sigma", "0.1", "--minutes", 1000, "--json", cwd=desk)
    found = json.loads(out)
    errors = [one["guaranteed_ece"] for one in found["options"]]
    assert [one["n"] for one in found["options"]][:3] == [1000, 10_000, 100_000]
    assert errors == sorted(errors, reverse=True)  # more draws, less error
    assert found["best"]["n"] == found["options"][-1]["n"] > 100_000
    assert found["options"][-1]["seconds"] <= 60_000
    assert found["checks"]["draws_per_second"] == 1.0
    assert found["options"][0]["seconds"] < 40 * 1000 / 10
    words = (*words, "--sigma", "0.1", "--n", 1000, "--radii", "0.05", "--json", "--no-figures")
    out, _ = certcal("certify", "planned", *words, cwd=desk)
    real = json.loads(out)["rows"][0]["joint_ece"]
    assert errors[0] == pytest.approx(real, abs=0.03)


def test_a_plan_that_would_certify_nothing_says_so_and_advises_none(desk):
    words = ("plan", "--model", "nets:make", "--data", "squares.npz", "--sigma", "0.1", "--n", 1000, "--radius", 9)
    out, _ = certcal(*words, cwd=desk)
    assert "Take:" not in out
    assert "Nothing would be certified at R = 9: ask for a smaller --radius" in " ".join(out.split())


def test_a_plan_takes_the_draws_that_are_asked_for(desk):
    words = ("plan", "--model", "nets:make", "--data", "squares.npz", "--sigma", "0.1", "--n", 3000)
    found = json.loads(certcal(*words, "--json", cwd=desk)[0])
    assert ([one["n"] for one in found["options"]], found["why"]) == ([3000], "the draws asked for")
