"""What Ray adds: speed-up by a second worker, overhead of a shard, and the driver's memory over 10 000 of them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import torch

from bench.harness import Figure
from certcal.cluster import Cluster
from certcal.models import build_model
from certcal.smoothing import collect_evidence, schedule

SHARDS, CHUNK, INPUTS = 100, 1000, 10  # a quarter of a second each: 25 s for one worker, half for two
TINY_SHARDS = 10_000


def figures() -> Iterator[Figure]:
    """One cluster of two CPUs on this machine for the first, one in another process for the others."""
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield from two_workers()
    finally:
        ray.shutdown()
    yield from tiny_shards()


def two_workers() -> Iterator[Figure]:
    """LeNet on 28×28 images, one thread a process, shards of one chunk: at least 40 of them to each worker.

    Timed while all workers are there and have work; with shards that grow with the speed seen, a short run would have
    a handful of them, and its end would be what is timed.
    """
    torch.manual_seed(0)
    model = build_model("lenet", classes=10, channels=1, size=28)
    data = torch.rand(INPUTS, 1, 28, 28), torch.zeros(INPUTS, dtype=torch.long)
    rates: dict[int, list[float]] = {1: [], 2: []}
    threads, seconds = torch.get_num_threads(), schedule.SHARD_SECONDS
    torch.set_num_threads(1)
    schedule.SHARD_SECONDS = 0.0
    try:
        for workers in [*rates] * 2:
            with steady_rate(workers) as times:
                collect_evidence(
                    model,
                    data,
                    sigma=0.25,
                    n=SHARDS // INPUTS * CHUNK,
                    chunk=CHUNK,
                    engine=Cluster(workers=workers),
                    progress=False,
                )
            assert len(times.times) == SHARDS
            rates[workers].append(times.rate())
    finally:
        torch.set_num_threads(threads)
        schedule.SHARD_SECONDS = seconds
    one, two = max(rates[1]), max(rates[2])
    note = (
        f"{one:,.0f} and {two:,.0f} draws/s over {SHARDS} shards of {CHUNK} draws; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    yield Figure("two workers over one, LeNet", two / one, "×", 1.6, at_least=True, note=note)


class steady_rate:  # noqa: N801
    """Times of results while all workers are there, taken where the schedule takes them in."""

    def __init__(self, workers: int) -> None:
        self.workers, self.times, self.draws = workers, [], []

    def __enter__(self) -> "steady_rate":
        from certcal.cluster import Pool

        self._drawn, self._enter = schedule.Schedule.drawn, Pool.__enter__
        times, draws, drawn, enter, workers = self.times, self.draws, self._drawn, self._enter, self.workers

        def timed(own, shard, rows, seconds):
            times.append(time.perf_counter())
            draws.append(int(rows.votes.sum()))
            drawn(own, shard, rows, seconds)

        def patient(pool):
            enter(pool)
            while pool.room < workers:
                pool.results(timeout=0.1)
            return pool

        schedule.Schedule.drawn, Pool.__enter__ = timed, patient
        return self

    def __exit__(self, *_: object) -> None:
        from certcal.cluster import Pool

        schedule.Schedule.drawn, Pool.__enter__ = self._drawn, self._enter

    def rate(self) -> float:
        """Draws per second after the first tenth of the results and before the last."""
        first, last = len(self.times) // 10, -max(1, len(self.times) // 10)
        return sum(self.draws[first + 1 : last]) / (self.times[last - 1] - self.times[first])


TINY = """
import resource, sys, time, torch
from torch import nn
from certcal.cluster import Cluster
from certcal.smoothing import collect_evidence, schedule
schedule.SHARD_SECONDS = 0.0  # one chunk a shard
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
data = torch.rand(100, 1, 8, 8), torch.zeros(100, dtype=torch.long)
run = lambda draws: collect_evidence(
    model, data, sigma=0.25, n=draws, n0=10, chunk=10, engine=Cluster(workers=2), progress=False
)
import ray
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
run(20)
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
run(int(sys.argv[1]) // 10)
seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("measured", seconds, (after - before) / 1e6)
"""


def tiny_shards() -> Iterator[Figure]:
    """Shards of ten draws of a linear model, whose own time is nothing: what is left is overhead."""
    done = subprocess.run([sys.executable, "-c", TINY, str(TINY_SHARDS)], capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("measured"))
    seconds, growth = map(float, line.split()[1:])
    note = f"{TINY_SHARDS:,} shards on 2 workers in {seconds:.1f} s, start of workers included"
    yield Figure("overhead of a shard", 1000 * seconds * 2 / TINY_SHARDS, "ms", 20, note=note)
    yield Figure("growth of the driver's memory over 10 000 shards", growth, "GB", 1)
