"""Certificates from votes against every way in which so many of them can change."""

import itertools

import numpy as np
import pytest

from certcal import InputError
from certcal.certificates import intervals_from_votes


def outcomes(votes, changed):
    """The counts after any `changed` voters or fewer have voted again, whatever they say."""
    voters = np.repeat(np.arange(len(votes)), votes)
    for movers in itertools.combinations(range(len(voters)), min(changed, len(voters))):
        for said in itertools.product(range(len(votes)), repeat=len(movers)):
            after = voters.copy()
            after[list(movers)] = said
            yield np.bincount(after, minlength=len(votes))


@pytest.mark.parametrize("changed", [0, 1, 2])
@pytest.mark.parametrize("votes", [(5, 1, 0), (3, 3, 0), (4, 2, 0), (2, 2, 2), (1, 4, 1), (0, 6, 0)])
def test_shares_are_those_of_all_changes(votes, changed):
    made = intervals_from_votes([votes], [1], changed=changed)
    own, total = int(np.argmax(votes)), sum(votes)
    seen = list(outcomes(votes, changed))
    shares = [counts[own] / total for counts in seen]
    assert made.lower[0] <= min(shares) <= made.lower[0] + 1e-15
    assert made.upper[0] - 1e-15 <= max(shares) <= made.upper[0]
    strictly = all(counts[own] > np.delete(counts, own).max() for counts in seen)
    assert made.certified[0] == strictly
    assert made.predicted[0] == own
    assert made.correct[0] == (own == 1)


def test_each_input_may_have_its_own_number_of_changes():
    made = intervals_from_votes([[6, 4], [6, 4]], [0, 0], changed=[0, 1], radius=2, norm="patch")
    assert made.certified.tolist() == [True, False]
    assert made.certified_radius.tolist()[0] == 2.0
    assert (made.alpha, made.level, made.norm) == (0.0, 0.0, "patch")


@pytest.mark.parametrize(
    ("votes", "changed", "told"),
    [
        ([[0, 0]], 1, "Expected `votes` to hold a vote for every input, but got none in row 0."),
        ([[1.5, 0]], 1, "Expected `votes` to be whole numbers ≥ 0, but got 1.5."),
        (
            [[2**60 + 129, 2**60 + 127]],
            1,
            "Expected `votes` to be fewer than 2^53 for an input, to be exact, but got 2.3",
        ),
        ([[1, 0]], 2**53, "Expected `changed` to be fewer than 2^53 for an input, to be exact"),
        ([[1, 0]], -1, "Expected `changed` to be whole numbers ≥ 0, but got -1.0."),
        ([[1, 0]], [1, 1], "Expected `changed` to be one number, or one for each of 1 inputs, but got shape (2,)."),
    ],
)
def test_wrong_votes_get_one_line(votes, changed, told):
    with pytest.raises(InputError) as caught:
        intervals_from_votes(votes, [0], changed=changed)
    assert str(caught.value).startswith(told)
