"""How many threads torch may use on the CPU."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

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
def fastest_threads(call: Callable[[], object]) -> Iterator[None]:
    """Within this context torch uses one thread or all it had, whichever runs `call` faster here and now.

    A small model gains little from a second core, and loses a lot when another process is using it.
    """
    before = torch.get_num_threads()
    seconds = {}
    call()
    try:
        for threads in {1, before}:
            torch.set_num_threads(threads)
            seconds[threads] = min(_timed(call) for _ in range(2))
        torch.set_num_threads(min(seconds, key=lambda threads: seconds[threads]))
        yield
    finally:
        torch.set_num_threads(before)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
