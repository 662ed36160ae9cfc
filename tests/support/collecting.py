"""Small evidence, and when two pieces of it are the same."""

from dataclasses import replace

import numpy as np

from certcal.smoothing import Evidence, collect_evidence
from certcal.smoothing.evidence import ARRAYS
from smoothing_models import small_data, small_model

SMALL = {"sigma": 0.3, "n": 500, "n0": 20, "chunk": 50}


def collect(model=None, data=None, **options):
    return collect_evidence(model or small_model(), data or small_data(), **(SMALL | options))


def assert_same(left: Evidence, right: Evidence, *, plan=True):
    """The same draws of the same model, and unless `plan` is False planned for the same looks."""
    headers = [own.header if plan else replace(own.header, looks=1, stages=()) for own in (left, right)]
    assert headers[0] == headers[1]
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
