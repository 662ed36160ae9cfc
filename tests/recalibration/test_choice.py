"""Choosing a map by itself: on the fitting inputs alone, the least certified error among the sharp ones."""

from dataclasses import replace

import numpy as np
import pytest

from certcal import InputError
from certcal.recalibration import CANDIDATES, Candidate, choose_map, held_out_evidence
from smoothing_oracles import random_evidence

FEW = (Candidate(None, "isotonic", 0.0), Candidate(None, "beta", 0.5), Candidate("brier", None, 0.5))
TERMS = {"alpha": 0.01}


@pytest.fixture
def evidence(rng):
    found = random_evidence(rng, inputs=300, draws=500)
    return replace(found, label=(rng.random(300) < 0.2 + 0.7 * found.confidence).astype(np.int64))


@pytest.mark.parametrize(
    "loss", [pytest.param(0.0, marks=pytest.mark.slow), 0.01, pytest.param(1.0, marks=pytest.mark.slow)]
)
def test_the_least_certified_error_among_those_that_stay_sharp(evidence, loss):
    choice = choose_map(evidence, radii=[0.0, 0.1], auroc_loss=loss, candidates=FEW, repeats=1, **TERMS)
    assert [one for one, _ in choice.tried] == list(FEW)
    for one, scores in choice.tried:
        held = held_out_evidence(
            evidence,
            lambda part, one=one: one.fit(part, radii=(0.0, 0.1), **TERMS),
            radii=[0.0, 0.1],
            terms=TERMS,
            repeats=1,
        )
        assert held.mean(0.1)[1] == scores
    sharp = [pair for pair in choice.tried if pair[1].auroc >= choice.untouched.auroc - loss]
    if sharp:
        assert choice.chosen == min(sharp, key=lambda pair: pair[1].certified_ece)[0]
    else:
        assert choice.chosen == max(choice.tried, key=lambda pair: pair[1].auroc)[0]
    again = choice.chosen.fit(evidence, radii=(0.0, 0.1), **TERMS)
    assert choice.map.parameters() == again.parameters()
    assert choice.map.about["chosen"]["clean_weight"] == choice.chosen.clean_weight


@pytest.mark.slow
def test_all_candidates_make_maps_that_certify(evidence):
    for one in CANDIDATES:
        own = one.fit(evidence, radii=(0.1,), **TERMS)
        bounds = own.certify(evidence, radii=0.1, **TERMS)[0]
        assert (bounds.lower <= bounds.upper).all()
        assert own.kind != "identity"


def test_bad_losses_are_refused(evidence):
    with pytest.raises(InputError, match="Expected `auroc_loss` to be a number ≥ 0"):
        choose_map(evidence, radii=0.1, auroc_loss=-1, candidates=FEW, **TERMS)
