"""What is said of maps that little taught."""

import pytest

from certcal.recalibration import IdentityMap, IsotonicMap, caution_about


def made(**about):
    return IsotonicMap([0.2, 0.5], [0.1, 0.8], about=about)


@pytest.mark.parametrize(("about", "told"), [
    ({"certified": [100], "wrong": [8]}, ""),
    ({"certified": [100, 50], "wrong": [8, 1]}, "The map was taught by only 1 wrong prediction among the certified"),
    ({"certified": [100], "wrong": [98]}, "The map was taught by only 2 right predictions among the certified inputs:"),
    ({"splits": 20, "splits_without_map": 11}, "The map would not be there in 11 of 20 splits"),
    ({"splits": 20, "splits_without_map": 10}, ""),
    ({}, ""),
], ids=str)  # fmt: skip
def test_a_map_that_little_taught_is_called_a_guess(about, told):
    said = caution_about(made(**about))
    assert said.startswith(told)
    assert bool(said) == bool(told) == said.endswith("take it for a guess.")
    assert caution_about(IdentityMap(about=about)) == ""
