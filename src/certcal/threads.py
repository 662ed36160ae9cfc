"""How many threads torch may use on the CPU."""

from collections.abc import Iterator
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
