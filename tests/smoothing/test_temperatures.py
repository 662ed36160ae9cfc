"""Several temperatures from one set of draws: each gives the evidence of the model with its logits divided by it."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from certcal import InputError, confidence_bounds
from certcal.models import Tempered
from certcal.smoothing import load_evidence, save_evidence
from certcal.smoothing.evidence import ARRAYS, evidence_digest
from collecting import assert_same, collect
from smoothing_models import Counting, small_model

TEMPERATURES = (1.0, 0.5, 0.25)


@pytest.fixture(scope="module")
def evidence():
    return collect(temperatures=TEMPERATURES)


def assert_counts(found, wanted):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_each_is_the_evidence_of_the_model_at_that_temperature(evidence, temperature):
    alone = collect(Tempered(small_model(), temperature))
    own = evidence.at_temperature(temperature)
    assert own.temperature == temperature
    assert_counts(own, alone)
    found, wanted = (confidence_bounds(one, radius=0.1, alpha=0.01) for one in (own, alone))
    np.testing.assert_array_equal(found.lower, wanted.lower)
    np.testing.assert_array_equal(found.upper, wanted.upper)


def test_the_first_is_meant_where_none_is_named(evidence):
    assert evidence.temperature == 1.0
    assert_counts(evidence, collect())
    other = collect(temperatures=(0.25, 1))
    assert other.temperature == 0.25
    assert_counts(other, evidence.at_temperature(0.25))
    assert_counts(other.at_temperature(1.0), evidence)


@pytest.mark.usefixtures("no_rehearsal")
def test_the_model_runs_once(evidence):
    model = Counting(small_model(), at=np.inf, action=None)
    collect(model, temperatures=TEMPERATURES)
    assert model.calls == len(evidence) * 500 // 250


def test_they_are_stored_resumed_saved_and_selected(evidence, tmp_path):
    collect(n=250, temperatures=TEMPERATURES, store=tmp_path / "shards", plan=(500,))
    again = collect(temperatures=TEMPERATURES, store=tmp_path / "shards", plan=(500,))
    save_evidence(evidence, tmp_path / "one.parquet")
    for loaded in (again, load_evidence(tmp_path / "shards"), load_evidence(tmp_path / "one.parquet")):
        assert loaded.header.temperatures == TEMPERATURES
        assert loaded.header.schema == 3
        for t in TEMPERATURES:
            assert_counts(loaded.at_temperature(t), evidence.at_temperature(t))
    keep = np.array([2, 0])
    assert_counts(evidence.select(keep).at_temperature(0.5), evidence.at_temperature(0.5).select(keep))
    with pytest.raises(InputError, match=r"to have temperatures = \(1.0, 0.5\), but it has"):
        collect(temperatures=(1.0, 0.5), store=tmp_path / "shards", plan=(500,))


def test_evidence_at_one_temperature_is_written_as_before(tmp_path):
    """Earlier versions read it, and digests that were recorded still hold."""
    single = collect()
    save_evidence(single, tmp_path / "one.parquet")
    header = json.loads(pq.read_schema(tmp_path / "one.parquet").metadata[b"certcal.evidence"])
    assert "temperatures" not in header
    assert header["schema"] == 2
    assert_same(load_evidence(tmp_path / "one.parquet"), collect(temperatures=(1.0,)))


def test_the_digest_sees_every_temperature(evidence):
    last = evidence.tempered[-1]
    moved = last.histogram.copy()
    moved[0, 0] += 1
    changed = replace(evidence, tempered=(*evidence.tempered[:-1], replace(last, histogram=moved)))
    assert evidence_digest(changed) != evidence_digest(evidence)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperatures": (1.0, 1.0)}, "Expected `temperatures` to be at most 16 different numbers, but got 1.0, 1.0"),
        ({"temperatures": (0.0,)}, "Expected `temperatures` to be numbers > 0"),
        ({"temperatures": (0.5,), "outputs": "probabilities"}, "to be left out for a model that gives probabilities"),
    ],
)
def test_bad_ones_are_refused(options, message):
    model = torch.nn.Sequential(small_model(), torch.nn.Softmax(1)) if "outputs" in options else small_model()
    with pytest.raises(InputError, match=message):
        collect(model, **options)


def test_a_temperature_that_was_not_drawn_for_is_refused(evidence):
    with pytest.raises(InputError, match=r"to be one that scores were counted at, 1, 0.5, 0.25, but got 2"):
        evidence.at_temperature(2.0)
    with pytest.raises(InputError, match=r"to be one that scores were counted at, 1, but got 0.5"):
        collect().at_temperature(0.5)
