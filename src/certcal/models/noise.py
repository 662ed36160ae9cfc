"""Gaussian noise that depends on nothing but (seed, input, chunk): not on batches, workers or order."""

import hashlib
import struct

import torch
from torch import Tensor

SELECTION = 0  # the stream of the selection draws; estimation chunk k has stream k + 1


def stream_seed(seed: int, index: int, stream: int) -> int:
    """A 63-bit seed for one stream of one input. Hashing keeps neighbouring streams unrelated."""
    digest = hashlib.blake2b(struct.pack("<QQQ", seed, index, stream), digest_size=8, person=b"certcal-noise").digest()
    return int.from_bytes(digest, "little") >> 1


class NoiseSource:
    """Fills tensors with the noise of named streams, on one device.

    The same stream gives the same numbers on every machine with that kind of device and version of torch; CPU and GPU
    generators differ, which is why evidence records the kind of device.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._seed = seed
        self._generator = torch.Generator(device)

    def fill(self, out: Tensor, *, sigma: float, index: int, stream: int) -> None:
        """Overwrite `out`, shape (draws, …), with N(0, σ²) from the stream of one input."""
        self._generator.manual_seed(stream_seed(self._seed, index, stream))
        out.normal_(0.0, sigma, generator=self._generator)
