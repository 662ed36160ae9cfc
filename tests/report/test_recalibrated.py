"""What the page says of a map that is kept: the confidences it leaves, and of how many inputs that is."""

import re

import numpy as np
import pytest

from certcal.recalibration import (
    FullMap,
    HeldOut,
    HeldOutRow,
    IdentityMap,
    IsotonicMap,
    ScoreMap,
    Scores,
    StepsMap,
    TemperedMap,
)
from certcal.report import lead
from certcal.report.recalibrated import _outward

STEPS = StepsMap([0.3, 0.8], [0.12, 0.55, 0.97], [0.12, 0.5501, 0.9712])


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (IsotonicMap([0.2, 0.6], [0.91037, 0.95]), "After the map all confidences lie in 0.910–0.950."),
        (ScoreMap(np.linspace(0.90991, 0.9991, 256)), "After the map all confidences lie in 0.909–1.000."),
        (STEPS, "After the map there are 3 confidences: 0.120, 0.550 and 0.971."),
        (FullMap(ScoreMap(np.linspace(0.5, 1, 256)), STEPS), "After the map there are 2 confidences: 0.550 and 0.971."),
        (TemperedMap(0.5, StepsMap([], [0.8], [0.8])), "After the map there is 1 confidence: 0.800."),
        (
            StepsMap([0.5], [0.55, 0.5503], [0.5502, 0.5505]),
            "After the map there are 2 confidences: 0.5501 and 0.5504.",
        ),
        (
            StepsMap([0.5], [0.1, 0.97], [0.9, 0.9712]),
            "After the map all confidences lie in 0.100–0.900 and 0.970–0.972.",
        ),
        (IsotonicMap([0.2, 0.6], [0.1, 0.9]), "After the map all confidences lie in 0.100–0.900."),
    ],
    ids=lambda own: getattr(own, "kind", ""),
)
def test_the_page_says_which_confidences_there_are_after_the_map(own, told):
    text = lead(HeldOut((own,), (np.arange(5),), (np.arange(5),), ()), (0.1,))
    assert text.endswith(f"Predictions are the same before and after. {told}")
    inside, outside = own.stages
    scores = np.linspace(0, 1, 1001)
    found = outside.transform(scores if inside is None else inside.transform(scores))
    named = [float(text) for text in re.findall(r"[01]\.\d{3}", told)]
    if "lie in" in told:
        ranges = list(zip(named[::2], named[1::2], strict=True))
        assert all(any(low <= value <= high for low, high in ranges) for value in found)
    else:
        assert {round(value, 2) for value in found} == {round(value, 2) for value in named}


def test_a_range_is_rounded_outward_but_for_the_last_bit():
    assert _outward(0.7 - 0.4, 0.1 + 0.2, 3) == "0.300–0.300"
    assert _outward(0.2999, 0.3001, 3) == "0.299–0.301"


def test_the_page_says_how_many_inputs_a_map_was_fitted_on_and_how_many_it_is_about():
    text = lead(HeldOut((STEPS,), (np.arange(7),), (np.arange(3),), ()), (0.1,))
    assert "on 7 inputs, and this page is about the 3 others" in text


def test_a_page_without_a_map_says_that_it_is_of_its_split():
    scores = Scores(0.2, 0.1, 0.1, 0.1, 0.1, auroc=0.9, refinement=0.1, levels=100)
    both, parts = (IdentityMap(), STEPS), (np.arange(5),) * 2
    held = HeldOut(both, parts, parts, tuple(HeldOutRow(split, 0.1, 10, 10, scores, scores) for split in range(2)))
    assert lead(held, (0.1,)) == "On the split of this page nothing could be learned, so confidences stay as they are."


def test_a_temperature_alone_has_no_range_to_tell():
    text = lead(HeldOut((TemperedMap(0.5, IdentityMap()),), (np.arange(5),), (np.arange(5),), ()), (0.1,))
    assert text.endswith("before and after.")
