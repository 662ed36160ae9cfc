"""Speed of the exact certificate, the plain metric, the paper's solver, and importing certcal."""

import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Iterator

import numpy as np

import certcal
from bench.harness import Figure, in_ms, medians
from bench.transcription import transcribed_admm


def problem(inputs: int, seed: int = 0):
    """Bounds, correctness and clean confidences as a smoothed classifier gives them, float64."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(5, 1.5, inputs)
    lower = np.clip(confidence - 0.25 * rng.random(inputs), 0, 1)
    upper = np.clip(confidence + 0.15 * rng.random(inputs), 0, 1)
    return lower, upper, (rng.random(inputs) < confidence).astype(np.float64), confidence


def figures() -> Iterator[Figure]:
    yield from exact()
    yield from plain_metric()
    yield from admm()
    yield from start_up()


def exact() -> Iterator[Figure]:
    lower, upper, correct, _ = problem(10**6)
    times = medians(
        {
            "exact": lambda: certcal.certified_calibration_error(lower, upper, correct),
            "sums": lambda: (lower.sum(), upper.sum(), correct.sum()),
        },
        repeats=25,
    )
    name = "exact CCE, N = 10⁶, M = 15, over summing its three inputs"
    yield Figure(name, times["exact"] / times["sums"], "×", 10, note=in_ms(times))

    large = problem(10**7)[:3]
    times = medians(
        {
            "10⁶": lambda: certcal.certified_calibration_error(lower, upper, correct),
            "10⁷": lambda: certcal.certified_calibration_error(*large),
        },
        repeats=7,
    )
    yield Figure("exact CCE, N = 10⁷ over N = 10⁶", times["10⁷"] / times["10⁶"], "×", 13, note=in_ms(times))
    tracemalloc.start()
    certcal.certified_calibration_error(*large)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    inputs = sum(part.nbytes for part in large)
    name = "exact CCE, N = 10⁷, float64 inputs and peak memory over inputs"
    yield Figure(name, (inputs + extra) / inputs, "×", 3, note="narrower dtypes are converted to float64 first")


def plain_metric() -> Iterator[Figure]:
    import netcal.metrics
    import relplot
    import torch
    from sklearn.calibration import calibration_curve
    from torchmetrics.functional.classification import binary_calibration_error

    rng = np.random.default_rng(0)
    confidence = rng.random(10**6)
    correct = (rng.random(10**6) < confidence**1.3).astype(np.int64)
    z, c = torch.from_numpy(confidence), torch.from_numpy(correct)
    libraries = {
        "certcal": lambda: certcal.expected_calibration_error(confidence, correct),
        "torchmetrics": lambda: binary_calibration_error(z, c, n_bins=15),
        "relplot": lambda: relplot.metrics.binnedECE(confidence, correct, nbins=15),
        "scikit-learn": lambda: calibration_curve(correct, confidence, n_bins=15),
        "netcal": lambda: netcal.metrics.ECE(15).measure(confidence, correct),
    }
    calls = {}
    for name, measure in libraries.items():  # each after a look at the inputs: who comes before leaves other caches
        calls |= {f"inputs before {name}": lambda: (confidence.sum(), correct.sum()), name: measure}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = medians(calls, repeats=51)
    times = {name: times[name] for name in libraries}
    fastest = min(value for name, value in times.items() if name != "certcal")
    name = "plain ECE, N = 10⁶, over the fastest other library"
    yield Figure(name, times["certcal"] / fastest, "×", 1.0, note=in_ms(times))


def admm() -> Iterator[Figure]:
    lower, upper, correct, clean = problem(2000)
    edges = np.arange(16) / 15
    one_run = {"starts": "clean", "confidence_rates": 0.01, "assignment_rates": 0.1, "rho_factors": 1.01}
    values = {}

    def ours():
        values["ours"] = certcal.worstcase.approximate_certified_calibration_error(
            lower, upper, correct, confidence=clean, steps=3000, **one_run
        ).value

    def plain():
        values["plain"] = transcribed_admm(
            lower, upper, correct, clean, edges, steps=3000, rate_a=0.1, rate_z=0.01, rho=0.01, factor=1.01
        )

    def exactly():
        values["exact"] = certcal.certified_calibration_error(lower, upper, correct).value

    times = medians({"ours": ours, "plain": plain}, repeats=3)
    times |= medians({"exact": exactly}, repeats=101)
    note = f"{in_ms(times)}; values " + ", ".join(f"{name} {value:.4f}" for name, value in values.items())
    name = "plain autograd transcription over our ADMM, one run, N = 2000"
    yield Figure(name, times["plain"] / times["ours"], "×", 2, at_least=True, note=note)
    yield Figure(
        "our one ADMM run over the exact CCE, N = 2000", times["ours"] / times["exact"], "×", 1000, at_least=True
    )


def start_up() -> Iterator[Figure]:
    def seconds(code: str) -> float:
        timed = f"{code}; import time; s = time.perf_counter(); import certcal; print(time.perf_counter() - s)"
        runs = [
            subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True) for _ in range(7)
        ]
        return sorted(float(run.stdout) for run in runs)[3]

    yield Figure("import certcal after torch", seconds("import torch"), "s", 0.3)
    yield Figure("import certcal alone, torch not loaded", seconds("pass"), "s", 0.5)


def gpu_figures() -> Iterator[Figure]:
    """The 16-run grid at N = 7000 on a GPU beside one run; the paper needs up to 2 minutes for one (RTX 3090)."""
    import torch

    lower, upper, correct, clean = problem(7000)
    exact_value = certcal.certified_calibration_error(lower, upper, correct).value
    one_run = {"starts": "brier", "confidence_rates": 0.01, "assignment_rates": 0.1, "rho_factors": 1.01}

    def solve(**settings):
        solution = certcal.worstcase.approximate_certified_calibration_error(
            lower, upper, correct, confidence=clean, device="cuda", **settings
        )
        torch.cuda.synchronize()
        return solution.value

    for compiled in (False, True):
        word = "compiled" if compiled else "eager"
        start = time.perf_counter()
        solve(compile=compiled), solve(compile=compiled, **one_run)
        warm = time.perf_counter() - start
        values: dict[str, float] = {}

        def timed(name, settings, compiled=compiled, values=values):
            values[name] = solve(compile=compiled, **settings)

        times = medians({"grid": lambda: timed("grid", {}), "one": lambda: timed("one", one_run)}, repeats=5)
        note = f"{in_ms(times)}, first calls {warm:.1f} s; grid {values['grid']:.4f}, exact {exact_value:.4f}"
        yield Figure(
            f"ADMM, {word}: 16-run grid over one run, N = 7000", times["grid"] / times["one"], "×", 2, note=note
        )
        yield Figure(f"ADMM, {word}: 16-run grid, N = 7000, T = 3000", times["grid"], "s", 5)
