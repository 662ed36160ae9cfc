"""Shared by all tests: a seeded generator, the device to test on, a drawing backend without a screen."""

import gc
import os
import signal
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

gc.disable()  # until tests are collected
TESTS = Path(__file__).parent
os.environ["MPLBACKEND"] = "agg"  # asked for by name: to import what draws, or certifies, takes each process a second
os.fsync = lambda handle: None  # no test cuts the power, and a disk takes its time
# What tests trust is no matter of the user's, and forgotten at the end; processes that they start share it.
_STATE = tempfile.TemporaryDirectory(prefix="certcal-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # so that Ctrl-C reaches the processes of tests
settings.register_profile("certcal", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("certcal-quick", settings.get_profile("certcal"), max_examples=10)
settings.load_profile("certcal")


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="torch device the solver tests run on")


def pytest_configure(config):
    config.pluginmanager.register(Examples())  # as a plugin, for `src` as well: hooks of this file are for `tests`


class Examples:
    """Takes examples in docstrings from the files that have any: to import every other one takes seconds."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path):
        found = yield
        if found and TESTS not in file_path.parents and ">>>" in file_path.read_text(encoding="utf-8"):
            return found
        return [one for one in found if type(one).__name__ != "DoctestModule"]


def pytest_collection_finish():
    """What was imported until now stays, so the collector of garbage need not look at it again and again."""
    gc.enable()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    """Mark tests by what they start: those that take the fixture `browser`, and those that take a cluster."""
    if "cuda" not in config.getoption("--device"):
        items[:] = [item for item in items if item.get_closest_marker("cuda") is None]
    for item in items:
        for fixture, marker in {"browser": "browser", "cluster_address": "ray"}.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)


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


@pytest.fixture(autouse=True, scope="module")
def own_modules(tmp_path_factory):
    """Modules that tests write and import, and where they lie: the next file may have others of the same name."""
    path, known = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    here = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(here):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def usual_process():
    """What a test or a library leaves otherwise is put back: torch's threads, which two workers would wait for, and
    Python's recursion limit, which auto_LiRPA raises to a million, where nested JSON overflows the stack.
    """
    depth = sys.getrecursionlimit()
    threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
    yield
    sys.setrecursionlimit(depth)
    if threads is not None and sys.modules["torch"].get_num_threads() != threads:
        sys.modules["torch"].set_num_threads(threads)


@pytest.fixture
def device(request):
    return request.config.getoption("--device")


@pytest.fixture
def rng():
    return np.random.default_rng(20250115)


@pytest.fixture
def no_rehearsal(monkeypatch):
    """Without timing the model first, so that forward passes can be counted."""
    monkeypatch.setattr("certcal.smoothing.job.fastest_threads", lambda call: nullcontext())


@pytest.fixture(scope="session")
def bounds():
    """Certificates of 300 inputs at three radii; wrong as often as their confidence says."""
    from certcal.certificates import confidence_bounds_at
    from smoothing_oracles import random_evidence

    rng = np.random.default_rng(20250115)
    evidence = random_evidence(rng, inputs=300, draws=2000)
    evidence = replace(evidence, label=(rng.random(300) < evidence.confidence).astype(np.int64))
    return confidence_bounds_at(evidence, radii=[0.0, 0.1, 0.3], alpha=0.01)
