"""Attacks on networks without noise: sound bounds hold, and wrong ones of uncertified inputs are refuted too."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from certcal.attacks import attack_bounds
from certcal.certificates import intervals_from_margins


def test_a_wrong_interval_of_an_uncertified_input_is_refuted():
    """The margins of a linear network within an ℓ∞ ball of radius R move by at most R times an ℓ1 norm."""
    torch.manual_seed(0)
    net, x, radius = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), 0.3 + 0.4 * torch.rand(30, 1, 2, 2), 0.2
    with torch.no_grad():
        logits, weight = net(x).double().numpy(), net[1].weight.double().numpy()
    own, rows = logits.argmax(axis=1), np.arange(30)
    reach = radius * np.abs(weight[own][:, None] - weight[None]).sum(axis=2)
    margins = logits[rows, own][:, None] - logits
    confidence = np.exp(logits)[rows, own] / np.exp(logits).sum(axis=1)
    told = {"labels": own, "predicted": own, "confidence": confidence, "radius": radius, "norm": "linf"}
    sound = intervals_from_margins(margins - reach, margins + reach, **told)
    assert 0 < sound.certified.sum() < 30
    assert attack_bounds(net, x, sound, steps=5).holds
    point = ~sound.certified & (rows == np.argmax(~sound.certified))
    low, high = (np.where(point, confidence, side) for side in (np.asarray(sound.lower), sound.upper))
    found = attack_bounds(net, x, replace(sound, lower=low, upper=high), steps=5)
    assert not found.holds
    assert [row.contradictions for row in found.rows] == [1, 1]
