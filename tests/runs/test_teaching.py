"""What is said where the inputs of a run teach no map: how many are missing, and what would help."""

from dataclasses import replace

import numpy as np
import pytest

from certcal.certificates import confidence_bounds_at
from certcal.errors import InputError
from certcal.recalibration import split_inputs
from certcal.runs.teaching import radii_that_teach
from certcal.settings import RecalibrateSettings
from smoothing_oracles import random_evidence

RADII = 0.1, 0.2


@pytest.fixture(scope="module")
def bounds():
    """All right, of 200 inputs at two radii."""
    evidence = random_evidence(np.random.default_rng(0), inputs=200, draws=3000)
    return confidence_bounds_at(replace(evidence, label=evidence.selected), radii=RADII, alpha=0.01)


def with_wrong(bounds, wrong):
    return [replace(one, correct=~np.isin(np.arange(len(one)), wrong)) for one in bounds]


def places(bounds, holdout):
    """Inputs certified at every radius: those that a map is fitted on where less is held out, and those never."""
    far = np.flatnonzero(np.all([one.certified for one in bounds], axis=0))
    half, more = (split_inputs(200, holdout=share)[0][0] for share in (0.5, holdout))
    return np.intersect1d(far, np.setdiff1d(more, half)), np.setdiff1d(far, more)


def refused(bounds, **asked):
    with pytest.raises(InputError) as told:
        radii_that_teach(bounds, RecalibrateSettings(repeats=1, **asked), n_bins=15)
    return str(told.value)


def test_too_few_in_the_whole_run_are_counted_and_no_smaller_holdout_is_advised(bounds):
    (_, held) = places(bounds, 0.2)
    for asked, needed in (({}, "1,200"), ({"holdout": 0.2}, "750"), ({"automatic": True}, "4,800")):
        text = refused(with_wrong(bounds, held[:1]), **asked)
        assert "At R = 0.1, 0 of " in text
        count = int(bounds[0].certified.sum())
        assert f"certified inputs to fit on are wrong, and 1 of {count} in the whole run." in text
        more = f"it takes more inputs, about {needed} at this rate (certcal certify RUN --limit N) or a smaller radius"
        assert f"Holding out fewer does not help: {more}" in text
        assert "--holdout" not in text
    text = refused(with_wrong(bounds, held[:1]), folds=4)
    assert "Holding out" not in text
    assert "It takes more inputs, about 800 at this rate (" in text
    assert "it takes more inputs or harder ones (" in refused(bounds)


def test_a_smaller_holdout_is_advised_where_it_leaves_enough_and_then_works(bounds):
    (late, _) = places(bounds, 0.2)
    made = with_wrong(bounds, late)
    text = refused(made)
    assert f"and {len(late)} of " in text
    share = float(text.split("Hold out fewer: --holdout ")[1].split()[0])
    assert radii_that_teach(made, RecalibrateSettings(repeats=1, holdout=share), n_bins=15)


def test_right_ones_are_counted_where_they_are_few_and_the_radius_is_that_asked_for(bounds):
    everyone = np.arange(200)
    text = refused(with_wrong(bounds, everyone), radii=RADII)
    assert "At R = 0.2, 0 of " in text
    assert "certified inputs to fit on are right, and 0 of " in text


def test_where_something_is_certified_without_an_attack_no_smaller_radius_is_advised(bounds):
    own = [replace(bounds[0], radius=0.0)]
    assert "smaller radius" not in refused(own)
