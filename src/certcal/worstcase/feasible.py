"""From an approximate solver's best points to a Solution that is feasible to the last bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from certcal.metrics import sum_by_bin
from certcal.types import FloatArray, IntArray
from certcal.worstcase.problem import WorstCaseProblem
from certcal.worstcase.solution import Kind, Solution, Status


def best_feasible(
    problem: WorstCaseProblem,
    *,
    bins: IntArray,
    confidence: FloatArray,
    runs: list[dict[str, Any]],
    stats: Mapping[str, Any],
    status: Status = Status.STOPPED,
) -> Solution:
    """The best of several runs, each given by its bins and confidences, shape (runs, n).

    Confidences are moved into their bin and bounds in float64 and the calibration error is measured there, so that the
    value is attained by the witness whatever precision the solver worked in.
    """
    low = np.maximum(problem.lower, problem.bins.edges[bins])
    high = np.minimum(problem.upper, problem.bins.tops[bins])
    if not (low <= high).all():
        raise AssertionError("a solver chose a bin that its input cannot reach")
    witnesses = np.clip(confidence, low, high)
    sums = [
        sum_by_bin(chosen, problem.correct - witness, len(problem.bins))
        for chosen, witness in zip(bins, witnesses, strict=True)
    ]
    errors = [float(np.abs(per_bin).sum() / len(problem.lower)) for per_bin in sums]
    best = int(np.argmax(errors))
    return Solution(
        value=errors[best],
        kind=Kind.LOWER,
        confidence=witnesses[best],
        bins=bins[best].astype(np.int16),
        signs=np.where(sums[best] >= 0, 1, -1).astype(np.int32),
        status=status,
        stats={
            "inputs": len(problem.lower),
            "runs": [run | {"value": error} for run, error in zip(runs, errors, strict=True)],
            **stats,
        },
    )
