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
from certcal.recalibration import fit_score_map
from certcal.worstcase import pooled_calibration_error

INPUTS, DRAWS = 10_000, 10_000
_CPU = "seconds of CPU time, all threads together: at least what a quiet machine takes"


def figures() -> Iterator[Figure]:
    """Both for 10 000 inputs on evidence in memory, limits and bounds included; and what temperatures cost."""
    evidence = synthetic_evidence(INPUTS, DRAWS)
    right = np.random.default_rng(1).random(INPUTS) < evidence.confidence
    evidence = replace(evidence, label=np.where(right, 0, 1))
    radii = [SIGMA / 2, SIGMA, 2 * SIGMA]
    calls = {
        "map": lambda: fit_score_map(evidence, radii=radii, alpha=fresh_level()),
        "claim": lambda: pooled_calibration_error(evidence, radius=SIGMA, alpha=fresh_level(), delta=fresh_level()),
    }
    times = medians(calls, repeats=3, clock=time.process_time)
    yield Figure("exact map of scores, 10 000 inputs × 256 cells × 3 radii", times["map"], "s", 5, note=_CPU)
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
