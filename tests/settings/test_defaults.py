"""The same defaults at every door: records, and the functions that take the same settings."""

import inspect
from dataclasses import MISSING

import pytest

from certcal import collect_evidence, confidence_bounds, evaluate
from certcal.attacks import attack_certificates, run_ace_attacks
from certcal.certificates import StopWhenDecided, confidence_bounds_at
from certcal.data import load_dataset
from certcal.recalibration import held_out_scores, recalibrate, recalibrate_bounds, split_inputs
from certcal.settings import (
    CLEAN_WEIGHT,
    AttackSettings,
    CertifySettings,
    DataSettings,
    EvaluateSettings,
    RecalibrateSettings,
    ValidationSettings,
    declared,
)

DOORS = {
    CertifySettings: [collect_evidence],
    EvaluateSettings: [evaluate, confidence_bounds, confidence_bounds_at, attack_certificates, run_ace_attacks],
    RecalibrateSettings: [held_out_scores, split_inputs, recalibrate_bounds],
    AttackSettings: [attack_certificates, run_ace_attacks],
    DataSettings: [load_dataset],
}
EMPTY = inspect.Parameter.empty
# What a door asks of its own: the record's None stands for what another setting says.
ASKED = {"radii", "epsilons", "limit", "device"}
INSTEAD = {(RecalibrateSettings, "method"), (EvaluateSettings, "alpha")}  # bounds from elsewhere have their own
PAIRS = [(record, door) for record, doors in DOORS.items() for door in doors]


@pytest.mark.parametrize(("record", "door"), PAIRS, ids=lambda one: one.__name__)
def test_defaults_agree(record, door):
    parameters = inspect.signature(door).parameters
    both = {
        one.name: (parameters[one.name].default, one.default)
        for one in declared(record)
        if one.name in parameters.keys() - ASKED
        and one.default is not MISSING
        and parameters[one.name].default is not EMPTY
        and (record, one.name) not in INSTEAD
    }
    assert both, "nothing in common: is the door listed with the right record?"
    assert {name: theirs for name, (theirs, _) in both.items()} == {name: ours for name, (_, ours) in both.items()}


def test_records_agree_among_each_other():
    alpha = {record.__name__: record().alpha for record in (EvaluateSettings, ValidationSettings)}
    assert set(alpha.values()) == {0.001}
    assert EvaluateSettings().method == ValidationSettings().method
    assert EvaluateSettings().n_bins == ValidationSettings().n_bins
    assert CertifySettings(sigma=1.0).n0 == ValidationSettings().n0
    rule = inspect.signature(StopWhenDecided).parameters
    assert rule["method"].default == EvaluateSettings().method
    assert rule["split_alpha"].default == EvaluateSettings().split_alpha
    assert rule["runner_up"].default == EvaluateSettings().runner_up


def test_the_clean_weight_is_the_usual_one_where_clean_confidences_are_given():
    lower, upper, correct = [0.1, 0.5, 0.6] * 10, [0.5, 0.9, 1.0] * 10, [0, 1, 1] * 10
    assert recalibrate(lower, upper, correct).about["clean_weight"] == 0
    assert recalibrate(lower, upper, correct, confidence=lower).about["clean_weight"] == CLEAN_WEIGHT
    assert CLEAN_WEIGHT == RecalibrateSettings().weight == 0.5
    assert recalibrate(lower, upper, correct, confidence=lower, method="steps").about["clean_weight"] == 0.9
    assert RecalibrateSettings(method="steps").weight == 0.9
