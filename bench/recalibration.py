"""What people wait for when they ask for the best guarantee: a map of scores, and a claim pooled over inputs."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.harness import Figure, medians
from bench.smoothing import SIGMA, synthetic_evidence
from certcal.recalibration import fit_score_map
from certcal.worstcase import pooled_calibration_error

INPUTS, DRAWS = 10_000, 10_000


def figures() -> Iterator[Figure]:
    """Both for 10 000 inputs on evidence in memory; limits and bounds included."""
    evidence = synthetic_evidence(INPUTS, DRAWS)
    right = np.random.default_rng(1).random(INPUTS) < evidence.confidence
    evidence = replace(evidence, label=np.where(right, 0, 1))
    radii = [SIGMA / 2, SIGMA, 2 * SIGMA]
    calls = {
        "map": lambda: fit_score_map(evidence, radii=radii, alpha=0.001),
        "claim": lambda: pooled_calibration_error(evidence, radius=SIGMA, alpha=0.001, delta=0.001),
    }
    times = medians(calls, repeats=3)
    yield Figure("exact map of scores, 10 000 inputs × 256 cells × 3 radii", times["map"], "s", 5)
    yield Figure("pooled claim, 10 000 inputs × 10 000 draws", times["claim"], "s", 10)
