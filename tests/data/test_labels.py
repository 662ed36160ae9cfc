"""Labels that can be read in two ways are refused: names beside numbers, and names that stand for two classes."""

import numpy as np
import pandas as pd
import pytest
import torch

from certcal.data import as_classes, from_arrays
from certcal.errors import InputError

INPUTS = np.zeros((4, 2, 2))


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", 3, "a"],
        ("a", 0.5, "b", "a"),
        ["a", "b", np.int64(3), "a"],
        ["a", "b", torch.tensor(3), "a"],
        ["a", "b", float("nan"), "a"],
        np.array(["a", "b", 3, "a"], dtype=object),
        pd.Series(["a", "b", 3, "a"]),
        pd.Series(["a", "b", 3, "a"], dtype="category"),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_names_beside_numbers_are_refused(labels: object) -> None:
    with pytest.raises(InputError, match=r"`labels` to have names or numbers, not both, but got '[ab]' and "):
        from_arrays(INPUTS, labels)


def test_what_is_of_one_kind_is_taken() -> None:
    for labels in (["a", np.str_("b")], [1, True, 0.0, np.uint8(1)], [torch.tensor(1), 0], pd.Series([1, 0])):
        as_classes(labels)
    assert as_classes(pd.Series([3, 5, 3], dtype="category"))[0].tolist() == [3, 5, 3]
    with pytest.raises(InputError, match="a class for every input"):
        as_classes(["a", None])


def test_a_name_that_stands_for_two_classes_is_refused_as_a_label() -> None:
    """ImageNet has two cranes: numbers tell them apart, and the other names do."""
    listed = ["crane", "bee", "crane", "cow"]
    with pytest.raises(InputError, match="`classes` to have the name of a label once, but got 'crane' 2 times"):
        from_arrays(INPUTS, ["bee", "crane", "crane", "bee"], classes=listed)
    assert from_arrays(INPUTS, ["bee", "cow", "cow", "bee"], classes=listed).labels.tolist() == [1, 3, 3, 1]
    assert from_arrays(INPUTS, [0, 2, 2, 1], classes=listed).labels.tolist() == [0, 2, 2, 1]
