"""Long vectors are gone through in blocks whose temporaries stay in the processor's cache."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

BLOCK = 1 << 15
WORTH_A_CORE = 4  # blocks: below that a thread takes longer to start than it saves
MOST_CORES = 8  # more would wait for memory

_LOAD = Path("/proc/loadavg")

Result = TypeVar("Result")


def over_blocks(length: int, work: Callable[[slice], Result], *, step: int = BLOCK) -> Iterator[Result]:
    """What `work` gives for each slice of so many numbers, in order, on one core.

    Sums and bins of a block are so short that a second thread waits for the interpreter's lock: on two idle cores two
    threads took 1.1 to 1.6 times as long as one, for 10⁶ and for 10⁷ numbers.
    """
    return map(work, slices(length, step))


def slices(length: int, step: int) -> Iterator[slice]:
    """So many things in parts of `step`, in order; the last part may have fewer."""
    return (slice(start, start + step) for start in range(0, length, step))


def shared_blocks(length: int, work: Callable[[slice], Result], *, step: int) -> Iterator[Result]:
    """The same for work that takes long, on several cores, which do not show.

    NumPy lets other threads run while it computes. Each takes the next slice that none has taken, so that a core which
    another process is using does not keep the others waiting.
    """
    parts = list(slices(length, step))
    most = min(len(parts) // WORTH_A_CORE, MOST_CORES)
    cores = min(_cores(), most) if most > 1 else 1
    if cores == 1:
        return map(work, parts)
    with ThreadPoolExecutor(cores) as pool:
        return iter(list(pool.map(work, parts)))


def _cores() -> int:
    """How many cores this process may use that no other is using now; this thread has one in any case.

    On a core that is shared a second thread keeps the first waiting: two cores, both taken, took twice as long as one.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        running = int(_LOAD.read_text().split()[3].split("/")[0])  # threads on all cores, this one among them
    except OSError:  # not on Linux
        return usable
    return max(1, min(usable, (os.cpu_count() or 1) - running + 1))
