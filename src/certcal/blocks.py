"""Long vectors are gone through in blocks whose temporaries stay in the processor's cache, on several cores."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

BLOCK = 1 << 15
WORTH_A_CORE = 4  # blocks: below that a thread takes longer to start than it saves
MOST_CORES = 8  # more would wait for memory

Result = TypeVar("Result")


def over_blocks(length: int, work: Callable[[slice], Result], *, step: int = BLOCK) -> Iterator[Result]:
    """What `work` gives for each slice of so many numbers, in order: the cores that share them do not show.

    NumPy lets other threads run while it computes.
    """
    slices = [slice(start, start + step) for start in range(0, length, step)]
    cores = min(_cores(), len(slices) // WORTH_A_CORE, MOST_CORES)
    if cores < 2:
        return map(work, slices)
    each = -(-len(slices) // cores)
    shares = [slices[first : first + each] for first in range(0, len(slices), each)]
    with ThreadPoolExecutor(len(shares) - 1) as pool:
        others = [pool.submit(lambda share: list(map(work, share)), share) for share in shares[1:]]
        own = list(map(work, shares[0]))  # here meanwhile: a thread takes longer to start than a block to do
        return chain(own, *(other.result() for other in others))


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
