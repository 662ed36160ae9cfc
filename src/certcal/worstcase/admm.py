"""The paper's approximation of the certified calibration error: ADMM on its mixed-integer program.

Paper: Sec. 3.4, Alg. 1, App. E.3 (Lagrangian), E.4 (updates), G.1–G.2 (what makes it work), I.1 (the grid of 16 runs).
Errs: low. ADMM returns a feasible point, so its value is at most the true worst case and certifies nothing.

All runs of a hyperparameter grid are one tensor program: variables have shape (runs, b, n), settings (runs, 1, 1).
The inputs run along the last axis, where memory is contiguous, so that sums over bins and over inputs are both fast.
The sparse matrices C, K and E of the paper are dense sums and products here. Of the projections onto its sets
(App. E.4) each docstring is the problem solved.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from certcal.inputs import check_device, contiguous
from certcal.types import FloatArray
from certcal.worstcase.closed_form import brier_confidences
from certcal.worstcase.problem import WorstCaseProblem
from certcal.worstcase.settings import AdmmSettings


class Program(NamedTuple):
    """What stays fixed over the steps."""

    correct: Tensor  # c, (1, 1, n)
    low: Tensor  # l', (1, b, n), zero where inaccessible
    high: Tensor  # u', (1, b, n), zero where inaccessible
    blocked: Tensor  # k, (1, b, n), 1 where inaccessible
    barrier: Tensor  # (1, b, n), ∞ where inaccessible
    confidence_rate: Tensor  # α_z, (runs, 1, 1)
    assignment_rate: Tensor  # α_a, (runs, 1, 1)
    rho_factor: Tensor  # (runs, 1, 1)


class State(NamedTuple):
    """Primal and dual variables, (runs, b, n) unless said otherwise, and the best feasible point so far."""

    a: Tensor
    z: Tensor
    g: Tensor
    q1: Tensor
    q2: Tensor
    dual1: Tensor
    dual2: Tensor
    dual3: Tensor  # (runs, 1, n)
    dual4: Tensor  # (runs, 1, n)
    dual5: Tensor
    rho: Tensor  # (runs, 1, 1), shared by all constraints
    best_error: Tensor  # (runs,)
    best_bins: Tensor  # (runs, n)
    best_confidence: Tensor  # (runs, n)


def initialise(problem: WorstCaseProblem, confidence: FloatArray, settings: AdmmSettings) -> tuple[Program, State]:
    """The program's constants and the starting point: a = 1 / M everywhere, z clean or Brier, duals zero."""
    runs = settings.runs()
    like: dict[str, Any] = {"device": check_device("device", settings.device), "dtype": getattr(torch, settings.dtype)}
    low, high, blocked = (torch.as_tensor(part.T.copy(), **like)[None] for part in per_bin_bounds(problem))
    bins, inputs = low.shape[1], low.shape[2]

    def per_run(name: str) -> Tensor:
        return torch.tensor([run[name] for run in runs], **like).reshape(-1, 1, 1)

    program = Program(
        torch.as_tensor(contiguous(problem.correct), **like).reshape(1, 1, -1),
        low,
        high,
        blocked,
        torch.where(blocked > 0, torch.inf, 0.0).to(blocked),
        per_run("confidence_rate"),
        per_run("assignment_rate"),
        per_run("rho_factor"),
    )
    starts = {"clean": confidence, "brier": brier_confidences(problem)}
    first = torch.as_tensor(np.stack([starts[run["start"]] for run in runs]), **like)[:, None, :]
    z = first * (1 - blocked)  # "for these instances, we set z to 0"
    a = torch.full((len(runs), bins, inputs), 1 / bins, **like)
    none, row = torch.zeros_like(a), torch.zeros(len(runs), 1, inputs, **like)
    state = State(
        a, z, onto_bounds(z, low, high), a, a, none, none, row, row, none,
        torch.full((len(runs), 1, 1), settings.rho, **like),
        torch.full((len(runs),), -1.0, **like),
        torch.as_tensor(problem.bins.assign(problem.lower), device=like["device"]).long().repeat(len(runs), 1),
        torch.as_tensor(contiguous(problem.lower), **like).repeat(len(runs), 1),
    )  # fmt: skip
    return program, state


