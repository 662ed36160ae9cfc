"""The approximate solvers: the loop that drives the paper's ADMM, what it can record, and two baselines.

The baselines are gradient ascent on the dECE, and the Brier confidences. Every solver's best point is made feasible to
the last bit. Paper: Sec. 3.4, Alg. 1; Sec. 5.2, App. G.1 (its figures show what is recorded), G.3 and M.2.   Errs: low.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certcal.inputs import check_device, contiguous
from certcal.metrics import soft_bin_lines, sum_by_bin
from certcal.threads import threads_worth
from certcal.types import FloatArray, IntArray
from certcal.worstcase.admm import Program, State, initialise, make_step, onto_bounds, project
from certcal.worstcase.closed_form import brier_confidences
from certcal.worstcase.exact import in_whole_bins
from certcal.worstcase.problem import Kind, Solution, Status, WorstCaseProblem
from certcal.worstcase.settings import AdmmSettings, DeceSettings

_SNAPSHOT = 150  # entries of a, in the paper's order a_{1,1}, …, a_{1,M}, a_{2,1}, …


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
    return _best_feasible(
        problem,
        bins=state.best_bins.cpu().numpy(),
        confidence=state.best_confidence.double().cpu().numpy(),
        runs=settings.runs(),
        stats=stats,
    )


def solve_dece(problem: WorstCaseProblem, confidence: FloatArray, settings: DeceSettings) -> Solution:
    """The best point passed by projected gradient ascent on the dECE, over all starts at once."""
    like: dict[str, Any] = {"device": check_device("device", settings.device), "dtype": torch.float64}
    low, high, correct, cutoffs = (
        torch.as_tensor(contiguous(part), **like)
        for part in (problem.lower, problem.upper, problem.correct, problem.bins.edges[1:-1])
    )
    lines = [torch.as_tensor(part, **like) for part in soft_bin_lines(problem.bins.edges)]
    z = torch.as_tensor(_starting_points(problem, confidence, settings), **like)
    best, best_error = z, _hard_error(z, correct, cutoffs)
    with threads_worth(z.numel() * len(problem.bins), z.device):
        for temperature in np.geomspace(settings.first_temperature, settings.last_temperature, settings.steps):
            gradient = _soft_gradient(z, correct, lines, float(temperature))
            z = z + settings.rate * gradient.clamp(-settings.gradient_clip, settings.gradient_clip)
            z = torch.minimum(torch.maximum(z, low), high)
            error = _hard_error(z, correct, cutoffs)
            better = error > best_error
            best, best_error = torch.where(better[:, None], z, best), torch.where(better, error, best_error)
    points = best.cpu().numpy()
    return _best_feasible(
        problem,
        bins=np.stack([problem.bins.assign(point) for point in points]),
        confidence=points,
        runs=[{"start": start} for start in settings.starts],
        stats={"steps": settings.steps},
    )


def solve_brier(problem: WorstCaseProblem) -> Solution:
    """The calibration error of the confidences that maximise the Brier score."""
    point = brier_confidences(problem)
    return _best_feasible(
        problem,
        bins=problem.bins.assign(point)[None],
        confidence=point[None],
        runs=[{"start": "brier"}],
        stats={},
        status=Status.EVALUATED,
    )


def _best_feasible(
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
    low = np.maximum(problem.lower, problem.bins.bottoms[bins])
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
    found = Solution(
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
    return in_whole_bins(found, problem.bins)


def _starting_points(problem: WorstCaseProblem, confidence: FloatArray, settings: DeceSettings) -> FloatArray:
    """One row per start, within the bounds, shape (starts, n)."""
    rng = np.random.default_rng(settings.seed)
    middle, width = (problem.lower + problem.upper) / 2, problem.upper - problem.lower
    points = {
        "clean": confidence,
        "brier": brier_confidences(problem),
        "uniform": problem.lower + width * rng.random(len(width)),
        "gaussian": middle + width / 4 * rng.standard_normal(len(width)),
    }
    return np.clip(np.stack([points[start] for start in settings.starts]), problem.lower, problem.upper)


def _soft_gradient(z: Tensor, correct: Tensor, lines: list[Tensor], temperature: float) -> Tensor:
    """∂ (N · dECE) / ∂ z, shape (starts, n), written out from App. M.1.

    With s = softmax((w z + b) / τ), e = c − z and t the signs of S'e:  Σ_m t_m (−s_m + e s_m (w_m − Σ_k s_k w_k) / τ).
    """
    slope, offset = lines
    soft = torch.softmax((z[..., None] * slope + offset) / temperature, dim=-1)  # (starts, n, b)
    gap = (correct - z)[..., None]
    weighted = soft * (soft * gap).sum(dim=1, keepdim=True).sign()
    spread = slope - (soft * slope).sum(dim=-1, keepdim=True)
    return (weighted * (gap * spread / temperature - 1)).sum(dim=-1)


def _hard_error(z: Tensor, correct: Tensor, cutoffs: Tensor) -> Tensor:
    """The plain calibration error of each row, shape (starts,)."""
    bins = torch.bucketize(z, cutoffs, right=True)
    sums = z.new_zeros(len(z), len(cutoffs) + 1).scatter_add(1, bins, correct - z)
    return sums.abs().sum(dim=1) / z.shape[1]


class Recorder:
    """Collects one row of diagnostics per step, on the device, and hands them out as arrays at the end."""

    def __init__(self, snapshots: tuple[int, ...]) -> None:
        self._steps_to_keep = frozenset(snapshots)
        self._rows: list[dict[str, Tensor]] = []
        self._snapshots: dict[int, Tensor] = {}

    def watch(self, program: Program, state: State) -> None:
        """Record the state before the first step and after each one."""
        step = len(self._rows)
        if step in self._steps_to_keep:
            self._snapshots[step] = state.a.transpose(1, 2).flatten(1)[:, :_SNAPSHOT].clone()
        self._rows.append(lagrangian_terms(program, state) | constraint_distances(program, state))

    def results(self) -> dict[str, Any]:
        """`history`: name → array (steps + 1, runs). `snapshots`: step → array (runs, 150)."""
        history = {
            name: torch.stack([row[name] for row in self._rows]).double().cpu().numpy() for name in self._rows[0]
        }
        snapshots = {step: np.asarray(a.double().cpu()) for step, a in self._snapshots.items()}
        return {"history": history, "snapshots": snapshots}


def lagrangian_terms(program: Program, state: State) -> dict[str, Tensor]:
    """The augmented Lagrangian and its parts, each of shape (runs,), without the indicator functions."""
    a, z, rho = state.a, state.z, state.rho[:, 0, 0]

    def penalty(dual: Tensor, residual: Tensor) -> Tensor:
        return (dual * residual).sum(dim=(1, 2)) + rho / 2 * residual.square().sum(dim=(1, 2))

    objective = ((program.correct - z) * a).sum(dim=2).abs().sum(dim=1)
    terms = {
        "box": penalty(state.dual1, a - state.q1),
        "sphere": penalty(state.dual2, a - state.q2),
        "unique": penalty(state.dual3, a.sum(dim=1, keepdim=True) - 1),
        "valid": penalty(state.dual4, (program.blocked * a).sum(dim=1, keepdim=True)),
        "confidence": penalty(state.dual5, z - state.g),
    }
    return terms | {
        "lagrangian": -objective + torch.stack(list(terms.values())).sum(dim=0),
        "relaxed_error": objective / a.shape[2],
        "projected_error": project(program, state)[2],
    }


def constraint_distances(program: Program, state: State) -> dict[str, Tensor]:
    """Distance of (a, z) to each constraint set in the 1 and ∞ norms, each of shape (runs,)."""
    a, z = state.a, state.z
    residuals = {
        "confidence": z - onto_bounds(z, program.low, program.high),
        "binary": a - (a > 0.5).to(a.dtype),
        "unique": a.sum(dim=1, keepdim=True) - 1,
        "valid": (program.blocked * a).sum(dim=1, keepdim=True),
    }
    distances = {}
    for name, residual in residuals.items():
        distances[f"{name}_distance_1"] = residual.abs().sum(dim=(1, 2))
        distances[f"{name}_distance_inf"] = residual.abs().amax(dim=(1, 2))
    return distances
