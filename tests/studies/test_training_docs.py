"""The recorded study of training: the tables in the docs are the record, and the record has what is claimed of it."""

import json

import pytest
from experiments.training import RESULTS, markdown, summary

from places import ROOT

DOCS = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
STUDIES = ("digits", "fashion-mnist")


def record(name):
    return json.loads((RESULTS / f"training-{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_in_the_docs_are_the_record(name):
    body = record(name)
    assert markdown(body) in DOCS
    for certificate, table in body["tables"].items():
        assert summary(body["models"], certificate) == table


@pytest.mark.parametrize("name", STUDIES)
def test_adversarial_training_certifies_more_in_every_seed(name):
    models = record(name)["models"]
    share = {(row["method"], row["seed"]): row["cdf"]["certified_accuracy"] for row in models if not row["settings"]}
    assert all(share["AT", seed] > share["noise", seed] + 0.05 for seed in range(5))


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("certificate", ["cdf", "cdf-cp"])
def test_training_on_the_certificate_moves_more_than_any_adversary(name, certificate):
    change = {row["method"]: row["d_cce"][0] for row in record(name)["tables"][certificate]}
    adversaries = ("AT, on", "Brier-ACT", "ACCE-ACT", "ACCE-ACT*", "CCE-ACT")
    assert change["certified Brier"] < min(change[method] for method in adversaries) - 0.01
    assert change["AT, logits × 4"] < change["AT, logits × 2"] < 0


def test_five_seeds_on_digits():
    """Of a method none of whose settings keeps the certified accuracy, a seed may be missing."""
    body = record("digits")
    assert {row["seed"] for row in body["models"] if row["method"] == "ACCE-ACT"} == set(range(5))
    assert all(row["seeds"] >= 4 for table in body["tables"].values() for row in table)
