"""The loop that drives the paper's ADMM. Paper: Sec. 3.4, Alg. 1."""

from typing import Any

from certcal.threads import threads_worth
from certcal.types import FloatArray
from certcal.worstcase.admm import initialise, make_step
from certcal.worstcase.diagnostics import Recorder
from certcal.worstcase.feasible import best_feasible
from certcal.worstcase.problem import WorstCaseProblem
from certcal.worstcase.settings import AdmmSettings
from certcal.worstcase.solution import Solution


def solve_admm(problem: WorstCaseProblem, confidence: FloatArray, settings: AdmmSettings) -> Solution:
    """The best feasible point that any run of the grid passes through."""
    program, state = initialise(problem, confidence, settings)
    advance = make_step(settings)
    recorder = Recorder(settings.snapshots) if settings.diagnostics else None
    with threads_worth(state.a.numel(), state.a.device):
        for _ in range(settings.steps):
            if recorder:
                recorder.watch(program, state)
            state = advance(program, state)
    stats: dict[str, Any] = {"steps": settings.steps}
    if recorder:
        recorder.watch(program, state)
        stats |= recorder.results()
    return best_feasible(
        problem,
        bins=state.best_bins.cpu().numpy(),
        confidence=state.best_confidence.double().cpu().numpy(),
        runs=settings.runs(),
        stats=stats,
    )
