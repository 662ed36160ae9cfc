"""Functions that workers of tests run; light, as every worker has to import this."""

import os


def add(left, right):
    return left + right


def add_or_die(left, right):
    """Takes its process with it where there is nothing to add."""
    if right is None:
        os._exit(1)
    return left + right
