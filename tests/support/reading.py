"""Data that was read: what it holds, and how reading is refused."""

import numpy as np
import pytest
import torch

from certcal import InputError
from certcal.data import ImageData, load_dataset


def refusal(*args: object, **options: object) -> str:
    """The one line with which `load_dataset` refuses."""
    with pytest.raises(InputError) as caught:
        load_dataset(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def labels_of(n: int, classes: int = 10) -> np.ndarray:
    return (np.arange(n) * 7 % classes).astype(np.uint8)


def check(data: ImageData, images: np.ndarray, labels: np.ndarray) -> None:
    """The data holds exactly these images, as bytes and in [0, 1], all at once and one by one."""
    assert torch.equal(data.pixels, torch.from_numpy(images))
    inputs, targets = data.tensors()
    assert inputs.dtype == torch.float32
    assert targets.dtype == torch.int64
    np.testing.assert_array_equal(inputs.numpy(), images.astype(np.float32) / np.float32(255))
    assert targets.tolist() == labels.tolist()
    one, label = data[len(data) - 1]
    assert torch.equal(one, inputs[-1])
    assert label == labels[-1]
