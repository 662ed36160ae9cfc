"""How everything here is measured: interleaved repetitions, medians, and a record with machine and commit."""

import itertools
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
_ASKED = itertools.count(1)


@dataclass(frozen=True)
class Figure:
    """One measured number beside what it should be. `limit` is met when `value` lies on its good side."""

    name: str
    value: float
    unit: str
    limit: float
    at_least: bool = False  # otherwise at most
    note: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def line(self, before: float | None) -> str:
        """The figure beside its limit and the record before it."""
        sign, mark = ("≥" if self.at_least else "≤"), ("ok  " if self.met else "MISS")
        was = "new" if before is None else f"{before:.4g}"
        return f"{mark} {self.name:<70} {self.value:>9.4g} {self.unit:<2} was {was:<9} ({sign} {self.limit:g})"


def medians(
    calls: dict[str, Callable[[], object]], *, repeats: int = 15, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The median seconds of each call, taken in turns so that drift of the machine hits all alike.

    By `time.process_time` what other processes do meanwhile does not count: for ratios of work that fills its threads.
    """
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = clock()
            call()
            seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def fresh_level() -> float:
    """0.001, but for a digit that was not asked for before: limits of the same counts at one level are remembered."""
    return 0.001 * (1 + 1e-9 * next(_ASKED))


def in_ms(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {1000 * value:.3g} ms" for name, value in times.items())


def record(section: str, figures: Iterator[Figure], *, machine: str, folder: Path = RESULTS) -> bool:
    """Print figures as they come, keep them in results/<section>-<machine>.json; True if all limits are met."""
    print(f"\n{section}")
    earlier = RESULTS / f"{section}-{machine}.json"
    before = {one["name"]: one["value"] for one in json.loads(_read(str(earlier)) or '{"figures": []}')["figures"]}
    kept = []
    folder.mkdir(parents=True, exist_ok=True)
    body = {"machine": describe_machine(), "commit": commit(), "figures": kept}
    for figure in figures:
        print(
            f"  {figure.line(before.get(figure.name))}",
            *[f"      {figure.note}"] * bool(figure.note),
            sep="\n",
            flush=True,
        )
        kept.append(asdict(figure) | {"met": figure.met})
        # After each, so that a run that is cut off leaves what it has.
        (folder / f"{section}-{machine}.json").write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
    return all(figure["met"] for figure in kept)


def describe_machine() -> str:
    import numpy
    import torch

    names = [
        line.split(":")[1].strip() for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")
    ]
    chip = torch.cuda.get_device_name() if torch.cuda.is_available() else (names[0] if names else platform.processor())
    versions = f"Python {platform.python_version()}, NumPy {numpy.__version__}, torch {torch.__version__}"
    return f"{chip}, {os.cpu_count()} cores, {versions}"


def commit() -> str:
    """The commit the tree is at, marked when files differ from it; CERTCAL_COMMIT says so for a copy of the tree."""
    if "CERTCAL_COMMIT" in os.environ:
        return os.environ["CERTCAL_COMMIT"]
    try:
        head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        clean = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "bench/*.py"]).returncode == 0
        return head.stdout.strip() + ("" if clean else "+")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
