"""What people wait for when they ask for the best guarantee: a map of scores, a pooled claim, more temperatures."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

import certcal
from bench.harness import Figure, fresh_level, in_ms, medians
from bench.smoothing import SIGMA, synthetic_evidence
from certcal.models import build_model
from certcal.recalibration import CANDIDATES, choose_map, fit_nested, fit_score_map
from certcal.worstcase import pooled_calibration_error

INPUTS, DRAWS = 10_000, 10_000
# Threads that wait for each other on a busy machine count as busy themselves; OMP_NUM_THREADS=1 leaves them out.
_CPU = f"CPU time, threads: {torch.get_num_threads()}; at least what a quiet machine takes"


def figures() -> Iterator[Figure]:
    """For 10 000 inputs on evidence in memory, limits and bounds included; a choice; and what temperatures cost."""
    evidence = synthetic_evidence(INPUTS, DRAWS)
    right = np.random.default_rng(1).random(INPUTS) < evidence.confidence
    evidence = replace(evidence, label=np.where(right, 0, 1))
    radii = [SIGMA / 2, SIGMA, 2 * SIGMA]
    calls = {
        "map": lambda: fit_score_map(evidence, radii=radii, alpha=fresh_level()),
        "descent": lambda: fit_score_map(evidence, radii=radii, alpha=fresh_level(), objective="calibration"),
        "nested": lambda: fit_nested(evidence, radii=radii, alpha=fresh_level()),
        "choice": lambda: choose_map(evidence.select(slice(1000)), radii=SIGMA, alpha=fresh_level()),
        "claim": lambda: pooled_calibration_error(evidence, radius=SIGMA, alpha=fresh_level(), delta=fresh_level()),
    }
    times = medians(calls, repeats=3, clock=time.process_time)
    size = f"{INPUTS:,} inputs × 256 cells × 3 radii".replace(",", " ")
    yield Figure(f"exact map of scores, {size}", times["map"], "s", 5, note=_CPU)
    yield Figure(f"map of scores for the calibration error, {size}", times["descent"], "s", 5, note=_CPU)
    yield Figure(f"map of scores and of the mean by cross-validation, {size}", times["nested"], "s", 5, note=_CPU)
    chosen = f"{len(CANDIDATES)} ways to make a map, each compared on four parts; {_CPU}"
    yield Figure("choice of a map on 1000 inputs", times["choice"], "s", 20, note=chosen)
    yield Figure("pooled claim, 10 000 inputs × 10 000 draws", times["claim"], "s", 10, note=_CPU)
    yield temperatures()


def temperatures() -> Figure:
    """How much more CPU time three temperatures cost than one: medians of passes in turns, so that load hits both."""
    model = build_model("lenet", classes=10, channels=1, size=28).eval()
    data = torch.rand(4, 1, 28, 28), torch.zeros(4, dtype=torch.int64)

    def draw(counted: tuple[float, ...] | None) -> None:
        certcal.collect_evidence(
            model, data, sigma=0.5, n=500, n0=10, temperatures=counted, device="cpu", progress=False
        )

    calls = {"one": lambda: draw(None), "three": lambda: draw((1.0, 0.5, 0.25))}
    times = medians(calls, repeats=25, clock=time.process_time)
    note = in_ms(times) + " of CPU time, 2000 draws of a LeNet, medians of 25 in turns"
    return Figure(
        "three temperatures instead of one, more time", 100 * (times["three"] / times["one"] - 1), "%", 3, note=note
    )
