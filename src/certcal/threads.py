"""How many threads torch may use on the CPU."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# Below this many numbers per operation a second thread gains nothing, and on a busy machine waiting for it costs
# ten times the work (30 000 numbers, two cores, one of them taken: 25 s against 2.7 s).
_WORTH_SHARING = 1 << 18


@contextmanager
def threads_worth(numbers: int, device: torch.device) -> Iterator[None]:
    """Within this context torch keeps small CPU work on one thread; afterwards its setting is as before."""
    before = torch.get_num_threads()
    if device.type == "cpu" and numbers < _WORTH_SHARING:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def fastest_threads(call: Callable[[], Tensor]) -> Iterator[None]:
    """Within this context torch uses one thread or all it had, whichever runs `call` faster here and now.

    A small model gains little from a second core, and loses a lot when another process is using it. Where the two give
    different bits, one thread is used on every machine.
    """
    before = torch.get_num_threads()
    try:
        if before > 1:
            torch.set_num_threads(before if _worth_all(call) else 1)
        yield
    finally:
        torch.set_num_threads(before)


def _worth_all(call: Callable[[], Tensor]) -> bool:
    """Whether torch's threads run `call` faster than one of them, and to the same bits."""
    call()  # in which libraries choose their algorithms
    together, seconds = _timed(call)
    torch.set_num_threads(1)
    alone, seconds_alone = _timed(call)
    return seconds < seconds_alone and torch.equal(together, alone)


def _timed(call: Callable[[], Tensor]) -> tuple[Tensor, float]:
    start = time.perf_counter()
    return call(), time.perf_counter() - start
