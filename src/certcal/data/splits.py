"""A validation part set aside from a training set, the same for the same seed everywhere."""

import numpy as np
import torch

from certcal.data.images import ImageData
from certcal.errors import InputError
from certcal.inputs import check_integer, check_number


def split_data(data: ImageData, *, fraction: float = 0.1, seed: int = 0) -> tuple[ImageData, ImageData]:
    """The training part and the validation part, which holds the given fraction of the images, chosen at random.

    Both keep the order of `data`. The choice depends on the seed and the number of images alone.
    """
    check_number("fraction", fraction, "lie in the open interval (0, 1)", lambda part: 0.0 < part < 1.0)
    check_integer("seed", seed, minimum=0)
    n, held_out = len(data), round(fraction * len(data))
    if not 0 < held_out < n:
        raise InputError.expected("fraction", f"leave images on both sides of a split of {n}", fraction)
    # NumPy promises the raw stream of a bit generator for ever, unlike its or torch's shuffles.
    order = np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")
    train, validation = np.sort(order[held_out:]), np.sort(order[:held_out])
    return data.select(torch.from_numpy(train)), data.select(torch.from_numpy(validation))
