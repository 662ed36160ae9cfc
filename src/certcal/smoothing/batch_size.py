"""How many rows a forward pass on a GPU should have: found by trying ever more until they gain little or do not fit."""

from collections.abc import Callable

FIRST_NUMBERS = 2**20  # of the first trial: the inputs of a pass, 4 MB
MOST_ROWS = 2**17
FACTOR = 4  # from trial to trial: each makes the library choose its convolutions anew, which takes longest
GAIN = 1.1  # what makes another trial worth while


def fastest_batch(seconds: Callable[[int], float | None], unit: int, elements: int) -> tuple[int, float]:
    """The rows of which most go through in a second, whole units, and how many do.

    Args:
        seconds: how long so many rows take; None if they do not fit.
        elements: numbers of one row.
    """
    rows = max(1, FIRST_NUMBERS // elements // unit) * unit
    best, rate = unit, 0.0
    while rows <= MOST_ROWS or rate == 0.0:
        took = seconds(rows)
        if took is None and rate == 0.0 and rows > unit:  # not even the first fits
            rows = max(1, rows // FACTOR // unit) * unit
            continue
        if took is None or rows / took <= rate:
            break
        last, best, rate = rate, rows, rows / took
        if rate < GAIN * last:
            break
        rows *= FACTOR
    return best, rate
