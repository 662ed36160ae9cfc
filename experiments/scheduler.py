"""How busy the Ray engine's schedule keeps many GPUs, by a simulation of 10 000 shards, and what a run then costs.

    python -m experiments.scheduler          # two minutes of CPU

The schedule and the keeping of results are the engine's own code; clocks, workers and draws are made up: workers that
take their time to start, die and stray, and a driver that handles one result at a time.
Writes results/scheduler.json, from which docs/capacity.md quotes. Expected: above 95 % of ideal on 8 GPUs and above
85 % on 64, where 10 000 shards are six minutes and a tenth of that is the start.
"""

import heapq
import json
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from bench.harness import RESULTS as BENCH
from bench.harness import commit

from certcal.certificates import StopWhenDecided
from certcal.progress import Progress
from certcal.smoothing import Evidence, EvidenceHeader
from certcal.smoothing.evidence import threshold_grid
from certcal.smoothing.job import Job
from certcal.smoothing.keeper import Keeper
from certcal.smoothing.schedule import Schedule, Shard
from certcal.smoothing.shards import Rows
from certcal.smoothing.sources import Source

RESULTS = Path(__file__).parent / "results"
N, N0, CHUNK, SIGMA = 100_000, 100, 250, 0.25
STAGES, RADII, ALPHA = (1000, 10_000, 100_000), (0.05, 0.1, 0.25, 0.5), 0.001
GPUS, SHARDS = (1, 8, 64), 10_000
DEPTH = 2  # shards at a worker when this was recorded; the engine now gives it one
DOLLARS_PER_GPU_HOUR = 4.0  # an assumption; put your own price in


@dataclass(frozen=True)
class World:
    """What the simulation assumes; the rates come from bench/results."""

    draws_per_second: float  # of one GPU
    overhead: float  # seconds a worker spends on a shard besides drawing
    driver: float  # seconds the driver spends on a result
    start: float = 30.0  # seconds until a worker has loaded the model
    days_between_deaths: float = 2.0  # of one worker
    spread: float = 0.05  # standard deviation of the logarithm of a shard's duration
    strays: float = 0.002  # share of shards that take ten times as long


