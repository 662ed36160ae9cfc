"""Every random number of training, from the seed and the place it is used in: a resumed run needs no more than that."""

import numpy as np
import torch
from numpy.typing import NDArray

SHUFFLE, AUGMENT, NOISE, MODEL = range(4)  # what a stream is for


def stream_seed(seed: int, purpose: int, *place: int) -> int:
    """A 64-bit seed of one stream, such as the noise of an epoch, step and process."""
    (state,) = np.random.SeedSequence((seed, purpose, *place)).generate_state(1, np.uint64)
    return int(state) & (2**63 - 1)


def generator(seed: int, purpose: int, *place: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of one stream, on a device."""
    return torch.Generator(device=device).manual_seed(stream_seed(seed, purpose, *place))


def shuffled(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order in which an epoch goes through n images."""
    # NumPy promises the raw stream of a bit generator for ever, unlike its or torch's shuffles.
    raw = np.random.PCG64(stream_seed(seed, SHUFFLE, epoch)).random_raw(n)
    return np.argsort(raw, kind="stable").astype(np.int64)
