"""Noise that depends on nothing but (seed, input, draw) and what it is for: not on batches, workers or order.

Another noise is another class with the two methods of `Noise`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import torch
from torch import Tensor

from certcal.errors import InputError
from certcal.models.seeds import noise_seed


class Purpose(IntEnum):
    """What draws are for. Values are the numbers of their first streams, so far apart that none is used twice."""

    SELECTION = 0  # choosing the class to certify
    ESTIMATION = 1  # evidence
    ATTACK = 2**40  # what adversaries optimise on
    CHOICE = 2**41  # choosing between attacked inputs
    JUDGING = 2**42  # judging them


class Noise(Protocol):
    """What is added to inputs."""

    def fill(self, out: Tensor, *, index: int, purpose: Purpose, first_draw: int = 0) -> None:
        """Overwrite `out`, shape (draws, …), with the draws first_draw, first_draw + 1, … of one input."""
        ...

    def draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """`out`, overwritten with whatever the generator gives next: for training and deployment, which go on."""
        ...


@dataclass(frozen=True)
class GaussianNoise:
    """N(0, σ²) in every coordinate.

    The same draws are the same numbers on every machine with that kind of device and version of torch; CPU and GPU
    generators differ, which is why evidence records the kind of device.
    """

    sigma: float
    seed: int = 0
    chunk: int = 250  # draws that share a stream, where a purpose has more than one

    def fill(self, out: Tensor, *, index: int, purpose: Purpose, first_draw: int = 0) -> None:
        """Overwrite `out`, shape (draws, …), with the draws first_draw, first_draw + 1, … of one input.

        Draws come in whole chunks: `first_draw` begins one. Those of `SELECTION` and `ATTACK` are a single chunk.
        """
        if first_draw % self.chunk:
            raise InputError.expected("first_draw", f"begin a chunk of {self.chunk}", first_draw)
        together = len(out) if purpose in (Purpose.SELECTION, Purpose.ATTACK) else self.chunk
        for number, part in enumerate(torch.split(out, together)):
            stream = purpose + first_draw // self.chunk + number
            self.draw(part, torch.Generator(out.device).manual_seed(noise_seed(self.seed, index, stream)))

    def draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """`out`, overwritten with whatever the generator gives next."""
        return out.normal_(0.0, self.sigma, generator=generator)
