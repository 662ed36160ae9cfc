"""How many rows a forward pass on a GPU should have: found by doubling until more rows gain nothing, or do not fit."""

import time
from collections.abc import Callable

MOST_ROWS = 2**17
GAIN = 1.03  # what counts as faster
SEARCH_SECONDS = 5.0


def fastest_batch(seconds: Callable[[int], float | None], unit: int) -> int:
    """The rows, a unit doubled as often as it pays, of which most go through in a second.

    Args:
        seconds: how long so many rows take; None if they do not fit.
    """
    best, rate, idle, rows, begun = unit, 0.0, 0, unit, time.monotonic()
    # A single size may be slow by accident, so two in a row must gain nothing.
    while idle < 2 and rows <= MOST_ROWS and time.monotonic() - begun < SEARCH_SECONDS:
        took = seconds(rows)
        if took is None:
            break
        idle += 1
        if rows / took > GAIN * rate:
            best, rate, idle = rows, rows / took, 0
        rows *= 2
    return best
