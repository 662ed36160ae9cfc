"""The order in which inputs are drawn: whatever is drawn first is spread over all of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from certcal.data import from_arrays
from certcal.errors import InputError
from certcal.smoothing.sources import Source, _spread


@given(st.integers(1, 3000), st.data())
def test_the_first_inputs_are_evenly_spread(count, data):
    order = _spread(count)
    assert sorted(order) == list(range(count))
    first = data.draw(st.integers(1, count))
    gaps = np.diff(np.sort([-1, *order[:first], count]))
    assert gaps.max() <= 3 * count / first + 2  # of any two neighbours, by the three-distance theorem


def test_every_input_comes_once_with_its_own_number_and_label():
    inputs, labels = np.linspace(0, 1, 50)[:, None], np.arange(50)
    source = Source((inputs, labels, labels + 100))
    found = list(source.items({103, 149}))
    assert [item.index for item in found][:3] != [100, 101, 102]
    assert sorted(item.index for item in found) == [n for n in range(100, 150) if n not in (103, 149)]
    assert all(item.label == item.index - 100 for item in found)
    assert all(np.float32(inputs[item.label, 0]) == item.input[0] for item in found)


class Own(Dataset):
    """As people write them: `features` are whatever they call so."""

    def __init__(self, features: object) -> None:
        self.features = features

    def __len__(self) -> int:
        return 3

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(1, 2, 2), at


@pytest.mark.parametrize(
    "features",
    [torch.ones(3, 2), np.ones((3, 2)), ["a", "label"], "label", 2, {"label": torch.ones(3)}],
    ids=lambda features: type(features).__name__,
)
def test_what_a_data_set_calls_features_need_not_be_hugging_faces(features):
    for data in (Own(features), DataLoader(Own(features), batch_size=2)):
        Source(data).check_names(3, ("ant", "bee", "cow"))


def test_folders_that_a_data_set_numbered_itself_are_held_against_the_model():
    """As torchvision's ImageFolder does, in the order of their names."""
    data = Own(None)
    data.class_to_idx = {"ant": 0, "bee": 1, "cow": 2}
    whole = ConcatDataset([Subset(data, [0, 1]), data])
    for one in (data, Subset(data, [0, 1]), DataLoader(Subset(data, [0, 1])), whole, DataLoader(whole)):
        Source(one).check_names(3, ())
        Source(one).check_names(3, ("ant", "bee", "cow"))
        with pytest.raises(InputError, match="name each of the model's 10 classes"):
            Source(one).check_names(10, ())
        with pytest.raises(InputError, match="'ant' as 1"):
            Source(one).check_names(3, ("cow", "ant", "bee"))
    data.target_transform = int  # which numbers them anew
    Source(data).check_names(10, ())


def test_a_sum_of_folders_that_number_a_class_differently_is_refused():
    """Each keeps its own numbers, so one of them is wrong; a part that has fewer classes may agree."""
    first, more, other = Own(None), Own(None), Own(None)
    first.class_to_idx, more.class_to_idx = {"ant": 0, "bee": 1}, {"ant": 0, "bee": 1, "cow": 2}
    other.class_to_idx = {"bee": 0, "cow": 1}
    with pytest.raises(InputError, match="number a class alike in all its parts, but got 'bee' as 1 and as 0"):
        Source(ConcatDataset([first, Own(None), other])).check_names(2, ())
    Source(more + first).check_names(3, ())


def test_names_of_data_of_ours_are_checked_behind_a_loader():
    data = from_arrays(torch.rand(3, 1, 4, 4), ["bee", "cow", "eel"])
    for one in (data, Subset(data, [0, 1]), DataLoader(data)):
        with pytest.raises(InputError, match="name each of the model's 5 classes"):
            Source(one).check_names(5, ())
