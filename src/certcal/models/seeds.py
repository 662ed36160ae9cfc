"""Seeds of training: a stream of random numbers is named by what it is for, never by what came before it.

So a resumed run needs no more than its seed, and neither batches nor workers nor their order change a number.
"""

import numpy as np
import torch


def place_seed(seed: int, purpose: int, *place: int) -> int:
    """A 63-bit seed for one place in training, such as the noise of an epoch, step and process."""
    (state,) = np.random.SeedSequence((seed, purpose, *place)).generate_state(1, np.uint64)
    return int(state) & (2**63 - 1)


def place_generator(seed: int, purpose: int, *place: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for one place in training, on a device."""
    return torch.Generator(device=device).manual_seed(place_seed(seed, purpose, *place))
