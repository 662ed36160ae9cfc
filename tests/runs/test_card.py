"""The section of a model card: from the command line, as the Hub reads it, with every number from metrics.json."""

import json
import math
import re

import numpy as np
import pytest
import yaml

from certcal import evaluate
from certcal.certificates import intervals_from_table
from certcal.report import model_card
from command import certcal

NETS = """
from torch import nn
def make(size, classes):
    import torch
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size * size, classes))
"""
UP, DOWN = {"guaranteed_ece", "guaranteed_brier"}, {"guaranteed_accuracy", "certified_share"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("desk"), np.random.default_rng(0)
    np.savez(place / "a|b_c.npz", inputs=rng.random((20, 1, 4, 4), dtype=np.float32), labels=np.arange(20) % 3)
    (place / "nets.py").write_text(NETS)
    words = ["--model", "nets:make", "--data", "a|b_c.npz", "--sigma", 0.25, "--n", 250, "--radii", "0,0.1,3"]
    certcal("certify", "mine", *words, "--radius", 0.1, "--no-figures", "--no-checks", cwd=place)
    return place


@pytest.fixture(scope="module")
def card(place):
    out, _ = certcal("report", "mine", "--card", "--no-figures", cwd=place)
    assert out.splitlines() == ["runs/mine/report.html", "runs/mine/card.md"]
    return (place / "runs/mine/card.md").read_text()


def metrics_of(place):
    return json.loads((place / "runs/mine/metrics.json").read_text())


def test_the_index_is_yaml_and_errs_to_the_cautious_side(place, card):
    ((entry,), found) = yaml.safe_load(card.split("---\n")[1])["model-index"], metrics_of(place)
    assert entry["name"] == "nets:make"
    ((result,), row) = entry["results"], found["rows"][1]
    assert result["task"] == {"type": "image-classification"}
    assert result["dataset"]["name"] == "a|b_c"
    metrics = {one["type"]: one for one in result["metrics"]}
    assert metrics.keys() >= UP | DOWN | {"accuracy", "ece", "brier"}
    for name, one in metrics.items():
        true = row[name.replace("guaranteed", "joint")]
        assert one["value"] == pytest.approx(true, abs=1.01e-4)
        assert not (name in UP and one["value"] < true)
        assert not (name in DOWN and one["value"] > true)
        assert one["args"] | {"radius": 0.1, "norm": "l2", "alpha_per_input": 0.001, "delta": 0.001} == one["args"]
    assert metrics["guaranteed_ece"]["name"] == (
        f"guaranteed ECE of the smoothed model on {row['inputs']} of 20 inputs, those certified at R = 0.1, "
        "under any ℓ2 perturbation of each input by up to 0.1, with probability at least 99.9 %"
    )
    assert metrics["accuracy"]["name"] == "accuracy of the smoothed model on all inputs"


def test_the_section_says_what_is_guaranteed_and_what_is_not(place, card):
    found, body = metrics_of(place), card.split("---\n")[2]
    assert found["guarantee"] in body
    assert found["explanation"] in body
    assert body.count("\n- ") >= len(found["caveats"])
    assert "a\\|b\\_c" in body
    assert "The network without noise has no certificate." in body
    told = set(re.findall(r"\d+\.\d+(?= %)", body))
    known = {
        f"{side(100 * value * 100) / 100:.2f}"
        for row in found["rows"]
        for value in row.values()
        if value is not None
        for side in (math.floor, math.ceil, round)
    }
    assert told <= known | {"99.9"}, told - known


def test_doubts_of_the_run_come_before_its_guarantee(place):
    """Whoever reads only the card has to know of labels in another order, or of a model that guesses."""
    line = ["--model", "nets:make", "--data", "a|b_c.npz", "--sigma", 0.25, "--n", 250, "--radii", "0,0.1"]
    certcal("certify", "doubted", *line, "--no-figures", cwd=place)
    certcal("report", "doubted", "--card", "--no-figures", cwd=place)
    body = (place / "runs/doubted/card.md").read_text().split("---\n")[2]
    told = body.split("### Before you trust this\n\n")[1].split("\n\n### What is guaranteed\n")[0].splitlines()
    found = json.loads((place / "runs/doubted/metrics.json").read_text())
    assert found["checks"]["warnings"]
    assert [one.removeprefix("- ") for one in told] == found["checks"]["warnings"]
    assert body.index("which are of several classes") < body.index(found["guarantee"])


def test_no_doubts_leave_no_heading(card):
    assert "Before you trust this" not in card


def test_the_hub_reads_the_card(card):
    hub = pytest.importorskip("huggingface_hub")
    read = hub.ModelCard(card)
    results = read.data.eval_results
    assert {one.metric_type for one in results} >= {"ece", "guaranteed_ece"}
    assert all(one.dataset_name == "a|b_c" and one.task_type == "image-classification" for one in results)
    assert all(one.metric_args["radius"] == 0.1 for one in results)
    again = hub.ModelCardData(model_name=read.data.model_name, eval_results=results)
    assert yaml.safe_load(again.to_yaml())["model-index"] == yaml.safe_load(card.split("---\n")[1])["model-index"]


def test_a_card_of_another_evaluation_does_not_stay(place, card):
    certcal("evaluate", "mine", "--radii", "0,0.1,0.2", "--no-figures", cwd=place)
    assert not (place / "runs/mine/card.md").exists()
    certcal("evaluate", "mine", "--radii", "0,0.1,3", "--no-figures", cwd=place)


def test_proven_bounds_speak_of_no_chance_and_nothing_certified_of_no_error(proven):
    card = model_card(evaluate(proven), model="a", data="b")
    assert "probability at least" not in card.split("### What")[0]
    assert yaml.safe_load(card.split("---\n")[1])["model-index"][0]["results"][0]["metrics"][0]["args"]["delta"] == 0


@pytest.fixture
def proven():
    table = {"label": [0, 1], "predicted": [0, 0], "lower": [0.6, 0.2], "upper": [0.9, 0.7], "certified": [1, 0]}
    return intervals_from_table(table | {"confidence": [0.7, 0.5]}, radius=1, alpha=0)