class Simulation:
    """Workers with clocks of their own, fed by the engine's schedule."""

    def __init__(self, world: World, gpus: int, inputs: int, stops: np.ndarray | None) -> None:
        self.world, self.gpus, self.rng = world, gpus, np.random.default_rng(0)
        self.header = EvidenceHeader("simulated", SIGMA, 0, 2, N0, CHUNK, "none")
        targets = [N // CHUNK] if stops is None else [stage // CHUNK for stage in STAGES]
        keeper = Keeper(self.header, None)

        def stop(evidence: Evidence) -> np.ndarray:
            return evidence.draws >= stops[evidence.index]

        source = Source((torch.zeros(inputs, 1), np.zeros(inputs, dtype=np.int64)))
        rule, meter = None if stops is None else stop, Progress(inputs, N, show=False)
        self.keeper = keeper
        self.schedule = Schedule(Job(source, keeper, targets, rule, meter), batch=4)
        self.events: list[tuple[float, int, str, int, int]] = []
        self.order, self.now, self.driver_free = count(), 0.0, 0.0
        self.queues: list[list[Shard]] = [[] for _ in range(gpus)]
        self.lives = [0] * gpus
        self.ready = [False] * gpus
        self.again: list[Shard] = []
        self.shards = self.deaths = 0
        self.drawing = 0.0  # seconds that ideal GPUs would have taken

    def run(self) -> dict[str, float]:
        """Until everything is drawn."""
        for worker in range(self.gpus):
            self._at(self.world.start, "start", worker)
        while not (self.schedule.over and not any(self.queues) and not self.again):
            self.now, _, what, worker, life = heapq.heappop(self.events)
            if life == self.lives[worker]:
                getattr(self, f"_{what}")(worker)
                self._feed()
        ideal = self.drawing / self.gpus
        return {
            "gpus": self.gpus,
            "shards": self.shards,
            "hours": round(self.now / 3600, 4),
            "efficiency": round(ideal / self.now, 4),
            "steady": round(ideal / (self.now - self.world.start), 4),  # once workers are there
            "deaths": self.deaths,
        }

    def _at(self, delay: float, what: str, worker: int) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.order), what, worker, self.lives[worker]))

    def _start(self, worker: int) -> None:
        self.ready[worker] = True
        self._at(self.rng.exponential(self.world.days_between_deaths * 86400), "die", worker)

    def _die(self, worker: int) -> None:
        self.deaths += 1
        self.again += self.queues[worker]
        self.queues[worker], self.ready[worker] = [], False
        self.lives[worker] += 1  # what it had in its hands never arrives
        self._at(self.world.start, "start", worker)

    def _finish(self, worker: int) -> None:
        shard = self.queues[worker].pop(0)
        if self.queues[worker]:
            self._begin(worker)
        # The driver handles one result after the other; what it decides comes after those before.
        self.driver_free = max(self.driver_free, self.now) + self.world.driver
        self.shards += 1
        if not shard.chunks:
            self.schedule.selected(shard, [0] * len(shard.items))
            self.drawing += len(shard.items) * N0 / self.world.draws_per_second
            return
        self.drawing += shard.size * CHUNK / self.world.draws_per_second
        self.schedule.drawn(shard, self._rows(shard), shard.size * CHUNK / self.world.draws_per_second)

    def _feed(self) -> None:
        while True:
            free = [w for w in range(self.gpus) if self.ready[w] and len(self.queues[w]) < DEPTH]
            shard = (self.again.pop() if self.again else self.schedule.next(DEPTH * self.gpus)) if free else None
            if shard is None:
                return
            worker = min(free, key=lambda worker: len(self.queues[worker]))
            self.queues[worker].append(shard)
            if len(self.queues[worker]) == 1:
                self._begin(worker, wait=max(0.0, self.driver_free - self.now))

    def _begin(self, worker: int, wait: float = 0.0) -> None:
        shard = self.queues[worker][0]
        draws = shard.size * CHUNK if shard.chunks else len(shard.items) * N0
        slow = self.rng.lognormal(0, self.world.spread) * (10 if self.rng.random() < self.world.strays else 1)
        self._at(wait + self.world.overhead + draws / self.world.draws_per_second * slow, "finish", worker)

    def _rows(self, shard: Shard) -> Rows:
        sizes = np.array([stop - first for first, stop in shard.chunks]) * CHUNK
        counts = np.zeros((len(sizes), 256), dtype=np.int64)
        counts[:, 0] = sizes
        plain = np.zeros(len(sizes), dtype=np.int64)
        first = np.array([first for first, _ in shard.chunks])
        index, content = (np.array([getattr(item, name) for item in shard.items]) for name in ("index", "content"))
        votes = counts[:, :2]
        return Rows(index, content, plain, plain, first, first + sizes // CHUNK, votes, plain, plain, counts)


def stopping_draws(inputs: int) -> np.ndarray:
    """After how many draws the real rule stops each of many made-up inputs: scores are Φ of normals."""
    from scipy.special import ndtr, ndtri

    rng = np.random.default_rng(0)
    grid = threshold_grid()
    means, spreads = rng.normal(1.2, 1.0, inputs), rng.uniform(0.3, 1.0, inputs)
    with np.errstate(divide="ignore"):
        cells = np.diff(ndtr((ndtri(grid) - means[:, None]) / spreads[:, None]))
    header = EvidenceHeader("synthetic", SIGMA, 0, 2, N0, CHUNK, "none", looks=len(STAGES), stages=STAGES)
    rule = StopWhenDecided(radii=RADII, alpha=ALPHA)
    histogram = np.zeros((inputs, 256), dtype=np.int64)
    stops, done = np.full(inputs, N), 0
    middle = (grid[1:] + grid[:-1]) / 2
    for stage in STAGES[:-1]:
        histogram += rng.multinomial(stage - done, cells)
        done = stage
        won = histogram[:, 128:].sum(axis=1)
        zeros = np.zeros(inputs, dtype=np.int64)
        sums = histogram @ middle, histogram @ np.square(middle)
        votes = np.stack([won, stage - won], axis=1)
        numbers = np.arange(inputs)
        evidence = Evidence(header, numbers, zeros, zeros, zeros, np.full(inputs, stage), votes, *sums, histogram)
        stops[rule(evidence) & (stops == N)] = stage
    return stops


def figure(file: str, name: str) -> float:
    """A recorded figure of bench/results."""
    body = json.loads((BENCH / file).read_text())
    return next(float(entry["value"]) for entry in body["figures"] if entry["name"] == name)


PROTOCOLS = {
    "ImageNet, 50 000 inputs": ("ResNet-50 at 224×224: evidence, draws per second", 50_000),
    "CIFAR-10, 10 000 inputs": ("ResNet-110 at 32×32: evidence, draws per second", 10_000),
}


def capacity(runs: list[dict], staged_share: float, start: float) -> list[dict]:
    """Hours and money of one model under each protocol, from measured rates and simulated efficiency."""
    table = []
    for name, (rate, inputs) in PROTOCOLS.items():
        for kind, share in (("fixed", 1.0), ("staged", staged_share)):
            draws = inputs * (N * share + N0)
            for run in (run for run in runs if run["sampling"] == kind):
                busy = draws / figure("smoothing-gpu.json", rate) / 3600
                hours = start / 3600 + busy / run["gpus"] / run["steady"]
                cost = hours * run["gpus"] * DOLLARS_PER_GPU_HOUR
                row = {"protocol": name, "sampling": kind, "gpus": run["gpus"], "draws": round(draws)}
                table.append(row | {"hours": round(hours, 3), "dollars": round(cost, 2)})
    return table


def page_lines(body: dict) -> list[str]:
    """The table rows of docs/capacity.md."""
    lines = []
    for run in body["runs"]:
        shares = f"{run['steady']:.1%} | {run['efficiency']:.1%} | {run['deaths']}"
        lines.append(f"| {run['gpus']} | {run['sampling']} | {run['shards']:,} | {shares} |")
    for row in body["capacity"]:
        own = f"{row['protocol']} | {row['sampling']} | {row['draws']:.2e} | {row['gpus']}"
        time = f"{row['hours']:.1f} h" if row["hours"] >= 1.5 else f"{60 * row['hours']:.0f} min"
        lines.append(f"| {own} | {time} | {row['dollars']:,.2f} |")
    return lines


def main() -> None:
    rate = figure("smoothing-gpu.json", PROTOCOLS["ImageNet, 50 000 inputs"][0])
    overhead = figure("scale-cpu.json", "overhead of a shard") / 1000
    world = World(rate, overhead, overhead)  # the whole overhead on both sides: a cautious reading
    inputs = SHARDS * int(rate * 2 / CHUNK) * CHUNK // N
    stops = stopping_draws(10 * inputs)
    share = round(float(stops.mean() / N), 4)
    runs = []
    for gpus in GPUS:
        for sampling, own in (("fixed", None), ("staged", stops)):
            enough = inputs if own is None else int(inputs / share)  # for about as many shards
            runs.append({"sampling": sampling} | Simulation(world, gpus, enough, own).run())
            print(runs[-1], flush=True)
    body = {"commit": commit(), "world": asdict(world), "stages": STAGES, "radii": RADII, "alpha": ALPHA}
    body |= {"staged_share": share, "stopped_after": _counts(stops), "runs": runs}
    body |= {"dollars_per_gpu_hour": DOLLARS_PER_GPU_HOUR, "capacity": capacity(runs, share, world.start)}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scheduler.json").write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
    print(*page_lines(body), sep="\n")


def _counts(stops: np.ndarray) -> dict[str, float]:
    return {str(stage): round(float((stops == stage).mean()), 4) for stage in STAGES}


if __name__ == "__main__":
    main()
