"""Shared by all tests: a seeded generator, the device to test on, a drawing backend without a screen."""

from contextlib import nullcontext

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
settings.register_profile("certcal", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("certcal")


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="torch device the solver tests run on")


@pytest.fixture
def device(request):
    return request.config.getoption("--device")


@pytest.fixture
def rng():
    return np.random.default_rng(20250115)


@pytest.fixture
def no_rehearsal(monkeypatch):
    """Without timing the model first, so that forward passes can be counted."""
    monkeypatch.setattr("certcal.smoothing.collect.fastest_threads", lambda call: nullcontext())
