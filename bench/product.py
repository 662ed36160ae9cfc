"""What people wait for at the command line: help, and evaluations of many inputs."""

import compileall
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import certcal
from bench.harness import Figure, medians
from bench.smoothing import SIGMA, synthetic_evidence
from certcal.runs import RunFolder, check_run, load_data, load_model
from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings
from certcal.smoothing import collect_evidence, save_evidence

INPUTS = 540  # of the run that is checked
RADII = (0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)


def figures() -> Iterator[Figure]:
    yield from evaluating()
    yield from checking()
    yield from first_hour()


def checking() -> Iterator[Figure]:
    """What is looked at before a run of 540 images of 3×32×32 with 10 000 draws each, over the run itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = _own_images(Path(folder))
        settings = RunSettings(
            model=ModelSettings(name="small-cnn"),
            data=DataSettings(name=str(path)),
            certify=CertifySettings(sigma=SIGMA, device="cpu"),
        )
        data, some = load_data(settings.data), 8
        model = load_model(settings.model, data, sigma=SIGMA)
        calls = {
            "checks": lambda: check_run(settings, tell=lambda text: None),
            "draws": lambda: collect_evidence(model, data.take(limit=some), sigma=SIGMA, n=1000, progress=False),
        }
        seconds = medians(calls, repeats=3, clock=time.process_time)
    run = seconds["draws"] / (some * 1100) * INPUTS * 10_100
    note = f"{seconds['checks']:.2g} s of {run:.0f} s of processor time"
    name = "checks before a run of 540 images × 10 000 draws, over it"
    yield Figure(name, seconds["checks"] / run, "×", 0.03, note=note)


def first_hour() -> Iterator[Figure]:
    """What a new user waits for, with 540 images of 3×32×32 and a small CNN: a first report, and attacks by default.

    The attacks are those of 5 inputs, whose processor time is taken times 10 and shared by two cores.
    """
    with tempfile.TemporaryDirectory() as folder:
        images, weights = str(_own_images(Path(folder))), str(Path(folder) / "net.pt")
        network = load_model(ModelSettings(name="small-cnn"), load_data(DataSettings(name=images)), sigma=SIGMA)
        torch.save(network.state_dict(), weights)  # attacks ask for the same ones again
        own = ("--model", "small-cnn", "--weights", weights, "--data", images, "--sigma", str(SIGMA))
        run, start = Path(folder) / "run", time.perf_counter()
        words = ("certify", str(run), *own, "--n", "10000")
        process = subprocess.Popen([sys.executable, "-m", "certcal", *words], stderr=subprocess.DEVNULL)
        while not (run / "report.html").exists() and process.poll() is None:
            time.sleep(0.2)
        first = time.perf_counter() - start
        process.send_signal(signal.SIGINT)
        process.wait()
        yield Figure("first report on 540 images of 3×32×32, small CNN, with start-up", first, "s", 60)
        attacked = Path(folder) / "attacked"
        _call("certify", str(attacked), *own, "--n", "1000", "--limit", "5", "--no-figures")
        used = _call("attack", str(attacked), "--limit", "5", "--no-figures")
    note = f"{used.processor:.0f} s of processor time for 5 inputs, start-up included"
    yield Figure(
        "certcal attack by default (50 inputs, 3 radii), on two cores",
        10 * used.processor / 2 / 60,
        "min",
        10,
        note=note,
    )


def _own_images(folder: Path) -> Path:
    """As many images as somebody may bring along."""
    path, rng = folder / "own.npz", np.random.default_rng(0)
    np.savez(path, inputs=rng.random((INPUTS, 3, 32, 32), dtype=np.float32), labels=np.arange(INPUTS) % 10)
    return path


def evaluating() -> Iterator[Figure]:
    """Whole processes, start-up included: 10 000 inputs with 100 000 draws each, 13 radii, exact worst case."""
    with tempfile.TemporaryDirectory() as folder:
        run, table, other = (
            _run_of(Path(folder) / "run", 10_000),
            Path(folder) / "table.parquet",
            Path(folder) / "table",
        )
        _write_table(table, 1_000_000)
        bounds = ("--bounds", str(table), "--norm", "linf", "--radius", "0.1", "--alpha", "0")
        calls: dict[str, Callable[[], object]] = {
            "help": lambda: _call("--help"),
            "evaluate": lambda: _call("evaluate", str(run)),
            "without figures": lambda: _call("evaluate", str(run), "--no-figures"),
            "table": lambda: _call("evaluate", str(other), *bounds, "--no-figures"),
        }
        times = medians(calls, repeats=3)
        of_table = f"{_call('evaluate', str(other), *bounds, '--no-figures').processor:.1f} s of processor time"
        page = (run / "report.html").stat().st_size
        many = _run_of(Path(folder) / "many", 100_000)
        start = time.perf_counter()
        used = _call("evaluate", str(many), "--no-figures")
        waited, many_page = time.perf_counter() - start, (many / "report.html").stat().st_size
    note = f"{times['without figures']:.1f} s without figures"
    yield Figure("certcal evaluate, 10 000 inputs × 13 radii, with start-up", times["evaluate"], "s", 10, note=note)
    yield Figure("certcal --help", times["help"], "s", 1)
    yield Figure("its report.html", page / 1e6, "MB", 1)
    yield Figure("certcal evaluate, a table of 10^6 rows, with start-up", times["table"], "s", 3, note=of_table)
    spent = f"{used.processor:.1f} s of processor time; no figures"
    yield Figure("certcal evaluate, 100 000 inputs × 13 radii, with start-up", waited, "s", 19, note=spent)
    yield Figure("memory of certcal evaluate, 100 000 inputs × 13 radii", used.memory, "GB", 0.9)
    yield Figure("report.html of 100 000 inputs × 13 radii", many_page / 1e3, "kB", 240)


def _run_of(path: Path, inputs: int) -> Path:
    """The folder of a run with synthetic evidence."""
    run = RunFolder(path)
    run.create()
    save_evidence(synthetic_evidence(inputs, 100_000), run.evidence)
    run.save_settings(
        RunSettings(
            model=ModelSettings(name="synthetic"),
            data=DataSettings(name="synthetic"),
            certify=CertifySettings(sigma=SIGMA),
            evaluate=EvaluateSettings(radii=RADII),
        )
    )
    return path


def _write_table(path: Path, rows: int) -> None:
    """Bounds of so many inputs, as another tool may give them."""
    rng = np.random.default_rng(0)
    confidence, label = rng.beta(6, 2, rows), rng.integers(0, 10, rows)
    right, width = rng.random(rows) < confidence, 0.1 * rng.random((2, rows))
    columns = {
        "label": label,
        "predicted": np.where(right, label, (label + 1) % 10),
        "confidence": confidence,
        "lower": np.maximum(confidence - width[0], 0.0),
        "upper": np.minimum(confidence + width[1], 1.0),
        "certified": rng.random(rows) < 0.8,
    }
    pq.write_table(pa.table(columns), path)


class Used(NamedTuple):
    """What a process took."""

    processor: float  # seconds
    memory: float  # GB at most


# In a process of its own: one that is started by a large process is as large as that, for a moment.
_MEASURE = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, "-m", "certcal", *sys.argv[1:]], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6)
sys.exit(code)
"""


def _call(*words: str) -> Used:
    """Run `certcal` by itself."""
    _compile()
    done = subprocess.run([sys.executable, "-c", _MEASURE, *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"certcal {' '.join(words)} failed")
    return Used(*map(float, done.stdout.split()))


@cache
def _compile() -> None:
    """What pip does once when it installs: where Python may not keep it, every call would take half a second more."""
    compileall.compile_dir(Path(certcal.__file__).parent, quiet=1)