def per_bin_bounds(problem: WorstCaseProblem) -> tuple[FloatArray, FloatArray, FloatArray]:
    """l', u' and k of the paper's program, shape (n, b): bounds within each bin, and which bins are out of reach.

    A point interval reaches its own bin, where the paper's k = 1{l ≥ u} would leave it none.
    """
    bins, number = problem.bins, np.arange(len(problem.bins))
    first, last = bins.assign(problem.lower)[:, None], bins.assign(problem.upper)[:, None]
    reached = (first <= number) & (number <= last)
    low = np.where(reached, np.maximum(problem.lower[:, None], bins.edges[:-1]), 0.0)
    high = np.where(reached, np.minimum(problem.upper[:, None], bins.edges[1:]), 0.0)
    return low, high, (~reached).astype(np.float64)


def make_step(settings: AdmmSettings) -> Callable[[Program, State], State]:
    """One step of Algorithm 1 followed by the projection of a copy, compiled if asked for."""

    def advance(program: Program, state: State) -> State:
        return keep_best(program, step(program, state, settings))

    if not settings.compile:
        return advance

    # Plain tuples cross the border of the compiled code: torch 2.11 trips over named ones.
    @torch.compile(dynamic=False)
    def compiled(program: tuple[Tensor, ...], state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(advance(Program(*program), State(*state)))

    return lambda program, state: State(*compiled(tuple(program), tuple(state)))


def step(program: Program, state: State, settings: AdmmSettings) -> State:
    """One pass through the loop of Algorithm 1.

    Gradients are written out. With v = λ / ρ + x, a split variable is q = Π(v) and its dual step λ + ρ (x − q) is
    ρ (v − q), so each dual update costs one subtraction.
    """
    z, rho = state.z, state.rho
    a = updated_assignment(program, state, settings)  # Alg. 1, line 2
    gradient = bin_signs(program, a, z) * a + state.dual5 + rho * (z - state.g)
    z = z - program.confidence_rate * gradient  # Alg. 1, line 3
    v5 = state.dual5 / rho + z
    g = onto_bounds(v5, program.low, program.high)  # Alg. 1, line 4
    state = state._replace(a=a, z=z, g=g, dual5=rho * (v5 - g))  # Alg. 1, line 7 for λ_5
    return settle_assignment(program, state, settings)  # Alg. 1, lines 5–7


def bin_signs(program: Program, a: Tensor, z: Tensor) -> Tensor:
    """Signs of E(z)' a, shape (runs, b, 1)."""
    return (a * (program.correct - z)).sum(dim=2, keepdim=True).sign()


def updated_assignment(program: Program, state: State, settings: AdmmSettings) -> Tensor:
    """One gradient step in a, at the confidences z of the state. Alg. 1, line 2."""
    a, rho = state.a, state.rho
    gap = program.correct - state.z  # e_{n,m} = c_n − z_{n,m}
    per_input = state.dual3 + rho * (a.sum(dim=1, keepdim=True) - 1)
    per_blocked = state.dual4 + rho * (program.blocked * a).sum(dim=1, keepdim=True)
    gradient = (
        state.dual1 + state.dual2 + rho * (2 * a - state.q1 - state.q2)
        + per_input + program.blocked * per_blocked - bin_signs(program, a, state.z) * gap
    )  # fmt: skip
    gradient = gradient.clamp(-settings.gradient_clip, settings.gradient_clip)
    a = a - program.assignment_rate * gradient
    limit = settings.value_clip * (state.q2 - 0.5).abs().amax(dim=(1, 2), keepdim=True)
    limit = torch.where(limit > 0, limit, torch.inf)  # two bins start at the centre, where it would allow nothing
    return a.clamp(0.5 - limit, 0.5 + limit)


def settle_assignment(program: Program, state: State, settings: AdmmSettings) -> State:
    """The split variables and duals that belong to a, and the next ρ. Alg. 1, lines 5–7."""
    a, rho = state.a, state.rho
    v1 = state.dual1 / rho + a
    q1 = onto_box(v1)
    v2 = state.dual2 / rho + a
    q2 = onto_sphere(v2)
    return state._replace(
        q1=q1, q2=q2,
        dual1=rho * (v1 - q1),
        dual2=rho * (v2 - q2),
        dual3=state.dual3 + rho * (a.sum(dim=1, keepdim=True) - 1),
        dual4=state.dual4 + rho * (program.blocked * a).sum(dim=1, keepdim=True),
        rho=(rho * program.rho_factor).clamp(max=settings.rho_cap),
    )  # fmt: skip


def keep_best(program: Program, state: State) -> State:
    """Project a copy of (a, z) onto the feasible set and keep it if its calibration error is the largest so far.

    The largest error is passed well before convergence (App. G.1).
    """
    bins, confidence, error = project(program, state)
    # A run that has diverged to NaN may choose anything; only accessible bins are kept.
    inside = program.barrier.expand_as(state.a).gather(1, bins[:, None]).sum(dim=(1, 2)) == 0
    better = inside & (error > state.best_error)
    return state._replace(
        best_error=torch.where(better, error, state.best_error),
        best_bins=torch.where(better[:, None], bins, state.best_bins),
        best_confidence=torch.where(better[:, None], confidence, state.best_confidence),
    )


def project(program: Program, state: State) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest feasible point: bins (runs, n), confidences (runs, n), and its calibration error (runs,)."""
    bins = onto_assignments(state.a, program.barrier)
    inside = onto_bounds(state.z, program.low, program.high)
    confidence = inside.gather(1, bins[:, None]).squeeze(1)
    gap = program.correct[0] - confidence
    sums = gap.new_zeros(state.a.shape[:2]).scatter_add(1, bins, gap)
    return bins, confidence, sums.abs().sum(dim=1) / state.a.shape[2]


@dataclass(eq=False)
class Assignments:
    """ADMM's assignment of confidences to bins, which takes one step for each of the inputs'. Paper: Alg. 2."""

    program: Program
    state: State
    settings: AdmmSettings

    @classmethod
    def even(cls, problem: WorstCaseProblem, confidence: FloatArray, settings: AdmmSettings) -> "Assignments":
        """Alg. 2, t = 1: a = 1 / M, duals 0; the problem says which bins each input can reach (K), and c."""
        return cls(*initialise(problem, confidence, settings), settings)

    def pushes(self, confidence: Tensor) -> Tensor:
        """Which way each confidence goes to raise ‖E(z)' a‖_1 at a^(t−1), shape (n,); and on to a^(t).

        That is the sign of −Σ_m s_m a_{n,m}.
        """
        spread = confidence.to(self.state.z).expand_as(self.state.z)  # h: z^(t−1), the same in every bin
        state = self.state._replace(z=spread)
        push = -(bin_signs(self.program, state.a, spread) * state.a).sum(dim=1).sign().squeeze(0)
        a = updated_assignment(self.program, state, self.settings)  # a^(t), from z^(t−1)
        self.state = settle_assignment(self.program, state._replace(a=a), self.settings)  # q_1, q_2, λ and ρ
        return push


def onto_box(point: Tensor) -> Tensor:
    """argmin ‖q − point‖₂ subject to q ∈ S_b = [0, 1]^{NM}."""
    return point.clamp(0.0, 1.0)


def onto_sphere(point: Tensor) -> Tensor:
    """argmin ‖q − point‖₂ subject to q ∈ S_2, the sphere through the corners of the unit cube, per run.

    S_2 has centre ½·1 and radius √(NM) / 2; together with the box it leaves exactly the binary vectors. All of the
    sphere is nearest to its centre, where two bins make ADMM start: the corner 1 is taken.
    """
    ray = point - 0.5
    length: Tensor = torch.linalg.vector_norm(ray, dim=(1, 2), keepdim=True)
    radius = math.sqrt(point.shape[1] * point.shape[2]) / 2
    return 0.5 + torch.where(length > 0, ray * (radius / length), 0.5)


def onto_bounds(point: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """argmin ‖g − point‖₂ subject to g ∈ S_z, i.e. l' ≤ g ≤ u' entry by entry."""
    return torch.minimum(torch.maximum(point, low), high)


def onto_assignments(point: Tensor, barrier: Tensor) -> Tensor:
    """argmin ‖a − point‖₂ subject to a binary, one bin per input (C'a = 1), none inaccessible (K'a = 0).

    Returned as the chosen bin of each input, shape (runs, n): the accessible bin with the largest entry.
    `barrier` is ∞ where a bin is inaccessible and 0 elsewhere, shape (1, b, n).
    """
    # Along this axis `max` finds indices ten times faster than `argmax`.
    return (point - barrier).max(dim=1).indices
