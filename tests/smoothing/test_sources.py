"""The order in which inputs are drawn: whatever is drawn first is spread over all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
