"""Gaussian noise rounded to a grid and addressed by (seed, stream, input, draw), whatever the batches and their order.

Philox4x64-10 (Salmon et al., 2011) turns a key and a counter into four 64-bit words; any word can be had without those
before it. The key is the seed, every bit of it. The counter is (block, input, stream, 0), where draw j of an input of
d elements has the blocks j·B + 1 to (j + 1)·B, with B = 2⌈d / 8⌉. No two draws share a counter, and Philox maps
counters to words one to one. `normals.py` makes a whole number of each pair of 32-bit words.

docs/noise.md proves why sums rounded in this way tell nothing of the input.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from certcal.errors import InputError
from certcal.models.grid import grid_step, to_grid
from certcal.models.normals import Knots, knots
from certcal.settings import checks

NOISE = "philox-2"  # what evidence records: these numbers, on this grid

GROUP = 2**18  # elements drawn at a time on a CPU, so that they stay near


class Purpose(IntEnum):
    """What draws are for: a stream each, so that none is used twice."""

    SELECTION = 0  # choosing the class to certify
    ESTIMATION = 1  # evidence
    ATTACK = 2  # what adversaries optimise on
    CHOICE = 3  # choosing between attacked inputs
    JUDGING = 4  # judging them
    DEPLOYMENT = 5  # predictions of a recalibrated model


class Run(NamedTuple):
    """Consecutive draws of one input."""

    slot: int  # which of the inputs at hand
    input: int  # its position in the data set, by which its noise is addressed
    first: int  # the first draw


@dataclass(frozen=True)
class Noise:
    """The noise of one seed and stream: multiples of `step`, of the law of N(0, σ²) rounded to them.

    The same address gives the same noise on every device. Elements are numbered as they lie in memory.
    """

    seed: int  # 0 to 2^64 − 1
    stream: int  # what the draws are for
    sigma: float

    def __post_init__(self) -> None:
        checks.sigma("sigma", self.sigma)  # whose law is only near a Gaussian from 32 steps on

    @property
    def step(self) -> float:
        """The step of the grid on which the noise lies, and inputs must lie."""
        return grid_step(self.sigma)

    def copies(self, inputs: Tensor, indices: Sequence[int], *, first: int = 0, draws: int) -> Tensor:
        """Noisy copies of inputs (n, …), which are rounded to the grid first: shape (n · draws, …), in their type.

        Raises: InputError if they are no floats, which could not hold the noise.
        """
        if not inputs.is_floating_point():
            raise InputError.expected("inputs", "be floats", f"dtype {inputs.dtype}")
        source = to_grid(inputs, self.step)
        out = source.new_empty(len(source) * draws, *source.shape[1:])
        self.add(source, out, [Run(slot, index, first) for slot, index in enumerate(indices)])
        return out.to(inputs.dtype)

    def add(self, inputs: Tensor, out: Tensor, runs: Sequence[Run] | Tensor) -> None:
        """Fill `out` with noisy copies of inputs, run after run, each of as many consecutive draws.

        Args:
            inputs: (n, …) float32 on the grid; copied if they lie in memory in another order than `out`.
            out: (rows, …), float32 or the model's own type, to which the exact sum is then rounded.
            runs: slots, indices and first draws; as a tensor, shape (3, runs), on the device of `out`.
        """
        if out.dim() == 4 and not out.is_contiguous():  # channels last: elements are numbered as they lie in memory
            inputs, out = (part.permute(0, 2, 3, 1) for part in (inputs, out))
        source = inputs.reshape(len(inputs), -1)
        table = runs if isinstance(runs, Tensor) else torch.tensor(runs).T.contiguous().to(out.device)
        if out.device.type == "cpu":
            self._add_on_cpu(source, out.view(table.shape[1], -1, source.shape[1]), table.tolist())
            return
        target, (slot, index, first) = out.view(len(out), -1), table
        if kernels := kernels_for(out.device):
            noise = (self._knots(out.device), self.step, self.seed, self.stream)
            kernels.launch_noisy_rows(target, source, slot, index, first, noise)
        else:
            self._add_anywhere(source, target, slot, index, first)

    def _knots(self, device: torch.device | None = None) -> Knots:
        return knots(self.sigma / self.step, device)

    def _add_on_cpu(self, source: Tensor, target: Tensor, runs: list[list[int]]) -> None:
        """Draw run by run, in groups that fit the cache. NumPy's Philox counts up by itself."""
        _, draws, elements = target.shape
        most, normals, step = max(1, GROUP // elements), self._knots(), self.step
        scratch = torch.empty(2, min(most, draws), elements, dtype=torch.int32)
        for out, slot, index, first in zip(target, *runs, strict=True):
            for start in range(0, draws, most):
                part = out[start : start + most]
                words = philox_words(self.seed, self.stream, index, first + start, len(part), elements)
                noise = part if part.dtype == torch.float32 else torch.empty(part.shape, dtype=torch.float32)
                normals.draw(words, noise, scratch[:, : len(part)])
                torch.add(source[slot], noise, alpha=step, out=noise)
                if noise is not part:
                    part.copy_(noise)

    def _add_anywhere(self, source: Tensor, target: Tensor, slot: Tensor, index: Tensor, first: Tensor) -> None:
        """Draw in plain torch, in groups that bound the memory it takes."""
        draws, elements = len(target) // len(slot), target.shape[1]
        most, normals = max(1, 2**26 // elements), self._knots(target.device)
        for start in range(0, len(target), most):
            rows = torch.arange(start, min(start + most, len(target)), device=target.device)
            run = rows // draws
            words = device_words(self.seed, self.stream, index[run], first[run] + rows % draws, elements)
            noise = source.new_empty(len(rows), elements)
            normals.draw(words, noise, words.new_empty(2, len(rows), elements))
            target[rows] = source[slot[run]].add_(noise, alpha=self.step).to(target.dtype)


class _Own(threading.local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.generator = np.random.Philox(0)


_OWN = _Own()


def philox_words(seed: int, stream: int, index: int, first: int, draws: int, elements: int) -> Tensor:
    """The 32-bit words of consecutive draws of one input, shape (draws, 2, h), h at least the elements."""
    blocks = blocks_per_draw(elements)
    # To set a generator's place is many times faster than to make one, which asks the system for entropy. It takes any
    # integers, and makes arrays of none.
    place: Any = {
        "bit_generator": "Philox", "state": {"counter": (first * blocks, index, stream, 0), "key": (seed, 0)},
        "buffer": (0, 0, 0, 0), "buffer_pos": 4, "has_uint32": 0, "uinteger": 0,  # no words kept
    }  # fmt: skip
    _OWN.generator.state = place
    raw = _OWN.generator.random_raw(draws * blocks * 4)
    return torch.from_numpy(raw.view(np.int32)).view(draws, 2, blocks * 4)


def blocks_per_draw(elements: int) -> int:
    """Philox blocks, of eight 32-bit words, that one draw uses: half for the choices, half for the places."""
    return 2 * -(-elements // 8)


def device_words(seed: int, stream: int, indices: Tensor, draws: Tensor, elements: int) -> Tensor:
    """The words of any rows, shape (rows, 2, h), in plain torch: slow, for GPUs without Triton."""
    blocks = blocks_per_draw(elements)
    c0 = draws[:, None] * blocks + torch.arange(1, blocks + 1, device=draws.device)
    c1, c2, c3 = indices[:, None].expand_as(c0), torch.full_like(c0, _signed(stream)), torch.zeros_like(c0)
    key = [seed, 0]
    for _ in range(10):
        (high_0, low_0), (high_1, low_1) = _multiply(c0, MULTIPLIERS[0]), _multiply(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high_1 ^ c1 ^ _signed(key[0]), low_1, high_0 ^ c3 ^ _signed(key[1]), low_0
        key = [(part + weyl) % 2**64 for part, weyl in zip(key, WEYL, strict=True)]
    return torch.stack((c0, c1, c2, c3), dim=2).view(torch.int32).view(len(draws), 2, blocks * 4)


MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
LOW = 0xFFFFFFFF


def _multiply(a: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """The high and low 64 bits of a product of unsigned 64-bit numbers held in int64."""
    a_low, a_high, by_low, by_high = a & LOW, (a >> 32) & LOW, by & LOW, by >> 32
    middle = a_high * by_low + ((a_low * by_low >> 32) & LOW)
    cross = a_low * by_high + (middle & LOW)
    return a_high * by_high + ((middle >> 32) & LOW) + ((cross >> 32) & LOW), a * _signed(by)


def _signed(word: int) -> int:
    """The same 64 bits, read as a signed number."""
    return word - 2**64 if word >= 2**63 else word


@cache
def kernels_for(device: torch.device) -> Any:
    """The kernels, if they can be compiled for a device; without, a GPU draws the same noise in plain torch, slowly."""
    usable = device.type == "cuda" and find_spec("triton") is not None
    return import_module("certcal.models.kernels") if usable else None
