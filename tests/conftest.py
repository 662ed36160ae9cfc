"""Shared by all tests: a seeded generator, the device to test on, a drawing backend without a screen."""

from contextlib import nullcontext
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from certcal.certificates import confidence_bounds_at
from smoothing_oracles import random_evidence

matplotlib.use("Agg")
settings.register_profile("certcal", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("certcal")


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="torch device the solver tests run on")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Side by side, but those that use one cluster in one process. (xdist's own groups do nothing under pytest 9.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "ray" if "test_ray" in nodeid.partition("::")[0] else nodeid

    return Scheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(scope="session")
def cluster_address():
    """A cluster of this machine, for all tests that need one and no particular one."""
    from ray_models import head

    with head() as address:
        yield address


@pytest.fixture(scope="module")
def cluster(cluster_address):
    """Two workers of a cluster that this process stays connected to."""
    import ray

    from certcal.cluster import Cluster

    ray.init(address=cluster_address, log_to_driver=False, logging_level="ERROR")
    yield Cluster(workers=2, address=cluster_address)
    ray.shutdown()


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


@pytest.fixture
def bounds(rng):
    """Certificates of 300 inputs at three radii; wrong as often as their confidence says."""
    evidence = random_evidence(rng, inputs=300, draws=2000)
    evidence = replace(evidence, label=(rng.random(300) < evidence.confidence).astype(np.int64))
    return confidence_bounds_at(evidence, radii=[0.0, 0.1, 0.3], alpha=0.01)
