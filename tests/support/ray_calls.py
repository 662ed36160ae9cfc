"""Functions that workers of tests run; light, as every worker has to import this."""

import os
import time
from pathlib import Path


def add(left, right):
    return left + right


def add_or_die(left, right):
    """Takes its process with it where there is nothing to add."""
    if right is None:
        os._exit(1)
    return left + right


def die(state):
    os._exit(1)


def wait_or_touch(own, others, seconds=15.0):
    """Leaves a file, or waits for those of others; whether they came."""
    Path(own).touch()
    deadline = time.monotonic() + seconds
    while not all(Path(one).exists() for one in others) and time.monotonic() < deadline:
        time.sleep(0.01)
    return all(Path(one).exists() for one in others)
