"""Ordinary mistakes in Python: warned of or refused, as on the command line."""

import numpy as np
import pytest

from certcal import InputError, certified_calibration_error, confidence_bounds
from smoothing_oracles import random_evidence


def test_python_is_warned_of_outputs_of_another_kind_and_of_other_draws():
    import torch
    from torch import nn

    from certcal import collect_evidence
    from certcal.errors import CertcalWarning

    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.Softmax(dim=1))
    data = torch.rand(4, 1, 4, 4), [0, 1, 2, 0]
    with pytest.warns(CertcalWarning, match="the model ends in a softmax"):
        collect_evidence(net, data, sigma=0.1, n=250)
    with pytest.warns(CertcalWarning, match="n = 200 becomes 250"):
        collect_evidence(net, data, sigma=0.1, n=200, outputs="probabilities")
    collect_evidence(net, data, sigma=0.1, n=200, chunk=100, outputs="probabilities")  # and says nothing


def test_bounds_of_inputs_that_are_not_certified_are_refused_as_arrays(rng):
    """The row of the table that is about Python: the arrays of certificates, without [certified]."""
    own = confidence_bounds(random_evidence(rng, inputs=60, draws=1000), radius=0.2, alpha=0.01)
    kept = own.certified
    assert not kept.all()
    certified_calibration_error(own.lower[kept], own.upper[kept], own.correct[kept])
    certified_calibration_error(own, population="all")
    certified_calibration_error(own.lower, own.upper, own.correct, uncertified=3)
    certified_calibration_error(np.array(own.lower), own.upper, own.correct)  # a copy is anybody's
    with pytest.raises(InputError, match="Expected `lower` to be of certified inputs only"):
        certified_calibration_error(own.lower, own.upper, own.correct)
