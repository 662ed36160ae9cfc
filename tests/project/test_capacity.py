"""docs/capacity.md quotes what was recorded, and what was recorded follows from the measured rates."""

import json
import sys

import pytest

from places import ROOT

RECORD = json.loads((ROOT / "experiments" / "results" / "scheduler.json").read_text())
PAGE = (ROOT / "docs" / "capacity.md").read_text()


@pytest.fixture
def scheduler(monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")
    monkeypatch.syspath_prepend(ROOT)
    from experiments import scheduler

    yield scheduler
    for name in [name for name in sys.modules if name.split(".")[0] in ("bench", "experiments")]:
        del sys.modules[name]


def test_the_page_quotes_the_record(scheduler):
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line[2].isalnum()]
    lines = scheduler.page_lines(RECORD)
    assert [row for row in rows if row in lines] == lines
    assert f"{RECORD['staged_share']:.1%}" in PAGE
    assert f"${RECORD['dollars_per_gpu_hour']:g}" in PAGE
    assert f"{RECORD['world']['overhead'] * 1000:.1f} ms" in PAGE
    for share in RECORD["stopped_after"].values():
        assert f"{share:.0%}" in PAGE


def test_the_record_follows_from_the_rates(scheduler):
    assert RECORD["capacity"] == scheduler.capacity(RECORD["runs"], RECORD["staged_share"], RECORD["world"]["start"])
    assert all(run["shards"] >= 10_000 for run in RECORD["runs"])


def test_a_small_simulation_draws_everything_once(scheduler):
    """With workers that die all the time, and inputs that stop early."""
    stops = scheduler.np.array([1000, 10_000, 100_000, 1000] * 25)
    world = scheduler.World(28_000.0, 0.003, 0.003, start=5.0, days_between_deaths=60 / 86400)
    for sampling, expected in ((None, [100_000] * 100), (stops, stops.tolist())):
        simulation = scheduler.Simulation(world, 3, 100, sampling)
        result = simulation.run()
        assert simulation.keeper.evidence(range(100)).draws.tolist() == expected
        assert result["deaths"] > 0
        assert 0.2 < result["efficiency"] < 1
